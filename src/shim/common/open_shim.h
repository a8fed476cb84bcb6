/* SPDX-License-Identifier: Apache-2.0
 * How a stub or a layer inside a program opens libweir-shim.so, which lies beside it, or at WEIR_SHIM_FROM_HERE. */
#ifndef WEIR_SHIM_COMMON_OPEN_SHIM_H
#define WEIR_SHIM_COMMON_OPEN_SHIM_H

#ifdef __cplusplus
extern "C" {
#endif

/* Opens the shim and returns the result of its function `name`: a struct that begins with its version, an unsigned.
 * Returns NULL if WEIR_ATTACH is not set, and, after one message on stderr, if the shim is missing or has another
 * version. `find`: dlsym; libc's own if the caller replaces dlsym. */
const void* weir_open_shim(const char* name, unsigned version, void* (*find)(void* handle, const char* name));

#ifdef __cplusplus
}
#endif
#endif
