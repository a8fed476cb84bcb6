// SPDX-License-Identifier: Apache-2.0
// What stands at file scope in a preprocessed OpenCL C source: declarations and functions, and where they begin and
// end. Knows so much of the language that it never takes one thing for another: what it doesn't know is an error. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/partition/source_tokens.h"

namespace weir::core {

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
  std::size_t begin = 0, end = 0;  // tokens
  std::size_t name = 0, open = 0;  // of a function: its name, the parenthesis after it
  std::size_t body = 0;            // of a definition: its brace
};

struct SourceOutline {
  std::vector<SourceToken> tokens;   // lines of #pragma are one each; markers of lines are left out
  std::vector<std::uint32_t> match;  // of a bracket: the other one
  std::vector<SourceItem> items;

  /// Past `__attribute__((...))`, as often as it stands at this token.
  [[nodiscard]] std::size_t AfterAttributes(std::size_t at) const;
};

/// kInvalidArgument: what is in it that isn't understood, as "its source has ...". Linear in time, no recursion.
Result<SourceOutline> OutlineOf(std::string_view preprocessed);

}  // namespace weir::core
