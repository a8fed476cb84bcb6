// SPDX-License-Identifier: Apache-2.0
#include "kernel/source_outline.h"

#include <algorithm>
#include <span>
#include <string>

namespace weir::kernel {
namespace {

constexpr std::string_view kAttributeWords[]{"__attribute__", "__attribute", "__declspec"};
constexpr std::string_view kTagWords[]{"struct", "union", "enum"};
/// With a parenthesis after them, these words don't name a function.
constexpr std::string_view kTypeWords[]{"void",  "char",   "short", "int",      "long",  "float",   "double",
                                        "half",  "signed", "bool",  "unsigned", "const", "typeof",  "__typeof__",
                                        "union", "struct", "enum",  "volatile", "_Bool", "restrict"};
constexpr std::string_view kAssembly[]{"asm", "__asm", "__asm__"};
constexpr std::string_view kGlobalWords[]{"global", "__global"};
constexpr std::string_view kConstantWords[]{"constant", "__constant", "sampler_t"};

template <std::size_t n>
bool IsOneOf(const SourceToken& token, const std::string_view (&words)[n]) {
  return token.kind == TokenKind::kIdentifier && std::find(words, words + n, token.text) != words + n;
}

Error NotUnderstood(std::string what) { return Fail(Errc::kInvalidArgument, "its source has " + std::move(what)); }

Error NotUnderstood(const char* what, std::string_view name) {
  return NotUnderstood(std::string(what) + " ('" + std::string(name.substr(0, 60)) + "')");
}

class OutlineReader {
 public:
  explicit OutlineReader(std::string_view source) : source_(source) {}

  Result<SourceOutline> Read() {
    WEIR_TRY_STATUS(ReadTokens());
    WEIR_TRY_STATUS(MatchBrackets());
    for (std::size_t at = 0; at < outline_.tokens.size();) WEIR_TRY_STATUS(ReadItem(at));
    return std::move(outline_);
  }

 private:
  [[nodiscard]] const SourceToken& Token(std::size_t at) const {
    static constexpr SourceToken kNone{};
    return at < outline_.tokens.size() ? outline_.tokens[at] : kNone;
  }

  Status ReadTokens() {
    const std::vector<SourceToken> raw = TokensOf(source_);
    if (raw.size() > kSourceTokensMax) return NotUnderstood("more than a million words and signs");
    outline_.tokens.reserve(raw.size());
    for (std::size_t i = 0; i < raw.size();) {
      if (raw[i].Is('#')) {
        std::size_t end = i + 1;
        while (end < raw.size() && !raw[end].line_start) ++end;
        WEIR_TRY_STATUS(TakeDirective(std::span(raw).subspan(i, end - i)));
        i = end;
        continue;
      }
      WEIR_TRY_STATUS(CheckToken(raw[i]));
      outline_.tokens.push_back(raw[i++]);
    }
    return Ok();
  }

  Status TakeDirective(std::span<const SourceToken> line) {
    if (!line[0].line_start) return NotUnderstood("a # that begins no line");
    if (line.size() == 1 || line[1].kind == TokenKind::kNumber) return Ok();
    if (!line[1].Is("pragma")) return NotUnderstood("a directive that preprocessing left", line[1].text);
    for (const SourceToken& token : line) WEIR_TRY_STATUS(CheckToken(token));
    const char* end = line.back().text.data() + line.back().text.size();
    SourceToken whole = line[0];
    whole.kind = TokenKind::kDirective;
    whole.text = {line[0].text.data(), static_cast<std::size_t>(end - line[0].text.data())};
    outline_.tokens.push_back(whole);
    return Ok();
  }

  static Status CheckToken(const SourceToken& token) {
    if (token.kind == TokenKind::kOther) return NotUnderstood("an unknown character", token.text);
    if (token.kind != TokenKind::kIdentifier) return Ok();
    if (token.text.size() > kSourceNameMax) return NotUnderstood("a name of more than 256 letters");
    if (token.text.starts_with("weir_")) return NotUnderstood("names that begin with weir_", token.text);
    if (IsOneOf(token, kAssembly)) return NotUnderstood("assembly");
    if (token.text == "enqueue_kernel") return NotUnderstood("kernels that launch kernels");
    return Ok();
  }

