/* SPDX-License-Identifier: Apache-2.0
 * libOpenCL.so.1 of vGPUs: `weir run` puts its folder first into LD_LIBRARY_PATH. Each function of OpenCL jumps to the
 * one in the dispatch table of libweir-opencl.so, so that programs reach the vGPU whichever ICD loader the system has.
 * Khronos' loader, which the CUDA toolkit contains, adds the drivers in OCL_ICD_FILENAMES to those in OCL_ICD_VENDORS.
 *
 * In assembly, because a jump needs no types. %r11 belongs to no argument. */
#include <cet.h>

#define WEIR_CL_SLOT(name)                                   \
  .globl name;                                       \
  .type name, @function;                             \
  .p2align 4;                                        \
  name: _CET_ENDBR;                                  \
  movq weir_opencl_dispatch@GOTPCREL(%rip), %r11;    \
  jmp *offset(%r11);                                 \
  .size name, . - name;                              \
  .set offset, offset + 8;
#define WEIR_CL_HIDDEN(name) .set offset, offset + 8;

  .text
  .set offset, 0
#include "opencl/icd/front_slots.inc"

  .section .note.GNU-stack, "", @progbits
