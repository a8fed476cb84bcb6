// SPDX-License-Identifier: Apache-2.0
#include "kernel/part_source.h"

#include <algorithm>
#include <map>
#include <optional>

#include "kernel/source_outline.h"

namespace weir::kernel {
namespace {

/// A built-in that returns another value in a part than in the whole launch, and the function that replaces it. The
/// function gets the words of the part and, except for the last built-in, a dimension. Words of weir_part, one for each
/// of three dimensions: s0 to s2 the part's first group; then, of the whole launch, s3 to s5 its groups, s6 to s8 its
/// global size, s9 to sb its global offset.
struct PlaceBuiltin {
  std::string_view name;
  bool of_dimension;
  std::string_view ours, body;
};
constexpr PlaceBuiltin kPlaceBuiltins[]{
    {"get_group_id", true, "weir_group_id",
     "get_group_id(weir_d) + (weir_d == 0 ? weir_part.s0 : weir_d == 1 ? weir_part.s1 : weir_d == 2 ? weir_part.s2 : "
     "0)"},
    {"get_num_groups", true, "weir_num_groups",
     "weir_d == 0 ? weir_part.s3 : weir_d == 1 ? weir_part.s4 : weir_d == 2 ? weir_part.s5 : 1"},
    {"get_global_size", true, "weir_global_size",
     "weir_d == 0 ? weir_part.s6 : weir_d == 1 ? weir_part.s7 : weir_d == 2 ? weir_part.s8 : 1"},
    {"get_global_offset", true, "weir_global_offset",
     "weir_d == 0 ? weir_part.s9 : weir_d == 1 ? weir_part.sa : weir_d == 2 ? weir_part.sb : 0"},
    {"get_global_linear_id", false, "weir_global_linear_id",
     "((get_global_id(2) - weir_part.sb) * weir_part.s7 + get_global_id(1) - weir_part.sa) * weir_part.s6 + "
     "get_global_id(0) - weir_part.s9"},
};
/// Built-ins with the same prefixes that return the same value in a part.
constexpr std::string_view kSameInAPart[]{"get_global_id", "get_enqueued_local_size", "get_enqueued_num_sub_groups"};
/// Words that may precede a call. A name and a parenthesis after any other word are a declaration.
constexpr std::string_view kWordsBeforeCalls[]{"return", "else", "do", "case", "sizeof"};
constexpr std::string_view kSpaces[]{"global", "__global", "constant", "__constant"};
constexpr std::string_view kQualifiers[]{"const",   "restrict", "__restrict",   "__restrict__",
                                         "__const", "volatile", "__volatile__", "__volatile"};

template <std::size_t n>
bool IsWordOf(const SourceToken& token, const std::string_view (&words)[n]) {
  return token.kind == TokenKind::kIdentifier && std::find(words, words + n, token.text) != words + n;
}

const PlaceBuiltin* PlaceBuiltinOf(const SourceToken& token) {
  if (token.kind != TokenKind::kIdentifier) return nullptr;
  const auto* found = std::find_if(std::begin(kPlaceBuiltins), std::end(kPlaceBuiltins),
                                   [&](const PlaceBuiltin& one) { return one.name == token.text; });
  return found == std::end(kPlaceBuiltins) ? nullptr : found;
}

std::string Quoted(std::string_view name) { return "'" + std::string(name.substr(0, 60)) + "'"; }

/// Writes tokens back as text, with the original line breaks.
class SourceWriter {
 public:
  void Put(const SourceToken& token) {
    if (token.kind == TokenKind::kDirective) return PutLine(token.text);
    if (token.line_start)
      NewLine();
    else if (token.space_before)
      Space();
    Append(token);
  }
  void Put(std::string_view text) {
    Indent();
    text_ += text;
  }
  void PutLine(std::string_view text) {
    NewLine();
    text_ += text;
    text_ += '\n';
  }
  void NewLine() {
    if (!text_.empty() && text_.back() != '\n') text_ += '\n';
  }
  /// Adds a space where the next token would otherwise join the last word.
  void Space() {
    constexpr std::string_view kNoSpaceAfter = "\n (";
    if (!text_.empty() && kNoSpaceAfter.find(text_.back()) == std::string_view::npos) text_ += ' ';
  }
  [[nodiscard]] std::size_t size() const { return text_.size(); }
  std::string Take() && { return std::move(text_); }

