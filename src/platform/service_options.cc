// SPDX-License-Identifier: Apache-2.0
#include "platform/service_options.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "base/check.h"

namespace weir::platform {
namespace {

constexpr std::size_t kHelpColumns = 100;

Error WrongUsage(std::string why) { return Fail(Errc::kInvalidArgument, std::move(why)); }

/// The whole text as a number in decimal notation, without spaces or a plus sign.
template <typename Number>
std::optional<Number> NumberIn(const std::string& text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

/// Without an exponent: "0.25", "1000000000".
std::string TextOf(double number) {
  std::array<char, 400> text{};  // the longest double has 309 digits before its point
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  return error == std::errc{} ? std::string(text.data(), end) : std::string();
}

/// Divides by 1e9, because 1e-9 is not exact: whole seconds stay whole.
double ExactSecondsOf(Duration duration) { return static_cast<double>(duration.count()) / 1e9; }

/// "auto, never or always": `between` separates all words but the last two.
std::string ListOf(const std::vector<std::string>& words, const char* between, const char* before_last) {
  std::string list;
  for (std::size_t i = 0; i < words.size(); ++i)
    list += (i == 0 ? "" : i + 1 < words.size() ? between : before_last) + words[i];
  return list;
}

/// Appends `text` in lines that begin at `column`. `length`: that of the last line of `to`; less than `column`.
void AppendColumn(std::string& to, std::size_t length, std::size_t column, std::string_view text) {
  to.append(column - length, ' ');
  length = column;
  for (bool first = true; !text.empty(); first = false) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (!first && length + 1 + end > kHelpColumns) {
      to += '\n';
      to.append(column, ' ');
      length = column;
    } else if (!first) {
      to += ' ';
      ++length;
    }
    to += text.substr(0, end);
    length += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  to += '\n';
}

}  // namespace

ServiceOptions::ServiceOptions(std::string program, std::string about)
    : program_(std::move(program)), about_(std::move(about)) {}

void ServiceOptions::Declare(const std::string& name, const std::string& value_name, const std::string& default_text,
                             const std::string& help, Read read) {
  WEIR_CHECK(name.starts_with("--") && name.find('=') == std::string::npos && Find(name) == nullptr);
  const bool lacks_default = !default_text.empty() && help.find("default") == std::string::npos;
  options_.push_back({.name = name,
                      .value_name = value_name,
                      .help = lacks_default ? help + " (default: " + default_text + ")" : help,
                      .read = std::move(read)});
}

const ServiceOptions::Option* ServiceOptions::Find(std::string_view name) const {
  const auto found = std::ranges::find(options_, name, &Option::name);
  return found == options_.end() ? nullptr : &*found;
}

void ServiceOptions::AddFlag(const std::string& name, bool& target, const std::string& help) {
  Declare(name, "", "", help, [&target](const std::string&) {
    target = true;
    return Ok();
  });
}

void ServiceOptions::Add(const std::string& name, const std::string& value_name, std::string& target,
                         const std::string& help) {
  Declare(name, value_name, target, help, [&target](const std::string& text) {
    target = text;
    return Ok();
  });
}

void ServiceOptions::Add(const std::string& name, const std::string& value_name, std::vector<std::string>& target,
                         const std::string& help) {
  Declare(name, value_name, "", help, [&target](const std::string& text) {
    target.push_back(text);
    return Ok();
  });
}

void ServiceOptions::AddChoice(const std::string& name, std::string& target, const std::vector<std::string>& choices,
                               const std::string& help) {
  Declare(name, ListOf(choices, "|", "|"), target, help, [&target, choices](const std::string& text) -> Status {
    if (std::ranges::find(choices, text) == choices.end()) return WrongUsage("takes " + ListOf(choices, ", ", " or "));
    target = text;
    return Ok();
  });
}

void ServiceOptions::AddNumber(const std::string& name, const std::string& value_name, const std::string& default_text,
                               std::uint64_t min, std::uint64_t max, std::function<void(std::uint64_t)> set,
                               const std::string& help) {
  Declare(name, value_name, default_text, help, [min, max, set = std::move(set)](const std::string& text) -> Status {
    const auto number = NumberIn<std::uint64_t>(text);
    if (!number || *number < min || *number > max)
      return WrongUsage("takes a whole number from " + std::to_string(min) + " to " + std::to_string(max));
    set(*number);
    return Ok();
  });
}

void ServiceOptions::AddReal(const std::string& name, const std::string& value_name, double& target, double min,
                             double max, const std::string& help) {
  Declare(name, value_name, target == 0 ? "" : TextOf(target), help,
          [&target, min, max](const std::string& text) -> Status {
            const auto number = NumberIn<double>(text);
            // Negated, so that it holds for a NaN too.
            if (!number || !(*number >= min && *number <= max))
              return WrongUsage("takes a number from " + TextOf(min) + " to " + TextOf(max));
            target = *number;
            return Ok();
          });
}

void ServiceOptions::AddSeconds(const std::string& name, Duration& target, Duration min, Duration max,
                                const std::string& help) {
  Declare(name, "SECONDS", target == Duration{} ? "" : TextOf(ExactSecondsOf(target)), help,
          [&target, min, max](const std::string& text) -> Status {
            const auto number = NumberIn<double>(text);
            if (!number || !(*number >= ExactSecondsOf(min) && *number <= ExactSecondsOf(max)))
              return WrongUsage("takes a number of seconds from " + TextOf(ExactSecondsOf(min)) + " to " +
                                TextOf(ExactSecondsOf(max)));
            target = Duration{std::llround(*number * 1e9)};
            return Ok();
          });
}

void ServiceOptions::AddDescriptor(const std::string& name, int& target, const std::string& help) {
  Declare(name, "FD", "", help, [&target](const std::string& text) -> Status {
    const auto number = NumberIn<int>(text);
    if (!number || ::fcntl(*number, F_GETFD) < 0) return WrongUsage("takes the number of an open descriptor");
    target = *number;
    return Ok();
  });
}

void ServiceOptions::AddParent(pid_t& target, const std::string& help) {
  AddWhole("--parent", "PID", target, 1, std::numeric_limits<pid_t>::max(), help);
}

void ServiceOptions::AddParsed(const std::string& name, const std::string& value_name, Read read,
                               const std::string& help) {
  Declare(name, value_name, "", help, std::move(read));
}

void ServiceOptions::AddText(const std::string& text) {
  options_.push_back({.name = "", .value_name = "", .help = text, .read = {}});
}

Result<ServiceOptions::Outcome> ServiceOptions::ParseTexts(std::span<const std::string> given) {
  bool options_end = false;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string& word = given[i];
    if (options_end || word.size() < 2 || word[0] != '-') {
      if (arguments_ == nullptr) return WrongUsage("unexpected argument '" + word + "'");
      arguments_->push_back(word);
      continue;
    }
    if (word == "--") {
      options_end = true;
      continue;
    }
    if (word == "-h" || word == "--help") return Outcome::kHelp;
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const Option* option = Find(name);
    if (option == nullptr) return WrongUsage("unknown option '" + word + "'");
    std::string value;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
      if (option->value_name.empty()) return WrongUsage("option '" + name + "' takes no value, not '" + value + "'");
    } else if (!option->value_name.empty()) {
      if (i + 1 == given.size()) return WrongUsage("option '" + name + "' needs a value: " + option->value_name);
      value = given[++i];
    }
    if (const Status status = option->read(value); !status)
      return WrongUsage(name + " " + status.error().message + ", not '" + value + "'");
  }
  return Outcome::kRun;
}

