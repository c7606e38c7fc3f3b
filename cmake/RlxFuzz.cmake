# Fuzzers (clang's libFuzzer): one program per tests/fuzz/fuzz_*.c, in build/fuzz. The library is built with coverage
# and sanitizers as well, so use a build folder of its own: cmake -B build-fuzz
# -DCMAKE_C_COMPILER=clang -DRLX_FUZZ=ON.

if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "RLX_FUZZ needs clang: -DCMAKE_C_COMPILER=clang")
endif()
target_compile_options(rlx_flags INTERFACE -fsanitize=fuzzer-no-link)

file(GLOB rlx_fuzz_sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
set(rlx_fuzz_support tests/support/graph_equal.c)
add_custom_target(fuzzers)
foreach(source IN LISTS rlx_fuzz_sources)
  get_filename_component(noun ${source} NAME_WE)
  add_executable(${noun} ${source} ${rlx_fuzz_support} $<TARGET_OBJECTS:rlx_objects>)
  target_link_libraries(${noun} PRIVATE rlx_objects)
  target_include_directories(${noun} PRIVATE tests)
  target_link_options(${noun} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers ${noun})
  set_target_properties(${noun} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endforeach()