 private:
  void Append(const SourceToken& token) {
    if (token.Is('}') && depth_ > 0) --depth_;
    Indent();
    text_ += token.text;
    if (token.Is('{')) ++depth_;
  }
  void Indent() {
    constexpr std::size_t kDeepest = 8;
    if (!text_.empty() && text_.back() == '\n') text_.append(2 * std::min(depth_, kDeepest), ' ');
  }

  std::string text_;
  std::size_t depth_ = 0;
};

class PartRewriter {
 public:
  PartRewriter(const SourceOutline& outline, std::span<const KernelAccess> kernels, std::span<const std::string> macros)
      : outline_(outline), tokens_(outline.tokens), kernels_(kernels), macros_(macros) {}

  Result<PartSource> Make() {
    WEIR_TRY_STATUS(FindFunctions());
    WEIR_TRY_STATUS(FindUses());
    SpreadNeed();
    WEIR_TRY_STATUS(CheckUses());
    return Write();
  }

 private:
  struct Function {
    bool kernel = false;
    bool needs_part = false;  // this function, or one that it calls, uses a replaced built-in
    std::vector<std::string_view> callers;
  };
  struct Parameter {
    std::size_t begin = 0, end = 0;  // indices of tokens
    std::size_t star = 0, name = 0;  // indices of tokens; of a buffer only
    std::string_view space{};
  };

  static Error NotMade(std::string what) { return Fail(Errc::kInvalidArgument, std::move(what)); }

  static bool IsFunction(const SourceItem& item) { return item.open != 0; }

  [[nodiscard]] Function* FunctionNamed(const SourceToken& token) {
    if (token.kind != TokenKind::kIdentifier) return nullptr;
    const auto found = functions_.find(token.text);
    return found == functions_.end() ? nullptr : &found->second;
  }

  Status FindFunctions() {
    for (const SourceItem& item : outline_.items) {
      if (!IsFunction(item)) continue;
      const SourceToken& name = tokens_[item.name];
      if (PlaceBuiltinOf(name) != nullptr) return NotMade("its source has a function named " + Quoted(name.text));
      Function& function = functions_[name.text];
      function.kernel = function.kernel || item.kernel;
    }
    return Ok();
  }

  /// Whether the token is a call in an expression rather than part of a declaration.
  [[nodiscard]] bool IsCall(std::size_t at) const {
    if (at == 0 || at + 1 >= tokens_.size() || !tokens_[at + 1].Is('(')) return false;
    const SourceToken& before = tokens_[at - 1];
    if (before.Is('.') || (before.Is('>') && at > 1 && tokens_[at - 2].Is('-'))) return false;
    if (before.kind == TokenKind::kIdentifier) return IsWordOf(before, kWordsBeforeCalls);
    return before.kind == TokenKind::kSign || before.kind == TokenKind::kDirective;
  }

