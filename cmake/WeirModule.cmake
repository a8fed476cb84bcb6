# SPDX-License-Identifier: Apache-2.0
# weir_module(): one call makes a module, its unit tests, its benchmarks and its fuzzers.
#
#   weir_module(core
#     SOURCES schedule/reserve.cc ...        # weir_core, linking exactly what src/LAYERS allows
#     TESTS   schedule/reserve_test.cc ...   # one ctest program, weir_core_test
#     BENCHES schedule/decide_bench.cc ...   # weir_core_bench; ctest runs each for one iteration, but for what has `long` in its name
#     FUZZERS schedule/engine_fuzz.cc ...    # libFuzzer with WEIR_FUZZERS; under the sanitizers a replay of tests/corpus/engine_fuzz
#     FUZZERS_SLOW ...                       # the same, but that the replay is of the files themselves and no variations
#     PCH     <nlohmann/json.hpp> ...        # heavy headers that most of its sources include (tests have theirs); OF_SERVICES: those of http
#     LINKS   fmt::fmt ...                   # libraries from outside
#     BUSY                                   # its tests compute for seconds
#     THREADS                                # its tests run under the thread sanitizer too
#     THREADS_LONG                           # likewise, with scripts/test --long only: it waits on sockets for most of its time
#     SANITIZED_LONG)                        # its tests run under the address sanitizer with scripts/test --long only:
#                                            # it reads nobody's memory or wire; dev checks its containers' bounds
#     UNSANITIZED)                           # they never do, to save time

