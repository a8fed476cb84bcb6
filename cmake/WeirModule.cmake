# SPDX-License-Identifier: Apache-2.0
# weir_module(): one call makes a module, its unit tests, its benchmarks and its fuzzers.
#
#   weir_module(core
#     SOURCES schedule/reserve.cc ...        # weir_core, linking exactly what src/LAYERS allows
#     TESTS   schedule/reserve_test.cc ...   # one ctest program, weir_core_test
#     BENCHES schedule/decide_bench.cc ...   # weir_core_bench; ctest runs each once, except `long` ones and 9,999 vGPUs
#     FUZZERS schedule/engine_fuzz.cc ...    # libFuzzer with WEIR_FUZZERS; under the sanitizers a replay of tests/corpus/engine_fuzz
#     FUZZERS_SLOW ...                       # the same, but the replay has no variations of the files
#     PCH     <nlohmann/json.hpp> ...        # heavy headers of most sources (not tests); OF_SERVICES: those of http
#     LINKS   fmt::fmt ...                   # third-party libraries
#     BUSY                                   # its tests compute for seconds
#     THREADS                                # its tests run under the thread sanitizer too
#     THREADS_LONG                           # the same, with scripts/test --long only: it mostly waits on sockets
#     SANITIZED_LONG)                        # its tests run under the address sanitizer with scripts/test --long only:
#                                            # it reads no untrusted memory or messages; dev checks
#                                            # its containers' bounds
#     UNSANITIZED                            # they never do, to save time
#     SHARDS  3)                             # under the sanitizers its tests are three programs that run side by side