  Status FindUses() {
    for (const SourceItem& item : outline_.items) {
      const bool is_code = item.kind == SourceItem::Kind::kDefinition;
      for (std::size_t i = item.begin; i < item.end; ++i) {
        const SourceToken& token = tokens_[i];
        if (const PlaceBuiltin* builtin = PlaceBuiltinOf(token)) {
          const bool understood =
              is_code && i > item.body && IsCall(i) && tokens_[i + 2].Is(')') != builtin->of_dimension;
          if (!understood) return NotMade("its source uses " + Quoted(token.text) + " otherwise than in a call");
          functions_[tokens_[item.name].text].needs_part = true;
          used_[static_cast<std::size_t>(builtin - kPlaceBuiltins)] = true;
        } else if (Function* called = FunctionNamed(token)) {
          if (is_code && i > item.body && tokens_[i + 1].Is('(')) called->callers.push_back(tokens_[item.name].text);
        } else if (token.kind == TokenKind::kIdentifier) {
          const bool asks_place = token.text.starts_with("get_global_") || token.text.starts_with("get_group_") ||
                                  token.text.starts_with("get_enqueued_");
          if (asks_place && !IsWordOf(token, kSameInAPart))
            return NotMade("its source uses " + Quoted(token.text) + ", which a part may answer otherwise");
        } else if (token.kind == TokenKind::kDirective) {
          for (const PlaceBuiltin& one : kPlaceBuiltins)
            if (token.text.find(one.name) != std::string_view::npos)
              return NotMade("its source uses " + Quoted(one.name) + " in a #pragma");
        }
      }
    }
    return Ok();
  }

  /// Propagates needs_part from callees to callers.
  void SpreadNeed() {
    std::vector<std::string_view> left;
    for (const auto& [name, function] : functions_)
      if (function.needs_part) left.push_back(name);
    while (!left.empty()) {
      const std::string_view name = left.back();
      left.pop_back();
      for (const std::string_view caller : functions_[name].callers) {
        Function& function = functions_[caller];
        if (!function.needs_part) left.push_back(caller);
        function.needs_part = true;
      }
    }
  }

  Status CheckUses() {
    for (const SourceItem& item : outline_.items) {
      const bool dropped = item.kernel && functions_[tokens_[item.name].text].callers.empty();
      if (item.kernel && !dropped && item.body != 0 && HasLocalMemory(item))
        return NotMade("its source calls the kernel " + Quoted(tokens_[item.name].text) + ", which has local memory");
      for (std::size_t i = item.begin; i < item.end; ++i) {
        const Function* function = FunctionNamed(tokens_[i]);
        if (function == nullptr || !function->needs_part || (IsFunction(item) && i == item.name)) continue;
        if (item.body == 0 || i < item.body || !IsCall(i))
          return NotMade("its source uses " + Quoted(tokens_[i].text) + " otherwise than in a call");
      }
    }
    return Ok();
  }

  [[nodiscard]] bool HasLocalMemory(const SourceItem& item) const {
    return std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(item.body),
                       tokens_.begin() + static_cast<std::ptrdiff_t>(item.end),
                       [](const SourceToken& token) { return token.Is("local") || token.Is("__local"); });
  }

  Result<PartSource> Write() {
    PartSource made;
    std::map<std::string_view, std::size_t> wanted;  // by kernel: index in `made`
    std::map<std::string_view, const KernelAccess*> accesses;
    for (const KernelAccess& access : kernels_) {
      if (access.verdict == AccessVerdict::kRefuse) continue;
      wanted[access.kernel] = made.parts.size();
      accesses[access.kernel] = &access;
      made.parts.push_back({.kernel = access.kernel, .why_not = "its text wasn't found"});
    }
    WriteHead();
    bool any = false;
    for (const SourceItem& item : outline_.items) {
      if (!item.kernel) {
        WriteTokens(item.begin, item.end, &item);
        continue;
      }
      const std::string_view name = tokens_[item.name].text;
      if (!functions_[name].callers.empty()) WritePlain(item);
      const auto found = wanted.find(name);
      if (found == wanted.end() || item.body == 0) continue;
      const auto parameters = ParametersOf(item, *accesses[name]);
      made.parts[found->second].why_not = parameters ? "" : parameters.error().message;
      if (!parameters) continue;
      WritePart(item, *parameters, *accesses[name]);
      any = true;
    }
    writer_.NewLine();
    if (writer_.size() > kPartSourceMax) return NotMade("its source is of more than 4 MiB without its macros");
    if (any) made.text = std::move(writer_).Take();
    return made;
  }