# Reads src/LAYERS once: WEIR_MODULE_DEPS_<name>, WEIR_MODULE_PURE_<name>.
file(STRINGS ${CMAKE_SOURCE_DIR}/src/LAYERS weir_layer_lines REGEX "^[a-z]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/LAYERS)
foreach(line IN LISTS weir_layer_lines)
  if(NOT line MATCHES "^([a-z]+) *(pure)? *:(.*)$")
    message(FATAL_ERROR "src/LAYERS: cannot read the line '${line}'; expected 'NAME [pure]: DEP DEP'")
  endif()
  string(STRIP "${CMAKE_MATCH_3}" deps)
  separate_arguments(deps)
  set(WEIR_MODULE_PURE_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
  set(WEIR_MODULE_DEPS_${CMAKE_MATCH_1} "${deps}")
endforeach()

# Warnings are errors for our own code; libraries' headers are SYSTEM and stay out of it.
add_library(weir_flags INTERFACE)
target_compile_options(weir_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror
                       $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
# A fused multiply and add rounds once where two instructions round twice, so that a decision would depend on the
# compiler and on the processor; simulated runs are the same everywhere.
target_compile_options(weir_flags INTERFACE -ffp-contract=off)
target_include_directories(weir_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(weir_flags INTERFACE Threads::Threads)
# What is compiled once and thrown away needs no debug information, but where a sanitizer is to name lines; and g++ spends up to
# a tenth of its time collecting garbage to stay below some hundred MiB.
if(WEIR_UNITY AND NOT WEIR_SANITIZE)
  target_compile_options(weir_flags INTERFACE -g0 $<$<C_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>)
endif()
if(WEIR_SANITIZE)
  target_compile_options(weir_flags INTERFACE -fsanitize=${WEIR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(weir_flags INTERFACE -fsanitize=${WEIR_SANITIZE})
  # Programs too, so that one precompiled header does for all.
  target_compile_options(weir_flags INTERFACE -fPIC)
  # g++ takes what the instrumentation adds for uses of uninitialised variables.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(weir_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
if(WEIR_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "WEIR_FUZZERS needs clang: use the preset 'fuzz', or set CMAKE_C_COMPILER and CMAKE_CXX_COMPILER")
  endif()
  # The modules tell libFuzzer where they went; only the fuzz programs link its main().
  target_compile_options(weir_flags INTERFACE -fsanitize=fuzzer-no-link)
  add_custom_target(fuzzers)
endif()

# What tests are excused from. These two are linked last, so that they come after weir_flags on the command line.
# Most tests run for a moment, and are compiled more often than that: under the address sanitizer -O0 takes half of
# -O1's time, without it four fifths. Those that compute for seconds are busy.
foreach(flags weir_test_flags weir_busy_test_flags)
  add_library(${flags} INTERFACE)
  target_include_directories(${flags} INTERFACE ${CMAKE_SOURCE_DIR})  # "tests/harness/..."
endforeach()
target_compile_options(weir_test_flags INTERFACE -Wno-conversion -O0)
target_compile_options(weir_busy_test_flags INTERFACE -Wno-conversion -O1)

# Benchmarks are measured in release alone; elsewhere each runs once, to show that it does.
add_library(weir_bench_flags INTERFACE)
target_include_directories(weir_bench_flags INTERFACE ${CMAKE_SOURCE_DIR})  # "tests/harness/..."
target_compile_options(weir_bench_flags INTERFACE $<$<NOT:$<CONFIG:Release>>:-O0>)

# What the sanitizers do in tests: stop at the first finding, by a signal that a test can't take for an exit status.
set(WEIR_TEST_ENVIRONMENT
    ASAN_OPTIONS=abort_on_error=1:detect_stack_use_after_return=1
    UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1
    TSAN_OPTIONS=abort_on_error=1:halt_on_error=1:second_deadlock_stack=1)
# ccache with a base_dir makes __FILE__ relative.
list(APPEND WEIR_TEST_ENVIRONMENT WEIR_GOLDEN=${CMAKE_SOURCE_DIR}/tests/golden)
if(WEIR_SANITIZE)
  # Laws are drawn 100 times without the sanitizers, which take twenty times as long for each.
  list(APPEND WEIR_TEST_ENVIRONMENT RC_PARAMS=max_success=25)
endif()

# With WEIR_UNITY, a target's files are compiled a batch at a time, of up to forty: what their common headers
# instantiate is compiled once a batch, and there are targets enough for two processors. A name in an anonymous namespace
# is therefore its module's, not its file's; the same goes for a module's tests.
function(weir_unity name)
  if(NOT WEIR_UNITY)
    return()
  endif()
  get_target_property(sources ${name} SOURCES)
  list(LENGTH sources count)
  math(EXPR batches "(${count} + 39) / 40")
  math(EXPR size "(${count} + ${batches} - 1) / ${batches}")
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
endfunction()

# Tests that also run under the sanitizers: label `sanitize` under the preset asan, label `threads` under tsan, and labels
# `sanitize_long` and `threads_long` under these with scripts/test --long.
foreach(label sanitize threads sanitize_long threads_long)
  add_custom_target(${label}_tests)
endforeach()
add_dependencies(sanitize_long_tests sanitize_tests)
add_dependencies(threads_long_tests threads_tests)

# A test program and its ctest entry. SECONDS bounds it: a hang is a failure, not a wait.
# LABELS: sanitize (runs under asan too), threads (runs under tsan too), sanitize_long, threads_long (with scripts/test --long),
# e2e (with real programs), long (only with scripts/test --long).
# NEEDS: our programs and libraries that it starts or loads, built along with it. BUSY: it computes for seconds.
function(weir_gtest name)
  cmake_parse_arguments(ARG "BUSY" "SECONDS" "SOURCES;LINKS;LABELS;NEEDS" ${ARGN})
  if(NOT WEIR_TESTS)
    return()
  endif()
  if(NOT ARG_SECONDS)
    set(ARG_SECONDS 120)
  endif()
  set(flags weir_test_flags)
  if(ARG_BUSY)
    set(flags weir_busy_test_flags)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  weir_unity(${name})
  target_link_libraries(${name} PRIVATE weir_flags ${ARG_LINKS} GTest::gtest GTest::gtest_main rapidcheck
                        nlohmann_json::nlohmann_json ${flags})
  if(ARG_NEEDS)
    add_dependencies(${name} ${ARG_NEEDS})
  endif()
  # The first one's precompiled header does for all that are compiled with the same flags. rapidcheck is not in it: what
  # its headers instantiate would be compiled again by each file, and most have no use for it. As one unit, busy tests
  # read the headers once without it.
  get_property(first GLOBAL PROPERTY WEIR_FIRST_GTEST_${flags})
  if(first)
    target_precompile_headers(${name} REUSE_FROM ${first})
  elseif(NOT (ARG_BUSY AND WEIR_UNITY))
    set_property(GLOBAL PROPERTY WEIR_FIRST_GTEST_${flags} ${name})
    target_precompile_headers(${name} PRIVATE <gtest/gtest.h> <nlohmann/json.hpp>)
  endif()
  foreach(label sanitize threads sanitize_long threads_long)
    if(${label} IN_LIST ARG_LABELS)
      add_dependencies(${label}_tests ${name})
    endif()
  endforeach()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_SECONDS} LABELS "${ARG_LABELS}"
                       ENVIRONMENT "${WEIR_TEST_ENVIRONMENT}")
endfunction()

# For code that waits more than it computes, and is never measured but in release: what -O2 adds to compiling it is not
# worth it elsewhere. (At -O1 g++ 12 sees ghosts in std::string.)
function(weir_less_optimised target)
  if(NOT WEIR_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Release>>:-O1;-Wno-array-bounds>)
  endif()
endfunction()

# For services that wait for others, and whose headers (JSON, HTTP, timers) take long to compile.
function(weir_unoptimised target)
  if(NOT WEIR_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Release>>:-O0>)
  endif()
endfunction()

# A service's program. The services' precompiled header does for it too, if it is compiled as libraries are.
function(weir_service_program name)
  weir_unoptimised(${name})
  if(NOT WEIR_SANITIZE)
    target_compile_options(${name} PRIVATE -fPIC)
    target_precompile_headers(${name} REUSE_FROM weir_http)
  endif()
endfunction()

# With a third argument (--whole) the replay is of the corpus' files alone, and not of variations of each.
function(weir_fuzzer module source)
  get_filename_component(stem ${source} NAME_WE)
  set(name weir_${module}_${stem})
  if(WEIR_FUZZERS)
    add_executable(${name} ${source})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name} PRIVATE weir_flags weir_${module} weir_busy_test_flags)
    add_dependencies(fuzzers ${name})
  elseif(WEIR_TESTS AND WEIR_SANITIZE)
    # Without libFuzzer the same target replays its corpus, so that a found input stays found.
    if(NOT TARGET weir_fuzz_replay)
      add_library(weir_fuzz_replay OBJECT ${CMAKE_SOURCE_DIR}/tests/harness/fuzz_replay.cc)
      target_link_libraries(weir_fuzz_replay PRIVATE weir_flags weir_test_flags)
    endif()
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE weir_flags weir_${module} weir_fuzz_replay weir_test_flags)
    add_dependencies(sanitize_tests ${name})
    add_test(NAME ${name}_replay COMMAND ${name} ${ARGN} ${CMAKE_SOURCE_DIR}/tests/corpus/${stem})
    set_tests_properties(${name}_replay PROPERTIES TIMEOUT 60 LABELS "fuzz;sanitize"
                         ENVIRONMENT "${WEIR_TEST_ENVIRONMENT}")
  endif()
endfunction()

function(weir_module name)
  cmake_parse_arguments(ARG "BUSY;THREADS;THREADS_LONG;UNSANITIZED;SANITIZED_LONG" "" "SOURCES;TESTS;BENCHES;FUZZERS;FUZZERS_SLOW;LINKS;PCH" ${ARGN})
  if(NOT DEFINED WEIR_MODULE_DEPS_${name})
    message(FATAL_ERROR "module '${name}' has no line in src/LAYERS")
  endif()
  add_library(weir_${name} STATIC ${ARG_SOURCES})
  if(WEIR_SANITIZE AND WEIR_TESTS AND NOT name STREQUAL base)
    # All is compiled with the same flags there, and clang reads of a precompiled header what is used of it.
    target_precompile_headers(weir_${name} REUSE_FROM weir_base_test)
  elseif(ARG_PCH STREQUAL OF_SERVICES)
    target_precompile_headers(weir_${name} REUSE_FROM weir_http)
  elseif(ARG_PCH)
    target_precompile_headers(weir_${name} PRIVATE ${ARG_PCH})
  endif()
  weir_unity(weir_${name})
  target_link_libraries(weir_${name} PUBLIC weir_flags ${ARG_LINKS})
  foreach(dep IN LISTS WEIR_MODULE_DEPS_${name})
    target_link_libraries(weir_${name} PUBLIC weir_${dep})
  endforeach()
  if(ARG_TESTS)
    set(labels)
    if(ARG_SANITIZED_LONG)
      list(APPEND labels sanitize_long)
    elseif(NOT ARG_UNSANITIZED)
      list(APPEND labels sanitize)
    endif()
    if(ARG_THREADS)
      list(APPEND labels threads)
    elseif(ARG_THREADS_LONG)
      list(APPEND labels threads_long)
    endif()
    set(busy)
    if(ARG_BUSY)
      set(busy BUSY)
    endif()
    weir_gtest(weir_${name}_test ${busy} SOURCES ${ARG_TESTS} LINKS weir_${name} LABELS ${labels})
  endif()
  if(ARG_BENCHES AND WEIR_BENCHES)
    add_executable(weir_${name}_bench ${ARG_BENCHES})
    weir_unity(weir_${name}_bench)
    target_link_libraries(weir_${name}_bench PRIVATE weir_flags weir_${name} weir_bench_flags benchmark::benchmark
                          benchmark::benchmark_main)
    if(WEIR_TESTS)
      add_test(NAME weir_${name}_bench_smoke COMMAND weir_${name}_bench --benchmark_min_time=0 --benchmark_filter=-long)
      set_tests_properties(weir_${name}_bench_smoke PROPERTIES TIMEOUT 60 LABELS bench)
    endif()
  endif()
  foreach(fuzzer IN LISTS ARG_FUZZERS)
    weir_fuzzer(${name} ${fuzzer})
  endforeach()
  foreach(fuzzer IN LISTS ARG_FUZZERS_SLOW)
    weir_fuzzer(${name} ${fuzzer} --whole)
  endforeach()
  if(WEIR_MODULE_PURE_${name} AND WEIR_TESTS)
    add_test(NAME purity_${name} COMMAND ${CMAKE_SOURCE_DIR}/scripts/check-purity $<TARGET_FILE:weir_${name}>)
  endif()
endfunction()
