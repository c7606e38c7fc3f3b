# librlx (shared and static, from objects compiled once) and the rlx command.

if(NOT RLX_ONEDNN STREQUAL "OFF")
  find_package(dnnl CONFIG QUIET)
  if(NOT dnnl_FOUND AND RLX_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "oneDNN was asked for (RLX_ONEDNN=ON) and not found")
  endif()
endif()
if(dnnl_FOUND)
  message(STATUS "oneDNN ${dnnl_VERSION}")
else()
  message(STATUS "oneDNN: not used")
endif()

# Vulkan's headers alone: the loader is opened at run time.
set(RLX_VULKAN_HEADERS)
if(NOT RLX_VULKAN STREQUAL "OFF")
  find_path(RLX_VULKAN_INCLUDE vulkan/vulkan_core.h)
  if(RLX_VULKAN_INCLUDE)
    set(RLX_VULKAN_HEADERS ON)
  elseif(RLX_VULKAN STREQUAL "ON")
    message(FATAL_ERROR "Vulkan was asked for (RLX_VULKAN=ON) and its headers were not found")
  endif()
endif()
if(RLX_VULKAN_HEADERS)
  message(STATUS "Vulkan: headers in ${RLX_VULKAN_INCLUDE}")
else()
  message(STATUS "Vulkan: not used")
endif()

set(rlx_globs)
foreach(folder IN ITEMS base ir ops grad onnx pass plan backend backend/cpu backend/cpu/kernels
  backend/gpu backend/gpu/kernels backend/metal backend/record runtime check)
  list(APPEND rlx_globs src/${folder}/*.c)
endforeach()
if(dnnl_FOUND)
  list(APPEND rlx_globs src/backend/cpu/onednn/*.c)
endif()
list(APPEND rlx_globs src/backend/vulkan/*.c)
file(GLOB rlx_sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${rlx_globs})
if(RLX_VULKAN_HEADERS)
  list(REMOVE_ITEM rlx_sources src/backend/vulkan/absent.c)
else()
  list(FILTER rlx_sources EXCLUDE REGEX "^src/backend/vulkan/")
  list(APPEND rlx_sources src/backend/vulkan/absent.c)
endif()
if(NOT rlx_sources)
  message(STATUS "src/ has no library source yet")
  return()
endif()

# Packages that are part of the library, present without asking: the folders of packages/ with a C file of their own name
# that has no CMakeLists.txt beside it.
file(GLOB rlx_folders CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} packages/*)
set(rlx_linked_packages)
foreach(folder IN LISTS rlx_folders)
  get_filename_component(name ${folder} NAME)
  if(EXISTS ${CMAKE_SOURCE_DIR}/${folder}/${name}.c AND NOT EXISTS ${CMAKE_SOURCE_DIR}/${folder}/CMakeLists.txt)
    file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${folder}/*.c)
    list(APPEND rlx_sources ${sources})
    list(APPEND rlx_linked_packages ${name})
  endif()
endforeach()

foreach(source IN LISTS rlx_sources)
  if(source MATCHES "^(src/(ops|backend/cpu)|packages)/")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${rlx_fast}")
  endif()
endforeach()

# builtin_modules.c lists the constant that each op and kernel file defines: ops first, then cpu, portable, oneDNN.
# A file whose name begins with _ is support code, and so is oneDNN's adapter.
function(rlx_list_modules)
  foreach(source IN LISTS rlx_sources)
    get_filename_component(noun ${source} NAME_WE)
    if(noun MATCHES "^_")
      continue()
    elseif(source MATCHES "^src/ops/")
      list(APPEND ops ops_${noun})
    elseif(source MATCHES "^src/backend/cpu/kernels/")
      list(APPEND cpu cpu_${noun})
    elseif(source MATCHES "^src/backend/gpu/kernels/")
      list(APPEND gpu gpu_${noun})
    elseif(source MATCHES "^src/backend/cpu/onednn/" AND NOT noun MATCHES "^adapter")
      list(APPEND onednn onednn_${noun})
    endif()
  endforeach()
  foreach(name IN LISTS rlx_linked_packages)
    string(APPEND externs "extern const rlx_package rlx_package_${name};\n")
    string(APPEND packages "    &rlx_package_${name},\n")
  endforeach()
  foreach(module IN LISTS ops cpu gpu onednn)
    string(APPEND externs "extern const rlx_module ${module};\n")
    string(APPEND entries "    &${module},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/builtin_modules.c @ONLY CONTENT
"// The built-in modules, found by the build in src/ops and src/backend: made by cmake/RlxLibrary.cmake.
#include \"ir/module.h\"

#include <stddef.h>

@externs@
const rlx_module *const rlx_builtin_modules[] = {
@entries@    NULL,
};

const rlx_package *const rlx_linked_packages[] = {
@packages@    NULL,
};
")
endfunction()
rlx_list_modules()
if(EXISTS ${CMAKE_SOURCE_DIR}/src/ir/module.h)
  list(APPEND rlx_sources ${CMAKE_BINARY_DIR}/builtin_modules.c)
endif()

add_library(rlx_objects OBJECT ${rlx_sources})
set_target_properties(rlx_objects PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
target_compile_definitions(rlx_objects PRIVATE
  RLX_BUILDING
  RLX_VERSION_STRING="${PROJECT_VERSION}")
target_link_libraries(rlx_objects PUBLIC rlx_private PkgConfig::CJSON OpenMP::OpenMP_C Threads::Threads
  ${CMAKE_DL_LIBS} m)
if(dnnl_FOUND)
  target_compile_definitions(rlx_objects PUBLIC RLX_HAVE_ONEDNN=1)
  target_link_libraries(rlx_objects PUBLIC DNNL::dnnl)
endif()

# The names end users link: librlx.so; its dependencies stay private.
add_library(rlx SHARED)
target_link_libraries(rlx PRIVATE rlx_objects)
target_include_directories(rlx INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(rlx PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${RLX_SOVERSION} LINKER_LANGUAGE C)
if(NOT APPLE AND NOT RLX_SANITIZE)
  target_link_options(rlx PRIVATE -Wl,--no-undefined)
endif()

# librlx.a: for tests and fuzzers, which may reach internals.
add_library(rlx_static STATIC)
target_link_libraries(rlx_static PUBLIC rlx_objects)
set_target_properties(rlx_static PROPERTIES OUTPUT_NAME rlx LINKER_LANGUAGE C)

file(GLOB rlx_cli_sources CONFIGURE_DEPENDS src/cli/*.c)
if(rlx_cli_sources)
  add_executable(rlx_command ${rlx_cli_sources})
  set_target_properties(rlx_command PROPERTIES
    OUTPUT_NAME rlx
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  target_link_libraries(rlx_command PRIVATE rlx_private rlx PkgConfig::CJSON m)
  target_compile_definitions(rlx_command PRIVATE RLX_VERSION_STRING="${PROJECT_VERSION}")
endif()