  void WriteHead() {
    for (const std::string& macro : macros_)
      if (IsIdentifier(macro)) writer_.PutLine("#undef " + macro);
    for (std::size_t i = 0; i < std::size(kPlaceBuiltins); ++i) {
      if (!used_[i]) continue;
      const PlaceBuiltin& one = kPlaceBuiltins[i];
      writer_.PutLine("size_t " + std::string(one.ours) + "(ulong16 weir_part" +
                      (one.of_dimension ? ", uint weir_d" : "") + ") {");
      writer_.PutLine("  return " + std::string(one.body) + ";");
      writer_.PutLine("}");
    }
  }

  /// Copies tokens; calls to functions that need the part pass it on, and these functions take it as a parameter.
  void WriteTokens(std::size_t begin, std::size_t end, const SourceItem* item = nullptr) {
    for (std::size_t i = begin; i < end; ++i) {
      const SourceToken& token = tokens_[i];
      const PlaceBuiltin* builtin = PlaceBuiltinOf(token);
      const Function* function = builtin == nullptr ? FunctionNamed(token) : nullptr;
      if (builtin == nullptr && (function == nullptr || !function->needs_part)) {
        writer_.Put(token);
        continue;
      }
      const bool declares = item != nullptr && IsFunction(*item) && i == item->name;
      SourceToken name = token;
      if (builtin != nullptr) name.text = builtin->ours;
      writer_.Put(name);
      writer_.Put(declares ? "(ulong16 weir_part" : "(weir_part");
      ++i;  // the parenthesis
      if (declares && tokens_[i + 1].Is("void") && tokens_[i + 2].Is(')')) ++i;
      if (!tokens_[i + 1].Is(')')) writer_.Put(tokens_[i + 1].space_before ? "," : ", ");
    }
  }

  /// Writes a kernel that other kernels call as a plain function.
  void WritePlain(const SourceItem& item) {
    writer_.NewLine();
    WriteWithoutAttributes(item.begin, item.name);
    const std::size_t close = outline_.match[item.open];
    WriteTokens(item.name, close + 1, &item);
    if (item.body != 0)
      WriteTokens(item.body, item.end);
    else
      writer_.Put(";");
  }

  void WriteWithoutAttributes(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const SourceToken& token = tokens_[i];
      if (token.Is("kernel") || token.Is("__kernel")) continue;
      if (const std::size_t after = outline_.AfterAttributes(i); after != i) {
        i = after - 1;
        continue;
      }
      writer_.Space();
      writer_.Put(token);
    }
    writer_.Space();
  }

  Result<std::vector<Parameter>> ParametersOf(const SourceItem& item, const KernelAccess& access) const {
    std::vector<Parameter> parameters;
    const std::size_t close = outline_.match[item.open];
    const bool none = close == item.open + 1 || (close == item.open + 2 && tokens_[item.open + 1].Is("void"));
    for (std::size_t at = item.open + 1; !none && at <= close; ++at) {
      Parameter one{.begin = at};
      while (at != close && !tokens_[at].Is(',')) {
        if (tokens_[at].kind == TokenKind::kDirective) return NotMade("its arguments contain a #pragma");
        const bool bracket = tokens_[at].Is('(') || tokens_[at].Is('[') || tokens_[at].Is('{');
        at = bracket ? outline_.match[at] + std::size_t{1} : at + 1;
      }
      one.end = at;
      parameters.push_back(one);
    }
    if (parameters.size() != access.arguments.size()) return NotMade("its arguments aren't understood");
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (access.arguments[i].kind == ArgumentKind::kBuffer) WEIR_TRY_STATUS(CheckBuffer(parameters[i], i));
    return parameters;
  }