  Status MatchBrackets() {
    const auto& tokens = outline_.tokens;
    outline_.match.assign(tokens.size(), 0);
    std::vector<std::uint32_t> open;
    for (std::uint32_t i = 0; i < tokens.size(); ++i) {
      const SourceToken& token = tokens[i];
      if (token.Is('(') || token.Is('[') || token.Is('{')) open.push_back(i);
      if (!token.Is(')') && !token.Is(']') && !token.Is('}')) continue;
      const char opener = token.Is(')') ? '(' : token.Is(']') ? '[' : '{';
      if (open.empty() || !tokens[open.back()].Is(opener)) return NotUnderstood("brackets that don't match");
      outline_.match[i] = open.back();
      outline_.match[open.back()] = i;
      open.pop_back();
    }
    if (!open.empty()) return NotUnderstood("brackets that don't match");
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (!tokens[i].Is('^')) continue;
      const bool listed = Token(i + 1).Is('(') && Token(outline_.match[i + 1] + std::size_t{1}).Is('{');
      if (Token(i + 1).Is('{') || listed || (i > 0 && tokens[i - 1].Is('('))) return NotUnderstood("blocks");
    }
    return Ok();
  }

  /// The token after `struct NAME {...}`, whose keyword is at `at`.
  [[nodiscard]] std::size_t AfterTag(std::size_t at) const {
    at = outline_.AfterAttributes(at + 1);
    if (Token(at).kind == TokenKind::kIdentifier) at = outline_.AfterAttributes(at + 1);
    return Token(at).Is('{') ? outline_.match[at] + std::size_t{1} : at;
  }

  Status ReadItem(std::size_t& at) {
    SourceItem item{.begin = at};
    bool is_type = false, is_constant = false, is_global = false, has_value = false, only_tag = false;
    if (Token(at).kind == TokenKind::kDirective) {
      item.kind = SourceItem::Kind::kDirective;
      item.end = ++at;
      outline_.items.push_back(item);
      return Ok();
    }
    while (!Token(at).Is(';')) {
      const SourceToken& token = Token(at);
      if (at >= outline_.tokens.size()) return NotUnderstood("a declaration that doesn't end");
      if (token.kind == TokenKind::kDirective) return NotUnderstood("a #pragma inside of a declaration");
      if (const std::size_t after = outline_.AfterAttributes(at); after != at) {
        at = after;
        continue;
      }
      if (item.open != 0) {
        if (!token.Is('{')) return NotUnderstood("a declaration that isn't understood", token.text);
        item.body = at;
        break;
      }
      if (!has_value && IsOneOf(token, kTagWords)) {
        only_tag = at == item.begin;
        at = AfterTag(at);
        continue;
      }
      only_tag = false;
      is_type = is_type || token.Is("typedef");
      is_constant = is_constant || IsOneOf(token, kConstantWords);
      is_global = is_global || IsOneOf(token, kGlobalWords);
      item.kernel = item.kernel || token.Is("kernel") || token.Is("__kernel");
      has_value = has_value || token.Is('=');
      if (token.Is('(') && !has_value) {
        const SourceToken& name = Token(at - 1);
        if (at == item.begin || name.kind != TokenKind::kIdentifier || IsOneOf(name, kTypeWords) || is_type)
          return NotUnderstood("a declarator in parentheses, as of a pointer to a function");
        item.name = at - 1;
        item.open = at;
      }
      if (token.Is('{') && !has_value) return NotUnderstood("braces that belong to nothing");
      at = token.Is('(') || token.Is('[') || token.Is('{') ? outline_.match[at] + std::size_t{1} : at + 1;
    }
    at = item.body != 0 ? outline_.match[item.body] + std::size_t{1} : at + 1;
    item.end = at;
    if (item.body != 0)
      item.kind = SourceItem::Kind::kDefinition;
    else if (item.open != 0)
      item.kind = SourceItem::Kind::kPrototype;
    else if (const bool is_variable = !is_type && !only_tag && item.end - item.begin > 1;
             is_variable && (!is_constant || is_global))
      return NotUnderstood("a variable of the program's that isn't constant", Token(item.end - 2).text);
    outline_.items.push_back(item);
    return Ok();
  }

  std::string_view source_;
  SourceOutline outline_;
};

}  // namespace

std::size_t SourceOutline::AfterAttributes(std::size_t at) const {
  while (at + 1 < tokens.size() && IsOneOf(tokens[at], kAttributeWords) && tokens[at + 1].Is('('))
    at = match[at + 1] + std::size_t{1};
  return at;
}

Result<SourceOutline> OutlineOf(std::string_view preprocessed) { return OutlineReader(preprocessed).Read(); }

}  // namespace weir::kernel
