// SPDX-License-Identifier: Apache-2.0
// OpenCL C as tokens: what part_source.h rewrites and compiler_names.h searches. Any text gives tokens, in linear time;
// what is none of the language's is kOther. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace weir::core {

enum class TokenKind : std::uint8_t {
  kIdentifier,  // keywords too
  kNumber,
  kString,     // or a character's constant
  kSign,       // one character of punctuation; which ones stand together is told by space_before
  kDirective,  // a whole line; of source_outline.h
  kOther,      // an unclosed string or comment, a stray backslash, a digraph, bytes beyond ASCII
};

struct SourceToken {
  TokenKind kind = TokenKind::kOther;
  bool line_start = false;    // the first of its line
  bool space_before = false;  // or a comment
  std::string_view text{};    // of what was tokenised

  [[nodiscard]] bool Is(char sign) const { return kind == TokenKind::kSign && text[0] == sign; }
  [[nodiscard]] bool Is(std::string_view word) const { return kind == TokenKind::kIdentifier && text == word; }
};

/// Without comments. A line that is continued by a backslash is two.
std::vector<SourceToken> TokensOf(std::string_view source);

/// A name that a macro or a variable could have.
bool IsIdentifier(std::string_view text);

}  // namespace weir::core
