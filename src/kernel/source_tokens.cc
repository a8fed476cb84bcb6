// SPDX-License-Identifier: Apache-2.0
#include "kernel/source_tokens.h"

#include <algorithm>

namespace weir::kernel {
namespace {

// ASCII only, independent of the locale.
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool BeginsWord(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsInWord(char c) { return BeginsWord(c) || IsDigit(c); }
bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f'; }
/// Each of the two ends a line, also alone, as for clang.
bool EndsLine(char c) { return c == '\n' || c == '\r'; }

class TokenReader {
 public:
  explicit TokenReader(std::string_view source) : source_(source) {}

  std::vector<SourceToken> Read() {
    while (at_ < source_.size()) {
      if (EndsLine(source_[at_])) {
        line_start_ = space_ = true;
        ++at_;
      } else if (IsBlank(source_[at_])) {
        space_ = true;
        ++at_;
      } else if (source_[at_] == '/' && (Next() == '/' || Next() == '*')) {
        SkipComment();
      } else {
        ReadToken();
      }
    }
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] char Next(std::size_t ahead = 1) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  [[nodiscard]] bool IsAt(std::size_t at, char c) const { return at < source_.size() && source_[at] == c; }

  void SkipComment() {
    const bool line = Next() == '/';
    const std::size_t end = line ? source_.find_first_of("\r\n", at_) : source_.find("*/", at_ + 2);
    space_ = true;
    if (end != std::string_view::npos)
      at_ = line ? end : end + 2;
    else if (line)
      at_ = source_.size();
    else
      Take(TokenKind::kOther, source_.size());
  }

  void ReadToken() {
    const char c = source_[at_];
    std::size_t end = at_ + 1;
    if (BeginsWord(c)) {
      while (end < source_.size() && IsInWord(source_[end])) ++end;
      // R"(...)" of C++ may hide quotes.
      Take(source_[end - 1] == 'R' && IsAt(end, '"') ? TokenKind::kOther : TokenKind::kIdentifier, end);
    } else if (IsDigit(c) || (c == '.' && IsDigit(Next()))) {
      end = NumberEnd();
      // 1'000 of C++ holds no character in quotes.
      Take(IsAt(end, '\'') ? TokenKind::kOther : TokenKind::kNumber, end);
    } else if (c == '"' || c == '\'') {
      ReadString(c);
    } else if (IsDigraph()) {
      Take(TokenKind::kOther, at_ + 2);
    } else {
      constexpr std::string_view kSigns = "[](){}.,;:?~!+-*/%<>=&|^#";
      Take(kSigns.find(c) != std::string_view::npos ? TokenKind::kSign : TokenKind::kOther, end);
    }
  }

  /// The end of a "preprocessing number": 0x1p-3f, 1.e+5, and many texts that aren't numbers.
  [[nodiscard]] std::size_t NumberEnd() const {
    std::size_t end = at_ + 1;
    for (; end < source_.size(); ++end) {
      const char c = source_[end], before = source_[end - 1];
      const bool exponent = before == 'e' || before == 'E' || before == 'p' || before == 'P';
      if (!IsInWord(c) && c != '.' && !(exponent && (c == '+' || c == '-'))) break;
    }
    return end;
  }

  void ReadString(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote && !EndsLine(source_[end]))
      end += source_[end] == '\\' && end + 1 < source_.size() && !EndsLine(source_[end + 1]) ? 2 : 1;
    const bool closed = end < source_.size() && source_[end] == quote;
    Take(closed ? TokenKind::kString : TokenKind::kOther, closed ? end + 1 : std::min(end, source_.size()));
  }

  /// <: :> <% %> %: are brackets and # for some compilers.
  [[nodiscard]] bool IsDigraph() const {
    const char c = source_[at_], next = Next();
    return (c == '<' && (next == ':' || next == '%')) || (c == ':' && next == '>') ||
           (c == '%' && (next == '>' || next == ':'));
  }

  void Take(TokenKind kind, std::size_t end) {
    tokens_.push_back(
        {.kind = kind, .line_start = line_start_, .space_before = space_, .text = source_.substr(at_, end - at_)});
    at_ = end;
    line_start_ = space_ = false;
  }

  std::string_view source_;
  std::size_t at_ = 0;
  bool line_start_ = true, space_ = false;
  std::vector<SourceToken> tokens_;
};

}  // namespace

std::vector<SourceToken> TokensOf(std::string_view source) { return TokenReader(source).Read(); }

bool IsIdentifier(std::string_view text) {
  return !text.empty() && BeginsWord(text[0]) && std::all_of(text.begin(), text.end(), IsInWord);
}

}  // namespace weir::kernel
