/* SPDX-License-Identifier: Apache-2.0
 * The functions of the driver that Weir passes on unchanged: each jumps to the driver's own, whose address is in
 * weir_cuda_driver. In assembly, because a jump needs no types. A function that is hooked has an entry in the table,
 * too; Weir's own is in one of the files with calls or look_up in their names. */
#include <cet.h>

#define WEIR_FUNCTION(name)                       \
  .globl name;                               \
  .type name, @function;                     \
  .p2align 4;                                \
  name: _CET_ENDBR;                          \
  jmp *weir_cuda_driver + offset(%rip);      \
  .size name, . - name;                      \
  .set offset, offset + 8;
#define WEIR_HOOKED(name) .set offset, offset + 8;

  .text
  .set offset, 0
#include "shim/cuda/driver_functions.inc"

  .section .note.GNU-stack, "", @progbits
