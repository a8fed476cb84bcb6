/* SPDX-License-Identifier: Apache-2.0
 * How a stub or a layer inside a program opens libweir-shim.so, which lies beside it. */
#ifndef WEIR_SHIM_COMMON_OPEN_SHIM_H
#define WEIR_SHIM_COMMON_OPEN_SHIM_H

#ifdef __cplusplus
extern "C" {
#endif

/* The result of the shim's function `name`: a struct that begins with an unsigned, its version. NULL where WEIR_ATTACH
 * is not set, and, after one message on stderr, where the shim is missing or has another version. `find`: dlsym, the
 * driver's own where the caller replaces it. */
const void* weir_open_shim(const char* name, unsigned version, void* (*find)(void* handle, const char* name));

#ifdef __cplusplus
}
#endif
#endif
