# SPDX-License-Identifier: Apache-2.0
# With WEIR_HARDEN, everything that is built here, modules and generated code too, is compiled and linked so that a memory
# error more often ends a program than changes what it does. scripts/check-hardening looks for it in the built files. The
# presets release and demo set it; what it costs is in docs/perf/hardening.md.
if(NOT WEIR_HARDEN)
  return()
endif()
if(WEIR_SANITIZE OR NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  message(FATAL_ERROR "WEIR_HARDEN is for CMAKE_BUILD_TYPE=Release without sanitizers: _FORTIFY_SOURCE needs an optimised build")
endif()

# Position-independent programs. CMAKE_POSITION_INDEPENDENT_CODE compiles them so; this links them so.
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