  /// Checks the form `space ... * qualifiers name`, with only names and qualifiers in it.
  Status CheckBuffer(Parameter& parameter, std::size_t number) const {
    const auto not_understood = [&](const std::string& what) {
      return NotMade("its argument " + std::to_string(number + 1) + " " + what);
    };
    for (std::size_t i = parameter.begin; i < parameter.end; ++i) {
      const SourceToken& token = tokens_[i];
      if (token.Is('[')) return not_understood("is an array; a pointer is understood");
      if (token.Is('*') && parameter.star != 0) return not_understood("is a pointer to pointers");
      if (token.Is('*')) {
        parameter.star = i;
      } else if (token.kind != TokenKind::kIdentifier || token.text.starts_with("__attribute")) {
        return not_understood("has something at " + Quoted(token.text) + " that isn't understood");
      } else if (IsWordOf(token, kSpaces)) {
        if (!parameter.space.empty() || parameter.star != 0)
          return not_understood("declares its address space elsewhere");
        parameter.space = token.text;
      } else if (parameter.star != 0 && !IsWordOf(token, kQualifiers)) {
        if (parameter.name != 0) return not_understood("has two names");
        parameter.name = i;
      }
    }
    if (parameter.star == 0) return not_understood("is a pointer by the name of a type");
    if (parameter.name != parameter.end - 1) return not_understood("has no name");
    if (parameter.space.empty()) return not_understood("has its address space in the name of a type");
    return Ok();
  }

  void WritePart(const SourceItem& item, const std::vector<Parameter>& parameters, const KernelAccess& access) {
    const auto is_buffer = [&](std::size_t i) { return access.arguments[i].kind == ArgumentKind::kBuffer; };
    WriteTokens(item.begin, item.name);
    SourceToken name = tokens_[item.name];
    const std::string ours = "weir_part_" + std::string(name.text);
    name.text = ours;
    writer_.Put(name);
    writer_.Put("(");
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Parameter& one = parameters[i];
      WriteTokens(one.begin, is_buffer(i) ? one.name : one.end);
      if (is_buffer(i)) writer_.Space();
      writer_.Put((is_buffer(i) ? "weir_given_" + std::to_string(i) : "") + ", ");
    }
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (is_buffer(i)) writer_.Put("long weir_offset_" + std::to_string(i) + ", ");
    writer_.Put("ulong16 weir_part");
    WriteTokens(outline_.match[item.open], item.body + 1);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!is_buffer(i)) continue;
      const Parameter& one = parameters[i];
      const std::string number = std::to_string(i);
      writer_.NewLine();
      WriteTokens(one.begin, one.end);
      writer_.Put(" = (");
      WriteTokens(one.begin, one.star + 1);
      std::string given = ")((";
      given.append(one.space).append(" char*)weir_given_").append(number);
      given.append(" - weir_offset_").append(number).append(");");
      writer_.Put(given);
    }
    writer_.NewLine();
    WriteTokens(item.body + 1, item.end);
  }

  const SourceOutline& outline_;
  const std::vector<SourceToken>& tokens_;
  std::span<const KernelAccess> kernels_;
  std::span<const std::string> macros_;
  std::map<std::string_view, Function> functions_;
  bool used_[std::size(kPlaceBuiltins)]{};
  SourceWriter writer_;
};

}  // namespace

PartSource NoPartSource(std::span<const KernelAccess> kernels, const std::string& why_not) {
  PartSource none;
  for (const KernelAccess& access : kernels)
    if (access.verdict != AccessVerdict::kRefuse)
      none.parts.push_back({.kernel = access.kernel, .why_not = why_not.substr(0, kAccessTextMax)});
  return none;
}

PartSource MakePartSource(std::string_view preprocessed, std::span<const KernelAccess> kernels,
                          std::span<const std::string> macros) {
  const auto outline = OutlineOf(preprocessed);
  if (!outline) return NoPartSource(kernels, outline.error().message);
  auto made = PartRewriter(*outline, kernels, macros).Make();
  return made ? std::move(*made) : NoPartSource(kernels, made.error().message);
}

}  // namespace weir::kernel
