# ctest entries: one per tests/test_*.c (label unit), per tests/cmd/*.sh (label cmd), and per ONNX suite (label
# suite).

set(rlx_test_env
  "RLX=${CMAKE_BINARY_DIR}/rlx" "BUILD=${CMAKE_BINARY_DIR}" "SRC=${CMAKE_SOURCE_DIR}" "SANITIZE=${RLX_SANITIZE}"
  "RLX_PACKAGE_PATH=${CMAKE_BINARY_DIR}/packages"
  "MESA_SHADER_CACHE_DIR=${CMAKE_BINARY_DIR}/mesa-cache" "RLX_PIPELINE_CACHE=${CMAKE_BINARY_DIR}/pipeline-cache")
if(RLX_SANITIZE STREQUAL "address")
  # Unit tests hold the library, and packages that they open bring librlx.so: its variables exist twice, by design.
  list(APPEND rlx_test_env "ASAN_OPTIONS=detect_leaks=1:detect_odr_violation=0" "UBSAN_OPTIONS=print_stacktrace=1")
elseif(RLX_SANITIZE STREQUAL "thread")
  list(APPEND rlx_test_env "TSAN_OPTIONS=ignore_noninstrumented_modules=1:second_deadlock_stack=1")
  string(REGEX MATCH "^[0-9]+" rlx_llvm "${CMAKE_C_COMPILER_VERSION}")
  set(rlx_archer /usr/lib/llvm-${rlx_llvm}/lib/libarcher.so)
  if(EXISTS ${rlx_archer})
    list(APPEND rlx_test_env "OMP_TOOL_LIBRARIES=${rlx_archer}")
  else()
    message(WARNING "libarcher was not found: OpenMP regions will be reported as races")
  endif()
endif()

if(RLX_FULL)
  list(APPEND rlx_test_env "RLX_FULL=1") # tests that take samples take larger ones
endif()

# Adds one ctest entry with the common environment. Exit code 77 means that the test cannot run here.
function(rlx_add_test name label timeout)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES
    LABELS ${label} TIMEOUT ${timeout} SKIP_RETURN_CODE 77 ENVIRONMENT "${rlx_test_env}")
endfunction()

file(GLOB rlx_test_sources CONFIGURE_DEPENDS tests/test_*.c)
file(GLOB rlx_test_support CONFIGURE_DEPENDS tests/support/*.c)
if(TARGET rlx_objects AND rlx_test_sources)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
  set(rlx_test_objects)
  if(rlx_test_support)
    add_library(rlx_test_support OBJECT ${rlx_test_support})
    target_link_libraries(rlx_test_support PRIVATE rlx_objects PkgConfig::CMOCKA)
    target_include_directories(rlx_test_support PRIVATE tests)
    set(rlx_test_objects $<TARGET_OBJECTS:rlx_test_support>)
  endif()
endif()
foreach(source IN LISTS rlx_test_sources)
  if(TARGET rlx_objects)
    get_filename_component(noun ${source} NAME_WE)
    # The whole library is linked and its public symbols exported, so that a package opened by a test finds them there.
    add_executable(${noun} ${source} ${rlx_test_objects})
    target_link_libraries(${noun} PRIVATE rlx_objects PkgConfig::CMOCKA)
    target_include_directories(${noun} PRIVATE tests)
    set_target_properties(${noun} PROPERTIES ENABLE_EXPORTS ON RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    string(REGEX REPLACE "^test_" "unit." entry ${noun})
    rlx_add_test(${entry} unit 300 $<TARGET_FILE:${noun}>)
  endif()
endforeach()

# The fuzz targets over their committed inputs: what was found once stays found, also without a fuzzer.
file(GLOB rlx_fuzz_sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
foreach(source IN LISTS rlx_fuzz_sources)
  if(TARGET rlx_objects)
    get_filename_component(noun ${source} NAME_WE)
    string(REGEX REPLACE "^fuzz_" "" target ${noun})
    set(seeds tests/fuzz/corpus/${target})
    if(target STREQUAL "text")
      list(APPEND seeds tests/graphs tests/passes)
    endif()
    add_executable(replay_${target} ${source} tests/fuzz/_replay.c tests/support/graph_equal.c)
    target_link_libraries(replay_${target} PRIVATE rlx_objects)
    target_include_directories(replay_${target} PRIVATE tests)
    set_target_properties(replay_${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    rlx_add_test(unit.${noun} unit 300 $<TARGET_FILE:replay_${target}> ${seeds})
  endif()
endforeach()

if(TARGET rlx_command)
  file(GLOB rlx_test_scripts CONFIGURE_DEPENDS tests/cmd/*.sh)
  foreach(script IN LISTS rlx_test_scripts)
    get_filename_component(noun ${script} NAME_WE)
    if(NOT noun MATCHES "^_")
      rlx_add_test(cmd.${noun} cmd 600 bash ${script})
      if(noun STREQUAL "gpu_suites") # software devices are slow at the light models
        set_tests_properties(cmd.${noun} PROPERTIES TIMEOUT 3600)
        if(RLX_FULL)
          set_property(TEST cmd.${noun} APPEND PROPERTY ENVIRONMENT "GPU_SHARE=all")
        endif()
      endif()
    endif()
  endforeach()

  # Folders of ONNX test cases: those small enough for sanitizers, those of `make test`, and those of `make test-full`.
  set(rlx_suites tests/models build/models/silero-vad)
  if(NOT RLX_SANITIZE)
    list(APPEND rlx_suites build/onnx-suite/light build/onnx-suite/light-random)
  endif()
  if(RLX_FULL)
    list(APPEND rlx_suites build/onnx-suite/node build/onnx-suite/simple build/onnx-suite/pytorch-converted
      build/onnx-suite/pytorch-operator build/models)
  endif()
  foreach(suite IN LISTS rlx_suites)
    if(EXISTS ${CMAKE_SOURCE_DIR}/${suite})
      string(REGEX REPLACE "^build/" "" entry ${suite})
      rlx_add_test(suite.${entry} suite 1800 $<TARGET_FILE:rlx_command> test ${suite} --contested tests/contested.txt)
    endif()
  endforeach()

  # Cases of packages' ops: found by domain, or named where a package is registered only on request.
  file(GLOB rlx_package_suites CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} tests/packages/*/tolerances.txt)
  foreach(suite IN LISTS rlx_package_suites)
    get_filename_component(suite ${suite} DIRECTORY)
    get_filename_component(name ${suite} NAME)
    set(named)
    if(name STREQUAL "llada2")
      set(named --ops llada2)
    endif()
    rlx_add_test(suite.packages/${name} suite 300 $<TARGET_FILE:rlx_command> test ${suite} ${named})
  endforeach()
endif()

add_subdirectory(tests/softmetal)
