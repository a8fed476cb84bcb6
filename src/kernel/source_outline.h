// SPDX-License-Identifier: Apache-2.0
// The items at file scope of a preprocessed OpenCL C source: declarations and functions, with their token ranges. Knows
// enough of the language never to confuse two kinds of item; a construct that it doesn't know is an error. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernel/source_tokens.h"

namespace weir::kernel {

inline constexpr std::size_t kSourceTokensMax = std::size_t{1} << 20, kSourceNameMax = 256;

struct SourceItem {
  enum class Kind : std::uint8_t {
    kDirective,    // #pragma
    kDeclaration,  // of types and constants
    kPrototype,
    kDefinition,  // of a function
  };
  Kind kind = Kind::kDeclaration;
  bool kernel = false;
  std::size_t begin = 0, end = 0;  // indices of tokens
  std::size_t name = 0, open = 0;  // for a function: its name, and the parenthesis after it
  std::size_t body = 0;            // for a definition: its brace
};

struct SourceOutline {
  std::vector<SourceToken> tokens;   // a #pragma line is one token; line markers are omitted
  std::vector<std::uint32_t> match;  // for a bracket: its counterpart
  std::vector<SourceItem> items;

  /// The token after all `__attribute__((...))` at this position.
  [[nodiscard]] std::size_t AfterAttributes(std::size_t at) const;
};

/// kInvalidArgument names the construct that isn't understood, as "its source has ...". Linear time, no recursion.
Result<SourceOutline> OutlineOf(std::string_view preprocessed);

}  // namespace weir::kernel
