// SPDX-License-Identifier: Apache-2.0
#include "kernel/compiler_names.h"

#include <algorithm>
#include <map>
#include <set>

#include "kernel/source_lines.h"
#include "kernel/source_tokens.h"

namespace weir::kernel {
namespace {

constexpr std::string_view kReservedBegins[]{"__",  "cl_",    "cles_", "CL_",  "CLK_",  "FP_FAST_",
                                             "NV_", "NVIDIA", "FLT_",  "DBL_", "HALF_", "POCL"};
/// Defined by OpenCL C's own headers.
constexpr std::string_view kReservedNames[]{
    "CHAR_BIT",   "CHAR_MAX",  "CHAR_MIN",  "INT_MAX",         "INT_MIN",         "LONG_MAX",
    "LONG_MIN",   "SCHAR_MAX", "SCHAR_MIN", "SHRT_MAX",        "SHRT_MIN",        "UCHAR_MAX",
    "USHRT_MAX",  "UINT_MAX",  "ULONG_MAX", "MAXFLOAT",        "HUGE_VALF",       "HUGE_VAL",
    "INFINITY",   "NAN",       "M_E",       "M_LOG2E",         "M_LOG10E",        "M_LN2",
    "M_LN10",     "M_PI",      "M_PI_2",    "M_PI_4",          "M_1_PI",          "M_2_PI",
    "M_2_SQRTPI", "M_SQRT2",   "M_SQRT1_2", "ATOMIC_VAR_INIT", "ATOMIC_FLAG_INIT"};
/// Have the same value for all compilers.
constexpr std::string_view kAlike[]{"__LINE__", "__COUNTER__", "__VA_ARGS__", "__VA_OPT__", "__FUNCTION__"};
/// Clang expands these even with -undef, which hides its other macros. Another compiler may expand them otherwise.
constexpr std::string_view kOfThePreprocessor[]{"__FILE__", "__BASE_FILE__", "__FILE_NAME__",    "__DATE__",
                                                "__TIME__", "__TIMESTAMP__", "__INCLUDE_LEVEL__"};
constexpr std::string_view kGuardEnds[]{"_H", "_CL", "_CLH", "_HPP"};

template <std::size_t n>
bool IsAmong(std::string_view name, const std::string_view (&names)[n]) {
  return std::find(names, names + n, name) != names + n;
}

/// Whether the name looks like an include guard, which a header tests and defines itself.
bool IsGuard(std::string_view name) {
  while (name.ends_with('_')) name.remove_suffix(1);
  return std::any_of(std::begin(kGuardEnds), std::end(kGuardEnds), [&](auto end) { return name.ends_with(end); });
}

bool IsReserved(std::string_view name) {
  if (IsAmong(name, kAlike) || IsGuard(name)) return false;
  if (name.size() > 1 && name[0] == '_' && name[1] >= 'A' && name[1] <= 'Z') return true;
  const auto begins = [&](auto begin) { return name.starts_with(begin); };
  if (std::any_of(std::begin(kReservedBegins), std::end(kReservedBegins), begins)) return true;
  if (name.ends_with("_F") || name.ends_with("_H")) name.remove_suffix(2);
  return IsAmong(name, kReservedNames);
}

/// Names whose value depends on the compiler and may form another name when tokens are pasted.
bool MayBePasted(std::string_view name) {
  if (IsAmong(name, kAlike) || std::any_of(name.begin(), name.end(), [](char c) { return c >= 'a' && c <= 'z'; }))
    return false;
  return name.starts_with("__") || name.starts_with("CL_") || name.starts_with("FP_FAST_") || name.starts_with("NV_");
}

class CompilerQuestions {
 public:
  CompilerQuestions(std::span<const std::string> options, std::span<const std::string> macros)
      : extensions_known_(!macros.empty()) {
    for (const std::string& macro : macros) known_.insert(MacroName(macro));
    for (const std::string& macro : options) {
      known_.insert(MacroName(macro));
      values_.push_back(TokensOf(macro));
      if (!values_.back().empty()) TakeBody(MacroName(macro), std::span<const SourceToken>(values_.back()).subspan(1));
    }
  }

  std::string DependencyOf(const std::vector<SourceToken>& tokens) {
    for (std::size_t i = 0; i < tokens.size();) {
      std::size_t end = i + 1;
      if (tokens[i].Is('#') && tokens[i].line_start) {
        while (end < tokens.size() && !tokens[end].line_start) ++end;
        TakeDirective(std::span(tokens).subspan(i + 1, end - i - 1));
      } else {
        TakeWord(tokens[i]);
      }
      i = end;
    }
    FollowConditions();
    if (asked_.empty() && pastes_) asked_ = pasted_;
    return asked_.empty() ? "" : "its source requires " + asked_.substr(0, 100) + ", which depends on the compiler";
  }

 private:
  void Ask(std::string_view name) {
    if (asked_.empty() && IsReserved(name) && !IsKnown(name)) asked_ = name;
  }

