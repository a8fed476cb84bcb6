# SPDX-License-Identifier: Apache-2.0
# With WEIR_HARDEN, all programs, libraries, modules and generated code are compiled and linked so that a memory error
# is more likely to end a program than to change what it does. scripts/check-hardening checks the built files. The
# presets release and demo set it; docs/perf/hardening.md has its cost.
if(NOT WEIR_HARDEN)
  return()
endif()
if(WEIR_SANITIZE OR NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  message(FATAL_ERROR "WEIR_HARDEN is for CMAKE_BUILD_TYPE=Release without sanitizers: _FORTIFY_SOURCE needs an optimised build")
endif()

# Position-independent programs: CMAKE_POSITION_INDEPENDENT_CODE sets it for the compiler, this for the linker.
include(CheckPIESupported)
check_pie_supported(OUTPUT_VARIABLE pie_output LANGUAGES C CXX)
if(NOT CMAKE_CXX_LINK_PIE_SUPPORTED)
  message(FATAL_ERROR "the linker makes no position-independent programs: ${pie_output}")
endif()

include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-fcf-protection WEIR_HAS_CF_PROTECTION)  # x86 only
add_compile_options(-fstack-protector-strong -fstack-clash-protection $<$<BOOL:${WEIR_HAS_CF_PROTECTION}>:-fcf-protection>
                    -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 $<$<COMPILE_LANGUAGE:CXX>:-D_GLIBCXX_ASSERTIONS>)
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
