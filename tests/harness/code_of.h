// SPDX-License-Identifier: Apache-2.0
// EXPECT_EQ(CodeOf(result), Errc::kBusy) also works for an unexpected success.
#pragma once

#include <optional>
#include <ostream>

#include "base/result.h"

namespace weir {

inline void PrintTo(Errc code, std::ostream* out) { *out << NameOf(code); }

namespace testing {

template <typename T>
std::optional<Errc> CodeOf(const Result<T>& result) {
  return result ? std::nullopt : std::optional(result.error().code);
}

}  // namespace testing
}  // namespace weir
