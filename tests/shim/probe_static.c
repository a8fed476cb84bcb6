/* SPDX-License-Identifier: Apache-2.0
 * A static program: no loader, so nothing is preloaded. */
#include <stdio.h>

int main(void) {
  printf("ok\n");
  return 0;
}
