// SPDX-License-Identifier: Apache-2.0
// The command line of a service program. A program declares each option once, with its value, its target and its help;
// parsing, error messages and --help follow from these declarations.
#pragma once

#include <sys/types.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weir::platform {

class ServiceOptions {
 public:
  /// Sets the option's target from the text. Its error says what the option accepts: "takes a number from 1 to 3".
  using Read = std::function<Status(const std::string& text)>;

  /// `program`: its name in messages. `about`: the help before the options, which begins with "Usage: ".
  ServiceOptions(std::string program, std::string about);

  // Names of options begin with "--". Targets outlive the parsing and keep their value if the option is absent; if it
  // is repeated, the last value counts. The help shows the target's value as the default, unless it is empty or zero or
  // `help` contains a default already.

  void AddFlag(const std::string& name, bool& target, const std::string& help);
  void Add(const std::string& name, const std::string& value_name, std::string& target, const std::string& help);
  /// May be repeated: each value is appended.
  void Add(const std::string& name, const std::string& value_name, std::vector<std::string>& target,
           const std::string& help);
  /// The help shows the choices in place of the value's name.
  void AddChoice(const std::string& name, std::string& target, const std::vector<std::string>& choices,
                 const std::string& help);
  /// From `min` to `max`, which are not negative; both are valid.
  template <std::integral T>
  void AddWhole(const std::string& name, const std::string& value_name, T& target, std::type_identity_t<T> min,
                std::type_identity_t<T> max, const std::string& help) {
    AddNumber(
        name, value_name, target == 0 ? "" : std::to_string(target), static_cast<std::uint64_t>(min),
        static_cast<std::uint64_t>(max), [&target](std::uint64_t number) { target = static_cast<T>(number); }, help);
  }
  /// May be repeated: each value is appended.
  template <std::integral T>
  void AddWhole(const std::string& name, const std::string& value_name, std::vector<T>& target,
                std::type_identity_t<T> min, std::type_identity_t<T> max, const std::string& help) {
    AddNumber(
        name, value_name, "", static_cast<std::uint64_t>(min), static_cast<std::uint64_t>(max),
        [&target](std::uint64_t number) { target.push_back(static_cast<T>(number)); }, help);
  }
  void AddReal(const std::string& name, const std::string& value_name, double& target, double min, double max,
               const std::string& help);
  /// The value is in seconds and may have a fraction.
  void AddSeconds(const std::string& name, Duration& target, Duration min, Duration max, const std::string& help);
  /// The number of a descriptor that is open.
  void AddDescriptor(const std::string& name, int& target, const std::string& help);
  /// --parent PID, for platform/service_end.h.
  void AddParent(pid_t& target, const std::string& help = "end when this process has ended");
  void AddParsed(const std::string& name, const std::string& value_name, Read read, const std::string& help);

  /// Lines of the help, after the options that are declared so far.
  void AddText(const std::string& text);
  /// Accepts arguments that are not options and appends them to `target`. Otherwise they are errors.
  void AddArguments(std::vector<std::string>& target) { arguments_ = &target; }

  enum class Outcome { kRun, kHelp };
  /// Sets the targets; --help ends the parsing. `given`: the command line without the program. An error says what was
  /// given and what is accepted.
  Result<Outcome> ParseTexts(std::span<const std::string> given);
  [[nodiscard]] std::string Help() const;

  /// The same for main. An exit status: the program ends now, because it has printed its help or an error.
  std::optional<int> Parse(int argc, const char* const* argv);
  /// Prints that the usage is wrong. Returns the exit status.
  [[nodiscard]] int Reject(std::string_view why) const;
  /// Prints the error, if `status` is one. Returns the exit status.
  [[nodiscard]] int ExitStatusOf(const Status& status) const;

 private:
  struct Option {
    std::string name;        // empty: `help` is text between options
    std::string value_name;  // empty: the option is a flag
    std::string help;
    Read read;
  };

  void AddNumber(const std::string& name, const std::string& value_name, const std::string& default_text,
                 std::uint64_t min, std::uint64_t max, std::function<void(std::uint64_t)> set, const std::string& help);
  void Declare(const std::string& name, const std::string& value_name, const std::string& default_text,
               const std::string& help, Read read);
  [[nodiscard]] const Option* Find(std::string_view name) const;

  const std::string program_, about_;
  std::vector<Option> options_;
  std::vector<std::string>* arguments_ = nullptr;
};

/// For a program whose messages have another name than its own: prints the error, if `status` is one, after `speaker`.
/// Returns the exit status.
int ExitStatusOf(const std::string& speaker, const Status& status);

}  // namespace weir::platform
