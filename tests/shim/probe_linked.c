/* SPDX-License-Identifier: Apache-2.0
 * A program that is linked with its driver, like glxgears: shows three frames, by glXSwapBuffers or, when called with
 * an argument, in a single-buffered window. */
#include <stdio.h>
#include <unistd.h>

void glXSwapBuffers(void* display, unsigned long drawable);
int glXMakeCurrent(void* display, unsigned long drawable, void* context);
void glFlush(void);
void glFinish(void);
unsigned long weir_fake_swaps(void);
unsigned long weir_fake_flushes(void);

int main(int argc, char** argv) {
  (void)argv;
  if (argc > 1) {
    if (!glXMakeCurrent(0, 7, (void*)1)) return 2;
    for (int i = 0; i < 3; ++i) {
      if (i < 2) glFlush();
      glFinish();
      usleep(5000);
    }
    if (weir_fake_flushes() != 5) return 3;
  } else {
    for (int i = 0; i < 3; ++i) glXSwapBuffers(0, 1);
    if (weir_fake_swaps() != 3) return 1;
  }
  printf("ok\n");
  return 0;
}
