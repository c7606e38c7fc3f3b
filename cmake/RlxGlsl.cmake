# librlx-glsl.so: GLSL to SPIR-V, around glslang's C interface. Optional: without glslang, kernels that are not shipped
# compiled cannot be compiled, and say so.

set(RLX_GLSL AUTO CACHE STRING "Build the GLSL compiler library: AUTO, ON or OFF")
find_path(RLX_GLSLANG_INCLUDE glslang/Include/glslang_c_interface.h)
set(rlx_glslang)
foreach(name IN ITEMS glslang MachineIndependent GenericCodeGen OSDependent OGLCompiler SPIRV SPIRV-Tools-opt
    SPIRV-Tools glslang-default-resource-limits)
  find_library(RLX_LIB_${name} ${name})
  if(RLX_LIB_${name})
    list(APPEND rlx_glslang ${RLX_LIB_${name}})
  endif()
endforeach()
if(RLX_GLSL STREQUAL "OFF" OR NOT RLX_GLSLANG_INCLUDE OR NOT RLX_LIB_glslang OR NOT TARGET rlx)
  if(RLX_GLSL STREQUAL "ON")
    message(FATAL_ERROR "glslang was asked for (RLX_GLSL=ON) and not found")
  endif()
  message(STATUS "glslang: not used")
  return()
endif()
message(STATUS "glslang: ${RLX_LIB_glslang}")

add_library(rlx_glsl MODULE src/backend/glsl/glsl.c)
target_include_directories(rlx_glsl SYSTEM PRIVATE ${RLX_GLSLANG_INCLUDE})
target_link_libraries(rlx_glsl PRIVATE rlx_private -Wl,--start-group ${rlx_glslang} -Wl,--end-group stdc++ m
  Threads::Threads)
# Nothing of the compiler is seen from outside.
target_link_options(rlx_glsl PRIVATE -Wl,--exclude-libs,ALL)
set_target_properties(rlx_glsl PROPERTIES OUTPUT_NAME rlx-glsl PREFIX lib SUFFIX .so C_VISIBILITY_PRESET hidden)
install(TARGETS rlx_glsl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
