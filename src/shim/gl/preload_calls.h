/* SPDX-License-Identifier: Apache-2.0
 * GL's own functions that the stub hooks: calls at which a program without presents ends its work. The numbers of the
 * hooks, the functions and the table of names are generated from this list. glFlush and glFinish also end frames of
 * single-buffered windows.
 *   CALL(name, result, parameters, arguments, when)
 *     result  VOID, POINTER or STATUS: the type of the result, and of the result if the driver has no such function
 *     when    the call ends work only if this holds */
#ifndef WEIR_SHIM_GL_PRELOAD_CALLS_H
#define WEIR_SHIM_GL_PRELOAD_CALLS_H

#define WEIR_TYPE_VOID void
#define WEIR_TYPE_POINTER void*
#define WEIR_TYPE_STATUS unsigned

#define WEIR_READ_PIXELS (int x, int y, int width, int height, unsigned format, unsigned type, void* pixels)
#define WEIR_READN_PIXELS (int x, int y, int width, int height, unsigned format, unsigned type, int size, void* pixels)
#define WEIR_READN_ARGUMENTS (x, y, width, height, format, type, size, pixels)
#define WEIR_MAP_RANGE (unsigned target, ptrdiff_t offset, ptrdiff_t length, unsigned access)
#define WEIR_MAP_ARGUMENTS (target, offset, length, access)
#define WEIR_QUERY(type) (unsigned query, unsigned what, type* value)

/* GL_MAP_READ_BIT; GL_READ_ONLY, GL_READ_WRITE; GL_QUERY_RESULT */
#define WEIR_MAPS_RANGE_TO_READ ((access & 1u) != 0)
#define WEIR_MAPS_TO_READ (access == 0x88B8u || access == 0x88BAu)
#define WEIR_ASKS_FOR_RESULT (what == 0x8866u)

#define WEIR_GL_CALLS(CALL)                                                                                            \
  CALL(glFlush, VOID, (void), (), 1)                                                                                   \
  CALL(glFinish, VOID, (void), (), 1)                                                                                  \
  CALL(glReadPixels, VOID, WEIR_READ_PIXELS, (x, y, width, height, format, type, pixels), 1)                           \
  CALL(glReadnPixels, VOID, WEIR_READN_PIXELS, WEIR_READN_ARGUMENTS, 1)                                                \
  CALL(glReadnPixelsARB, VOID, WEIR_READN_PIXELS, WEIR_READN_ARGUMENTS, 1)                                             \
  CALL(glReadnPixelsEXT, VOID, WEIR_READN_PIXELS, WEIR_READN_ARGUMENTS, 1)                                             \
  CALL(glReadnPixelsKHR, VOID, WEIR_READN_PIXELS, WEIR_READN_ARGUMENTS, 1)                                             \
  CALL(glGetTexImage, VOID, (unsigned target, int level, unsigned format, unsigned type, void* pixels),                \
       (target, level, format, type, pixels), 1)                                                                       \
  CALL(glGetTextureImage, VOID, (unsigned texture, int level, unsigned format, unsigned type, int size, void* pixels), \
       (texture, level, format, type, size, pixels), 1)                                                                \
  CALL(glGetBufferSubData, VOID, (unsigned target, ptrdiff_t offset, ptrdiff_t size, void* data),                      \
       (target, offset, size, data), 1)                                                                                \
  CALL(glGetNamedBufferSubData, VOID, (unsigned buffer, ptrdiff_t offset, ptrdiff_t size, void* data),                 \
       (buffer, offset, size, data), 1)                                                                                \
  CALL(glMapBuffer, POINTER, (unsigned target, unsigned access), (target, access), WEIR_MAPS_TO_READ)                  \
  CALL(glMapBufferARB, POINTER, (unsigned target, unsigned access), (target, access), WEIR_MAPS_TO_READ)               \
  CALL(glMapNamedBuffer, POINTER, (unsigned buffer, unsigned access), (buffer, access), WEIR_MAPS_TO_READ)             \
  CALL(glMapBufferRange, POINTER, WEIR_MAP_RANGE, WEIR_MAP_ARGUMENTS, WEIR_MAPS_RANGE_TO_READ)                         \
  CALL(glMapBufferRangeEXT, POINTER, WEIR_MAP_RANGE, WEIR_MAP_ARGUMENTS, WEIR_MAPS_RANGE_TO_READ)                      \
  CALL(glMapNamedBufferRange, POINTER, WEIR_MAP_RANGE, WEIR_MAP_ARGUMENTS, WEIR_MAPS_RANGE_TO_READ)                    \
  CALL(glFenceSync, POINTER, (unsigned condition, unsigned flags), (condition, flags), 1)                              \
  CALL(glClientWaitSync, STATUS, (void* sync, unsigned flags, uint64_t timeout), (sync, flags, timeout), 1)            \
  CALL(glGetQueryObjectiv, VOID, WEIR_QUERY(int), (query, what, value), WEIR_ASKS_FOR_RESULT)                          \
  CALL(glGetQueryObjectuiv, VOID, WEIR_QUERY(unsigned), (query, what, value), WEIR_ASKS_FOR_RESULT)                    \
  CALL(glGetQueryObjecti64v, VOID, WEIR_QUERY(int64_t), (query, what, value), WEIR_ASKS_FOR_RESULT)                    \
  CALL(glGetQueryObjectui64v, VOID, WEIR_QUERY(uint64_t), (query, what, value), WEIR_ASKS_FOR_RESULT)                  \
  CALL(glDispatchCompute, VOID, (unsigned x, unsigned y, unsigned z), (x, y, z), 1)                                    \
  CALL(glDispatchComputeIndirect, VOID, (ptrdiff_t offset), (offset), 1)

#endif
