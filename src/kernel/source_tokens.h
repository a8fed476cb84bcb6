// SPDX-License-Identifier: Apache-2.0
// OpenCL C as tokens, for part_source.h and compiler_names.h. Any text yields tokens, in linear time; text that is not
// part of the language becomes kOther. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace weir::kernel {

enum class TokenKind : std::uint8_t {
  kIdentifier,  // keywords too
  kNumber,
  kString,     // or a character constant
  kSign,       // one punctuation character; space_before tells which ones are adjacent
  kDirective,  // a whole line; used by source_outline.h
  kOther,      // an unclosed string or comment, a stray backslash, a digraph, bytes beyond ASCII
};

struct SourceToken {
  TokenKind kind = TokenKind::kOther;
  bool line_start = false;    // the first of its line
  bool space_before = false;  // a space or a comment precedes it
  std::string_view text{};    // refers to the source

  [[nodiscard]] bool Is(char sign) const { return kind == TokenKind::kSign && text[0] == sign; }
  [[nodiscard]] bool Is(std::string_view word) const { return kind == TokenKind::kIdentifier && text == word; }
};

/// Omits comments. A line with a continuation backslash counts as two lines.
std::vector<SourceToken> TokensOf(std::string_view source);

/// Whether the text could be the name of a macro or a variable.
bool IsIdentifier(std::string_view text);

}  // namespace weir::kernel
