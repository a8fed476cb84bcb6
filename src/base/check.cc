// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace weir {

void CheckFailed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "weir: broken invariant: %s at %s:%d\n", expression, file, line);
  std::abort();
}

}  // namespace weir
