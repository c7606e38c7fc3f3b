# What every target shares: compiler flags, sanitizers, dependencies, and the functions that add packages and
# examples.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

find_program(RLX_CCACHE ccache)
if(RLX_CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${RLX_CCACHE})
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
find_path(RLX_XXHASH_INCLUDE xxhash.h REQUIRED)

# rlx_flags: of all our C code. rlx_private: of code that may see src/.
add_library(rlx_flags INTERFACE)
# Fused multiply-adds only where the code asks for them: the same bits from every compiler.
target_compile_options(rlx_flags INTERFACE -ffp-contract=off)
target_compile_options(rlx_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes)
target_include_directories(rlx_flags INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
target_compile_definitions(rlx_flags INTERFACE _GNU_SOURCE)
if(RLX_WERROR)
  target_compile_options(rlx_flags INTERFACE -Werror)
endif()
# Kernels and reference evaluations want the vectoriser; floating-point results stay IEEE (no -ffast-math).
# A loop that clang cannot vectorise is no defect: -Wno-pass-failed.
set(rlx_fast $<$<NOT:$<CONFIG:Debug>>:-O3> -fno-math-errno -fno-trapping-math
  $<$<C_COMPILER_ID:Clang,AppleClang>:-Wno-pass-failed>)
if(RLX_SANITIZE STREQUAL "address")
  set(rlx_sanitize -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
elseif(RLX_SANITIZE STREQUAL "thread")
  set(rlx_sanitize -fsanitize=thread -fno-omit-frame-pointer)
elseif(RLX_SANITIZE)
  message(FATAL_ERROR "RLX_SANITIZE is '${RLX_SANITIZE}'; it takes address or thread")
endif()
if(RLX_SANITIZE)
  target_compile_options(rlx_flags INTERFACE ${rlx_sanitize})
  target_link_options(rlx_flags INTERFACE ${rlx_sanitize})
endif()
add_library(rlx_private INTERFACE)
target_include_directories(rlx_private INTERFACE ${CMAKE_SOURCE_DIR}/src ${RLX_XXHASH_INCLUDE})
target_link_libraries(rlx_private INTERFACE rlx_flags)

# A package: build/packages/librlx-NAME.so, which sees include/ only. NAME is also a target, rlx-NAME.
function(rlx_build_package name)
  add_library(rlx-${name} MODULE ${ARGN})
  target_link_libraries(rlx-${name} PRIVATE rlx_flags rlx)
  set_target_properties(rlx-${name} PROPERTIES
    C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/packages
    INSTALL_RPATH "$ORIGIN/.."
    SUFFIX .so)
endfunction()

# A package that is installed too, beside librlx.so in rlx/: of the sources given, or of all C files of the folder, and
# its README.md. LINK targets or libraries follow the sources.
function(rlx_add_package name)
  cmake_parse_arguments(PARSE_ARGV 1 package "" "" "LINK")
  set(sources ${package_UNPARSED_ARGUMENTS})
  if(NOT sources)
    file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.c)
  endif()
  rlx_build_package(${name} ${sources})
  target_include_directories(rlx-${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_options(rlx-${name} PRIVATE ${rlx_fast})
  target_link_libraries(rlx-${name} PRIVATE ${package_LINK} m)
  install(TARGETS rlx-${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/rlx)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/README.md)
    install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/packages RENAME ${name}.md)
  endif()
endfunction()

# Adds every FOLDER/NAME that has a CMakeLists.txt; what it builds goes to build/FOLDER.
function(rlx_add_folders folder)
  if(NOT TARGET rlx)
    return()
  endif()
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
  file(GLOB lists CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${folder}/*/CMakeLists.txt)
  foreach(list IN LISTS lists)
    get_filename_component(sub ${list} DIRECTORY)
    add_subdirectory(${sub} ${CMAKE_BINARY_DIR}/CMakeFiles/${sub})
  endforeach()
endfunction()
