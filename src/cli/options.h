// SPDX-License-Identifier: Apache-2.0
// Options and help of `weir`'s commands. CLI11 parses them, but no header includes it: its templates in each command's
// file took half of the build.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/common/session.h"
#include "cli/common/settings.h"

namespace CLI {  // NOLINT(readability-identifier-naming): of the library CLI11
class App;
class Option;
}  // namespace CLI

namespace weir::cli {

/// Ends parsing: `message` and a hint to the help are printed, and the exit code is that of wrong usage.
[[noreturn]] void RejectUsage(const std::string& message);

/// An option of a command, or an argument, whose name has no dashes.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option Required() const;
  Option Excludes(Option other) const;
  /// Adds the names that may be given to the help. The daemon or the command checks the name.
  Option OneOf(const std::vector<std::string>& names) const;

 private:
  CLI::Option* option_;
};

/// The names that OneOf has given to an option.
std::vector<std::string> ChoicesOf(const CLI::Option& option);

/// A command that is being defined. `value_name` is the name of the value in the help. Targets must outlive parsing.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  void AddFlag(const std::string& name, bool& target, const std::string& summary) const;
  Option Add(const std::string& name, const std::string& value_name, std::string& target,
             const std::string& summary) const;
  Option Add(const std::string& name, const std::string& value_name, std::optional<std::string>& target,
             const std::string& summary) const;
  Option Add(const std::string& name, const std::string& value_name, std::vector<std::string>& target,
             const std::string& summary) const;
  /// A whole number of at least zero.
  void AddWhole(const std::string& name, const std::string& value_name, std::int64_t& target,
                const std::string& summary) const;
  void AddWhole(const std::string& name, const std::string& value_name, std::int64_t& target, std::int64_t min,
                std::int64_t max, const std::string& summary) const;

  /// An option whose text `parse` reads, returning a Result<Target>; its error is shown after the flag's name.
  template <typename Target, typename Parse>
  void AddParsed(const std::string& flag, const std::string& value_name, Target& target, Parse parse,
                 const std::string& summary) const {
    AddRead(flag, value_name, summary, [&target, parse](const std::string& text) -> Status {
      WEIR_TRY(target, parse(text));
      return Ok();
    });
  }
  /// As AddParsed, for an option that may be repeated.
  template <typename Item, typename Parse>
  void AddEachParsed(const std::string& flag, const std::string& value_name, std::vector<Item>& target, Parse parse,
                     const std::string& summary) const {
    AddEachRead(flag, value_name, summary, [&target, parse](const std::string& text) -> Status {
      WEIR_TRY(Item item, parse(text));
      target.push_back(std::move(item));
      return Ok();
    });
  }

  /// Sets the usage line of commands that run a program, which CLI11 does not see: it is removed from the command line
  /// first.
  void SetUsage(const std::string& usage) const;

  /// Sets the function that is called after the options are parsed, if this command was given.
  void WhenGiven(std::function<void()> then) const;

  [[nodiscard]] CLI::App& app() const { return *app_; }

 private:
  using Read = std::function<Status(const std::string& text)>;
  void AddRead(const std::string& flag, const std::string& value_name, const std::string& summary, Read read) const;
  void AddEachRead(const std::string& flag, const std::string& value_name, const std::string& summary, Read read) const;

  CLI::App* app_;
};

/// A subcommand with the global options and examples. A command called list or rm also gets the alias ls or delete.
Command AddCommand(Command parent, const std::string& name, const std::string& summary, const std::string& examples,
                   Session& session);

/// A command that only holds others, one of which must be given. The global options may be given before it or after it.
Command AddCommandGroup(Command parent, const std::string& name, const std::string& summary,
                        const std::string& examples);

/// The names in a table of the core, such as its policies.
template <typename Table>
std::vector<std::string> NamesIn(const Table& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  return names;
}

/// Adds the options of a vGPU's settings. With `creates`, also --device and --best-effort.
void AddSettingOptions(Command command, GivenSettings& settings, bool creates);

// Each of these adds its command to `app`. If the command is given, session.action is set.
void AddServe(Command app, Session& session);
void AddDashboard(Command app, Session& session);
void AddDevices(Command app, Session& session);
void AddVgpu(Command app, Session& session);
void AddPolicy(Command app, Session& session);
void AddOversell(Command app, Session& session);
void AddMemory(Command app, Session& session);
void AddKeys(Command app, Session& session);
void AddMigrate(Command app, Session& session);
void AddManager(Command app, Session& session);
/// Adds nodes, cluster and explain.
void AddCluster(Command app, Session& session);
void AddAnalyze(Command app, Session& session);
void AddModule(Command app, Session& session);
void AddProfile(Command app, Session& session);
void AddPlan(Command app, Session& session);
void AddEvents(Command app, Session& session);
void AddMetrics(Command app, Session& session);
Command AddRun(Command app, Session& session);
Command AddRecord(Command app, Session& session);
Command AddDoctor(Command app, Session& session);
void AddTop(Command app, Session& session);
void AddStatus(Command app, Session& session);
void AddStop(Command app, Session& session);
void AddDemo(Command app, Session& session);
void AddSim(Command app, Session& session);
void AddSimReplay(Command sim, Session& session);
void AddVersion(Command app, Session& session);
Command AddHelp(Command app, Session& session);
/// Adds completion, which prints a shell's script, and the hidden command that the scripts call. Returns the latter.
Command AddCompletion(Command app, Session& session);

}  // namespace weir::cli
