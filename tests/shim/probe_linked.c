/* SPDX-License-Identifier: Apache-2.0
 * A program that is linked with its driver, like glxgears: presents three times. */
#include <stdio.h>

void glXSwapBuffers(void* display, unsigned long drawable);
unsigned long weir_fake_swaps(void);

int main(void) {
  for (int i = 0; i < 3; ++i) glXSwapBuffers(0, 1);
  if (weir_fake_swaps() != 3) return 1;
  printf("ok\n");
  return 0;
}
