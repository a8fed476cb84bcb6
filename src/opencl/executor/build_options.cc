// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/build_options.h"

#include <algorithm>
#include <array>
#include <optional>

namespace weir::opencl {
namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";

/// Options whose argument is the next word if none is attached.
constexpr std::array<std::string_view, 2> kArgumentFollows{"-D", "-I"};

/// Removes the next word from `rest`, with its quotes and backslashes. Nullopt: a quote or a backslash is unterminated.
std::optional<std::string_view> NextWord(std::string_view& rest) {
  char quote = 0;
  std::size_t at = 0;
  for (; at < rest.size(); ++at) {
    const char c = rest[at];
    if (quote == 0 && kSpace.find(c) != std::string_view::npos) break;
    if (c == '\\' && quote != '\'') {
      if (++at == rest.size()) return std::nullopt;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    }
  }
  if (quote != 0) return std::nullopt;
  const std::string_view word = rest.substr(0, at);
  rest.remove_prefix(at);
  return word;
}

void SkipSpace(std::string_view& rest) { rest.remove_prefix(std::min(rest.find_first_not_of(kSpace), rest.size())); }

}  // namespace

Result<std::string> MakeBuildOptions(std::string_view own, std::string_view client) {
  std::string made(own);
  const auto invalid = [client](const char* why) {
    return Fail(Errc::kInvalidArgument, "build options '" + std::string(client) + "': " + why);
  };
  if (client.find('\0') != std::string_view::npos) return invalid("they contain a null character");
  for (SkipSpace(client); !client.empty(); SkipSpace(client)) {
    const auto word = NextWord(client);
    if (!word) return invalid("a quote or a backslash is not followed by its end");
    made.append(made.empty() ? "" : " ").append(*word);
    if (std::ranges::find(kArgumentFollows, *word) == kArgumentFollows.end()) continue;
    SkipSpace(client);
    const auto argument = NextWord(client);
    if (!argument || argument->empty()) return invalid("the last option lacks its argument");
    made.append(" ").append(*argument);
  }
  return made;
}

}  // namespace weir::opencl
