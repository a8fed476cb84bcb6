// SPDX-License-Identifier: Apache-2.0
// WEIR_CHECK: an invariant of our own code, always checked. Never used for values that a tenant or a peer can
// influence, and never in a shim inside a host program (a shim switches to pass-through instead).
#pragma once

namespace weir {

[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);

}  // namespace weir

#define WEIR_CHECK(expression) \
  ((expression) ? static_cast<void>(0) : ::weir::CheckFailed(#expression, __FILE__, __LINE__))