# Reads src/LAYERS once into WEIR_MODULES, WEIR_MODULE_DEPS_<name> and WEIR_MODULE_PURE_<name>. The library of a module is
# weir_<name>, with '_' for '/'.
file(STRINGS ${CMAKE_SOURCE_DIR}/src/LAYERS weir_layer_lines REGEX "^[a-z]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/LAYERS)
foreach(line IN LISTS weir_layer_lines)
  if(NOT line MATCHES "^([a-z]+(/[a-z]+)?) *(pure)? *:(.*)$")
    message(FATAL_ERROR "src/LAYERS: cannot read the line '${line}'; expected 'NAME [pure]: DEP DEP'")
  endif()
  set(module ${CMAKE_MATCH_1})
  string(STRIP "${CMAKE_MATCH_4}" deps)
  separate_arguments(deps)
  list(APPEND WEIR_MODULES ${module})
  set(WEIR_MODULE_PURE_${module} "${CMAKE_MATCH_3}")
  set(WEIR_MODULE_DEPS_${module} "${deps}")
endforeach()

# Warnings are errors in this project's code. Libraries' headers are SYSTEM and give no warnings.
add_library(weir_flags INTERFACE)
target_compile_options(weir_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror
                       $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
# A fused multiply-add rounds once where two instructions round twice. Without fusing, decisions and simulated runs are
# the same for every compiler and processor.
target_compile_options(weir_flags INTERFACE -ffp-contract=off)
target_include_directories(weir_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(weir_flags INTERFACE Threads::Threads)
# Development builds need no debug information, except with a sanitizer, which reports lines. g++ otherwise spends up to
# a tenth of its time on garbage collection to stay below some hundred MiB.
if(WEIR_UNITY AND NOT WEIR_SANITIZE)
  target_compile_options(weir_flags INTERFACE -g0 $<$<C_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>)
endif()
# A precompiled header without the time of its sources is the same for ccache (scripts/lib.sh).
target_compile_options(weir_flags INTERFACE "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
# Also for programs, so that they share precompiled headers with libraries.
if(WEIR_SANITIZE OR (WEIR_UNITY AND CMAKE_CXX_COMPILER_ID MATCHES Clang))
  target_compile_options(weir_flags INTERFACE -fPIC)
endif()
# lld links in a quarter of the time. With a sanitizer it is needed; otherwise it is used where scripts/test builds.
find_program(WEIR_LLD ld.lld)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND (WEIR_SANITIZE OR (WEIR_UNITY AND WEIR_LLD)))
  target_link_options(weir_flags INTERFACE -fuse-ld=lld)
endif()
if(WEIR_SANITIZE)
  target_compile_options(weir_flags INTERFACE -fsanitize=${WEIR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(weir_flags INTERFACE -fsanitize=${WEIR_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(weir_flags INTERFACE -fsanitize-ignorelist=${CMAKE_SOURCE_DIR}/cmake/sanitizer-ignore.txt)
  endif()
  # With the sanitizers' instrumentation, g++ reports false uses of uninitialised variables.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(weir_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
# Standard headers that are precompiled. Only with WEIR_UNITY: elsewhere each file shows that it includes what it uses.
set(WEIR_STANDARD_HEADERS)
if(WEIR_UNITY)
  set(WEIR_STANDARD_HEADERS <algorithm> <atomic> <chrono> <condition_variable> <deque> <filesystem> <fstream> <functional>
    <map> <memory> <mutex> <optional> <set> <span> <sstream> <string> <thread> <unordered_map> <variant> <vector>)
endif()
# They are compiled once for each level of optimisation, for what has no other precompiled header: reading them takes a
# third of a small unit's time.
function(weir_standard_headers)
  if(NOT WEIR_UNITY OR WEIR_SANITIZE OR NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    return()
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/standard_headers.cc CONTENT "// The owner of precompiled headers.\n")
  foreach(level 0 1)
    set(owner weir_standard_headers_O${level})
    add_library(${owner} STATIC ${CMAKE_BINARY_DIR}/standard_headers.cc)
    target_link_libraries(${owner} PRIVATE weir_flags)
    target_compile_options(${owner} PRIVATE -O${level})
    target_precompile_headers(${owner} PRIVATE ${WEIR_STANDARD_HEADERS})
  endforeach()
  weir_targets_below(targets)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    get_target_property(own ${target} PRECOMPILE_HEADERS)
    get_target_property(shared ${target} PRECOMPILE_HEADERS_REUSE_FROM)
    get_target_property(options ${target} COMPILE_OPTIONS)
    get_target_property(sources ${target} SOURCES)
    if(NOT type MATCHES "^(EXECUTABLE|STATIC_LIBRARY|SHARED_LIBRARY|MODULE_LIBRARY|OBJECT_LIBRARY)$" OR own OR shared OR
       NOT libraries MATCHES "weir_" OR NOT sources MATCHES "\\.cc" OR sources MATCHES "\\.c(;|$)" OR
       target MATCHES "^weir_standard_headers")
      continue()
    endif()
    set(level 1)
    if(options MATCHES "-O0" OR libraries MATCHES "weir_(test|bench)_flags")
      set(level 0)
    endif()
    target_precompile_headers(${target} REUSE_FROM weir_standard_headers_O${level})
  endforeach()
endfunction()

if(WEIR_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "WEIR_FUZZERS needs clang: use the preset 'fuzz', or set CMAKE_C_COMPILER and CMAKE_CXX_COMPILER")
  endif()
  # Instruments the modules for libFuzzer; only the fuzz programs link its main().
  target_compile_options(weir_flags INTERFACE -fsanitize=fuzzer-no-link)
  add_custom_target(fuzzers)
endif()

# Flags of tests. These two targets are linked last, so that they follow weir_flags on the command line.
# Most tests run for a moment and are compiled more often than they run: under the address sanitizer -O0 takes half of
# -O1's compile time, without it four fifths. BUSY tests compute for seconds and are optimised.
foreach(flags weir_test_flags weir_busy_test_flags)
  add_library(${flags} INTERFACE)
  target_include_directories(${flags} INTERFACE ${CMAKE_SOURCE_DIR})  # "tests/harness/..."
endforeach()
target_compile_options(weir_test_flags INTERFACE -Wno-conversion -O0)
target_compile_options(weir_busy_test_flags INTERFACE -Wno-conversion -O1)
# scripts/test compiles tests with clang. The warnings of another compiler are no errors there.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(weir_test_flags INTERFACE -Wno-error)
  target_compile_options(weir_busy_test_flags INTERFACE -Wno-error)
endif()

# Benchmarks are measured only in release builds; other builds run each once, to test that it works.
add_library(weir_bench_flags INTERFACE)
target_include_directories(weir_bench_flags INTERFACE ${CMAKE_SOURCE_DIR})  # "tests/harness/..."
target_compile_options(weir_bench_flags INTERFACE $<$<NOT:$<CONFIG:Release>>:-O0>)

# In tests, a sanitizer stops the program at its first finding, by a signal, so that a test cannot mistake it for an
# exit status.
set(WEIR_TEST_ENVIRONMENT
    ASAN_OPTIONS=abort_on_error=1:detect_stack_use_after_return=1
    UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1
    TSAN_OPTIONS=abort_on_error=1:halt_on_error=1:second_deadlock_stack=1)
# With ccache and a base_dir, __FILE__ is a relative path.
list(APPEND WEIR_TEST_ENVIRONMENT WEIR_GOLDEN=${CMAKE_SOURCE_DIR}/tests/golden)
if(WEIR_SANITIZE)
  # Property tests run 100 cases without the sanitizers, which make each case twenty times slower.
  list(APPEND WEIR_TEST_ENVIRONMENT RC_PARAMS=max_success=25)
endif()

# WEIR_UNITY compiles a target's files in batches of up to forty, so that what their common headers instantiate is
# compiled once per batch; there are enough targets for two processors. Names in anonymous namespaces are therefore
# unique within a module, and within a module's tests.
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

# Tests that also run under the sanitizers: label `sanitize` with the preset asan, `threads` with tsan; `sanitize_long`
# and `threads_long` with these presets and scripts/test --long.
foreach(label sanitize threads sanitize_long threads_long)
  add_custom_target(${label}_tests)
endforeach()
add_dependencies(sanitize_long_tests sanitize_tests)
add_dependencies(threads_long_tests threads_tests)

# The targets of this folder and those below.
function(weir_targets_below result)
  set(folders ${CMAKE_CURRENT_SOURCE_DIR})
  set(found)
  while(folders)
    list(POP_FRONT folders folder)
    get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    list(APPEND folders ${below})
    list(APPEND found ${targets})
  endwhile()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# The target `unsanitized`: everything in this folder and below, except benchmarks, and tests that run under the address
# sanitizer anyway.
# KEPT: such tests that are built nevertheless.
function(weir_unsanitized_target)
  cmake_parse_arguments(ARG "" "" "KEPT" ${ARGN})
  get_property(sanitized GLOBAL PROPERTY WEIR_SANITIZED_TESTS)
  if(ARG_KEPT)
    list(REMOVE_ITEM sanitized ${ARG_KEPT})
  endif()
  weir_targets_below(targets)
  set(built)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type MATCHES "^(EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY)$" AND NOT target IN_LIST sanitized AND
       NOT target MATCHES "_bench$")
      list(APPEND built ${target})
    endif()
  endforeach()
  add_custom_target(unsanitized DEPENDS ${built})
endfunction()

# A test program and its ctest entry. SECONDS: its time limit, so that a hang is a failure; several times of what it
# takes on a busy host.
# LABELS: sanitize (runs under asan too), threads (runs under tsan too), sanitize_long, threads_long (with scripts/test
# --long), e2e (with real programs), long (only with scripts/test --long).
# NEEDS: targets that it starts or loads, which are built with it. BUSY: it computes for seconds. SHARDS: under the
# sanitizers it is so many entries, which run beside each other.
function(weir_gtest name)
  cmake_parse_arguments(ARG "BUSY" "SECONDS;SHARDS" "SOURCES;LINKS;LABELS;NEEDS" ${ARGN})
  if(NOT WEIR_TESTS)
    return()
  endif()
  if(NOT ARG_SECONDS)
    set(ARG_SECONDS 300)
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
  # All test targets with the same flags share the first one's precompiled header. It leaves out rapidcheck: each file
  # would compile its instantiations again, and most files do not use it. Busy tests are compiled as one unit, so that
  # they read the headers once anyway.
  get_property(first GLOBAL PROPERTY WEIR_FIRST_GTEST_${flags})
  if(first)
    target_precompile_headers(${name} REUSE_FROM ${first})
  elseif(NOT (ARG_BUSY AND WEIR_UNITY))
    set_property(GLOBAL PROPERTY WEIR_FIRST_GTEST_${flags} ${name})
    target_precompile_headers(${name} PRIVATE <gtest/gtest.h> <nlohmann/json.hpp> ${WEIR_STANDARD_HEADERS})
  endif()
  foreach(label sanitize threads sanitize_long threads_long)
    if(${label} IN_LIST ARG_LABELS)
      add_dependencies(${label}_tests ${name})
    endif()
  endforeach()
  if(sanitize IN_LIST ARG_LABELS)
    set_property(GLOBAL APPEND PROPERTY WEIR_SANITIZED_TESTS ${name})
  endif()
  if(NOT WEIR_SANITIZE OR NOT ARG_SHARDS)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_SECONDS} LABELS "${ARG_LABELS}"
                         ENVIRONMENT "${WEIR_TEST_ENVIRONMENT}")
    return()
  endif()
  foreach(shard RANGE 1 ${ARG_SHARDS})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name}_${shard} COMMAND ${name})
    set_tests_properties(${name}_${shard} PROPERTIES TIMEOUT ${ARG_SECONDS} LABELS "${ARG_LABELS}" COST 50
      ENVIRONMENT "${WEIR_TEST_ENVIRONMENT};GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# For code that mostly waits for other processes or a device and is measured only in release builds: elsewhere an
# optimiser is not worth its time.
function(weir_unoptimised target)
  if(NOT WEIR_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Release>>:-O0>)
  endif()
endfunction()

# A service's program. It shares the services' precompiled header if it is compiled like a library.
function(weir_service_program name)
  weir_unoptimised(${name})
  if(NOT WEIR_SANITIZE)
    target_compile_options(${name} PRIVATE -fPIC)
    target_precompile_headers(${name} REUSE_FROM weir_http)
  endif()
endfunction()

# With --whole as third argument only the corpus' own files are replayed, without variations.
function(weir_fuzzer module source)
  get_filename_component(stem ${source} NAME_WE)
  set(name weir_${module}_${stem})
  if(WEIR_FUZZERS)
    add_executable(${name} ${source})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name} PRIVATE weir_flags weir_${module} weir_busy_test_flags)
    add_dependencies(fuzzers ${name})
  elseif(WEIR_TESTS AND WEIR_SANITIZE)
    # Without libFuzzer the target replays its corpus, so that inputs that were found once are tested on every build.
    if(NOT TARGET weir_fuzz_replay)
      add_library(weir_fuzz_replay OBJECT ${CMAKE_SOURCE_DIR}/tests/harness/fuzz_replay.cc)
      target_link_libraries(weir_fuzz_replay PRIVATE weir_flags weir_test_flags)
    endif()
    add_executable(${name} ${source})
    target_precompile_headers(${name} REUSE_FROM weir_base_test)
    target_link_libraries(${name} PRIVATE weir_flags weir_${module} weir_fuzz_replay weir_test_flags)
    add_dependencies(sanitize_tests ${name})
    add_test(NAME ${name}_replay COMMAND ${name} ${ARGN} ${CMAKE_SOURCE_DIR}/tests/corpus/${stem})
    set_tests_properties(${name}_replay PROPERTIES TIMEOUT 300 LABELS "fuzz;sanitize"
                         ENVIRONMENT "${WEIR_TEST_ENVIRONMENT}")
  endif()
endfunction()

function(weir_module module)
  string(REPLACE / _ name ${module})
  cmake_parse_arguments(ARG "BUSY;THREADS;THREADS_LONG;UNSANITIZED;SANITIZED_LONG" "SHARDS" "SOURCES;TESTS;BENCHES;FUZZERS;FUZZERS_SLOW;LINKS;PCH" ${ARGN})
  if(NOT DEFINED WEIR_MODULE_DEPS_${module})
    message(FATAL_ERROR "module '${module}' has no line in src/LAYERS")
  endif()
  add_library(weir_${name} STATIC ${ARG_SOURCES})
  if(WEIR_SANITIZE AND WEIR_TESTS AND NOT name STREQUAL base)
    # All these targets have the same flags, and clang reads only the used parts of a precompiled header.
    target_precompile_headers(weir_${name} REUSE_FROM weir_base_test)
  elseif(ARG_PCH STREQUAL OF_SERVICES)
    target_precompile_headers(weir_${name} REUSE_FROM weir_http)
  elseif(ARG_PCH)
    target_precompile_headers(weir_${name} PRIVATE ${ARG_PCH})
  endif()
  weir_unity(weir_${name})
  target_link_libraries(weir_${name} PUBLIC weir_flags ${ARG_LINKS})
  foreach(dep IN LISTS WEIR_MODULE_DEPS_${module})
    string(REPLACE / _ dep ${dep})
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
    weir_gtest(weir_${name}_test ${busy} SOURCES ${ARG_TESTS} LINKS weir_${name} LABELS ${labels} SHARDS ${ARG_SHARDS})
  endif()
  if(ARG_BENCHES AND WEIR_BENCHES)
    add_executable(weir_${name}_bench ${ARG_BENCHES})
    weir_unity(weir_${name}_bench)
    target_link_libraries(weir_${name}_bench PRIVATE weir_flags weir_${name} weir_bench_flags benchmark::benchmark
                          benchmark::benchmark_main)
    if(WEIR_TESTS)
      add_test(NAME weir_${name}_bench_smoke COMMAND weir_${name}_bench --benchmark_min_time=0 "--benchmark_filter=-(long|/9999)")
      set_tests_properties(weir_${name}_bench_smoke PROPERTIES TIMEOUT 300 LABELS bench)
    endif()
  endif()
  foreach(fuzzer IN LISTS ARG_FUZZERS)
    weir_fuzzer(${name} ${fuzzer})
  endforeach()
  foreach(fuzzer IN LISTS ARG_FUZZERS_SLOW)
    weir_fuzzer(${name} ${fuzzer} --whole)
  endforeach()
  if(WEIR_MODULE_PURE_${module} AND WEIR_TESTS)
    add_test(NAME purity_${name} COMMAND ${CMAKE_SOURCE_DIR}/scripts/check-purity $<TARGET_FILE:weir_${name}>)
  endif()
endfunction()

# Modules of the command line compute little and have the largest units, so release builds optimise them less than the
# services. (At -O1 g++ 12 gives false warnings about std::string.)
set(WEIR_CLI_OPTIONS $<IF:$<CONFIG:Release>,-O1;-Wno-array-bounds;-Wno-stringop-overflow,-O0>)
set(WEIR_CLI_PCH OF_SERVICES)
if(CMAKE_BUILD_TYPE STREQUAL Release)
  set(WEIR_CLI_PCH <fmt/format.h> <nlohmann/json.hpp>)
endif()
