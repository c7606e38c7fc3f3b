# make install: library, headers, command, pkg-config and CMake package files, licences, bash completion.

if(NOT TARGET rlx)
  return()
endif()
include(CMakePackageConfigHelpers)

install(TARGETS rlx EXPORT RlxTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/rlx DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET rlx_command)
  install(TARGETS rlx_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(EXPORT RlxTargets NAMESPACE Rlx:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Rlx)
configure_package_config_file(cmake/RlxConfig.cmake.in RlxConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Rlx)
write_basic_package_version_file(RlxConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/RlxConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/RlxConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Rlx)

file(RELATIVE_PATH rlx_prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/rlx.pc.in rlx.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rlx.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES LICENSE LICENSES.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(EXISTS ${CMAKE_SOURCE_DIR}/src/cli/completion.bash)
  install(FILES src/cli/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME rlx)
endif()