  [[nodiscard]] bool IsKnown(std::string_view name) const {
    return known_.contains(name) || (extensions_known_ && (name.starts_with("cl_") || name.starts_with("cles_")));
  }

  void TakeWord(const SourceToken& token) {
    if (token.kind == TokenKind::kOther && (token.text == "%:" || token.text == "<:")) asked_ = "a digraph";
    if (token.kind != TokenKind::kIdentifier) return;
    if (asked_.empty() && IsAmong(token.text, kOfThePreprocessor)) asked_ = token.text;
    if (pasted_.empty() && MayBePasted(token.text) && !IsKnown(token.text)) pasted_ = token.text;
  }

  void TakeBody(std::string_view name, std::span<const SourceToken> body) {
    std::vector<std::string_view>& words = bodies_[name];
    for (const SourceToken& token : body) {
      TakeWord(token);
      if (token.Is('#')) {
        pastes_ = true;
        words.push_back("#");
      }
      if (token.kind == TokenKind::kIdentifier) words.push_back(token.text);
    }
  }

  void TakeDirective(std::span<const SourceToken> line) {
    if (line.empty() || line[0].kind != TokenKind::kIdentifier) return;
    const std::string_view what = line[0].text;
    const std::string_view name = line.size() > 1 ? line[1].text : std::string_view{};
    if (what == "define" && line.size() > 1) {
      TakeBody(name, line.subspan(2));
      if (depth_ == 0) known_.insert(name);
    } else if (what == "undef") {
      Ask(name);
    } else if (what.starts_with("if") || what.starts_with("elif")) {
      TakeCondition(line.subspan(1));
      if (what.starts_with("el")) return;
      // An include guard does not increase the depth of the text inside it.
      const bool guard = what == "ifndef" && IsGuard(name);
      guards_.push_back(guard);
      if (!guard) ++depth_;
    } else if (what == "endif" && !guards_.empty()) {
      if (!guards_.back()) --depth_;
      guards_.pop_back();
    }
  }

  void TakeCondition(std::span<const SourceToken> words) {
    for (const SourceToken& token : words) {
      TakeWord(token);
      if (token.kind != TokenKind::kIdentifier) continue;
      Ask(token.text);
      conditions_.push_back(token.text);
    }
  }

  /// Follows the macros used in conditions to their definitions.
  void FollowConditions() {
    std::set<std::string_view> seen;
    while (!conditions_.empty()) {
      const std::string_view name = conditions_.back();
      conditions_.pop_back();
      if (!seen.insert(name).second) continue;
      Ask(name);
      const auto body = bodies_.find(name);
      if (body == bodies_.end()) continue;
      for (const std::string_view word : body->second)
        if (word == "#" && asked_.empty()) asked_ = "what '" + std::string(name) + "' pastes together";
      conditions_.insert(conditions_.end(), body->second.begin(), body->second.end());
    }
  }

  bool extensions_known_;
  std::set<std::string_view> known_;
  std::vector<std::vector<SourceToken>> values_;
  std::map<std::string_view, std::vector<std::string_view>> bodies_;
  std::vector<std::string_view> conditions_;
  std::vector<bool> guards_;
  std::string asked_, pasted_;
  std::size_t depth_ = 0;
  bool pastes_ = false;
};

}  // namespace

std::vector<std::string> MacrosOfOptions(std::span<const std::string> options) {
  std::vector<std::string> macros;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::string& option = options[i];
    if (!option.starts_with("-D") && !option.starts_with("-U")) continue;
    const bool apart = option.size() == 2;
    if (apart && i + 1 == options.size()) break;
    macros.push_back(apart ? options[++i] : option.substr(2));
  }
  return macros;
}

std::string_view MacroName(std::string_view macro) { return macro.substr(0, macro.find_first_of("=(")); }

bool IsPreprocessed(std::string_view source, std::span<const std::string> options,
                    std::span<const std::string> macros) {
  // A comment may go on with the next line, which a reader of tokens does not know.
  if (HasTrigraphs(source) || Spliced(source).size() != source.size()) return false;
  std::set<std::string_view> defined(std::begin(kAlike), std::end(kAlike));
  for (const auto list : {options, macros})
    for (const std::string& macro : list) defined.insert(MacroName(macro));
  const std::vector<SourceToken> tokens = TokensOf(source);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool pragma = i + 1 < tokens.size() && tokens[i + 1].Is("pragma");
    if (tokens[i].kind == TokenKind::kOther || (tokens[i].Is('#') && !pragma) || defined.contains(tokens[i].text))
      return false;
  }
  return true;
}

std::string AsksItsCompiler(std::string_view source, std::span<const std::string> options,
                            std::span<const std::string> macros) {
  if (HasTrigraphs(source)) return "its source has trigraphs";
  const std::string spliced = Spliced(source);
  return CompilerQuestions(options, macros).DependencyOf(TokensOf(spliced));
}

}  // namespace weir::kernel