std::string ServiceOptions::Help() const {
  const auto signature = [](const Option& option) {
    return "  " + option.name + (option.value_name.empty() ? "" : " ") + option.value_name;
  };
  std::size_t column = 0;
  for (const Option& option : options_)
    if (!option.name.empty()) column = std::max(column, signature(option).size() + 2);
  std::string text = about_ + "\n";
  for (const Option& option : options_) {
    if (option.name.empty()) {
      text += option.help;
      continue;
    }
    const std::string begin = signature(option);
    text += begin;
    AppendColumn(text, begin.size(), column, option.help);
  }
  return text;
}

std::optional<int> ServiceOptions::Parse(int argc, const char* const* argv) {
  const std::vector<std::string> given(argv + std::min(argc, 1), argv + argc);
  const auto outcome = ParseTexts(given);
  if (!outcome) return Reject(outcome.error().message);
  if (*outcome == Outcome::kRun) return std::nullopt;
  std::fputs(Help().c_str(), stdout);
  return 0;
}

int ServiceOptions::Reject(std::string_view why) const {
  const std::string text = program_ + ": " + std::string(why) + "; see " + program_ + " --help\n";
  std::fputs(text.c_str(), stderr);
  return EntryOf(Errc::kInvalidArgument).exit_code;
}

int ServiceOptions::ExitStatusOf(const Status& status) const { return platform::ExitStatusOf(program_, status); }

int ExitStatusOf(const std::string& speaker, const Status& status) {
  if (status) return 0;
  std::fprintf(stderr, "%s: %s\n", speaker.c_str(), status.error().message.c_str());
  return EntryOf(status.error().code).exit_code;
}

}  // namespace weir::platform
