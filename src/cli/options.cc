// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <CLI/CLI.hpp>

#include "cli/common/text_units.h"

namespace weir::cli {
namespace {

class FixedUsage : public CLI::Formatter {
 public:
  explicit FixedUsage(std::string usage) : usage_(std::move(usage)) {}
  std::string make_usage(const CLI::App*, std::string) const override { return "Usage: " + usage_ + "\n"; }

 private:
  std::string usage_;
};

template <typename Target>
Option AddValue(CLI::App& app, const std::string& name, const std::string& value_name, Target& target,
                const std::string& summary) {
  return Option(*app.add_option(name, target, summary)->type_name(value_name));
}

}  // namespace

void RejectUsage(const std::string& message) { throw CLI::ValidationError(message); }  // CLI11's way; ends in Main

Option Option::Required() const { return Option(*option_->required()); }
Option Option::Excludes(Option other) const { return Option(*option_->excludes(other.option_)); }

void Command::AddFlag(const std::string& name, bool& target, const std::string& summary) const {
  app_->add_flag(name, target, summary);
}

Option Command::Add(const std::string& name, const std::string& value_name, std::string& target,
                    const std::string& summary) const {
  return AddValue(*app_, name, value_name, target, summary);
}

Option Command::Add(const std::string& name, const std::string& value_name, std::optional<std::string>& target,
                    const std::string& summary) const {
  return AddValue(*app_, name, value_name, target, summary);
}

Option Command::Add(const std::string& name, const std::string& value_name, std::vector<std::string>& target,
                    const std::string& summary) const {
  return AddValue(*app_, name, value_name, target, summary);
}

void Command::AddWhole(const std::string& name, const std::string& value_name, std::int64_t& target,
                       const std::string& summary) const {
  app_->add_option(name, target, summary)->type_name(value_name)->check(CLI::NonNegativeNumber);
}

void Command::AddWhole(const std::string& name, const std::string& value_name, std::int64_t& target, std::int64_t min,
                       std::int64_t max, const std::string& summary) const {
  app_->add_option(name, target, summary)->type_name(value_name)->check(CLI::Range(min, max));
}

void Command::AddRead(const std::string& flag, const std::string& value_name, const std::string& summary,
                      Read read) const {
  app_->add_option_function<std::string>(
          flag,
          [flag, read = std::move(read)](const std::string& text) {
            if (const Status status = read(text); !status) RejectUsage(flag + ": " + status.error().message);
          },
          summary)
      ->type_name(value_name);
}

void Command::AddEachRead(const std::string& flag, const std::string& value_name, const std::string& summary,
                          Read read) const {
  app_->add_option_function<std::vector<std::string>>(
          flag,
          [flag, read = std::move(read)](const std::vector<std::string>& texts) {
            for (const std::string& text : texts)
              if (const Status status = read(text); !status) RejectUsage(flag + ": " + status.error().message);
          },
          summary)
      ->type_name(value_name)
      ->expected(1)
      ->take_all();
}

void Command::SetUsage(const std::string& usage) const { app_->formatter(std::make_shared<FixedUsage>(usage)); }

void Command::WhenGiven(std::function<void()> then) const { app_->callback(std::move(then)); }

Command AddCommand(Command parent, const std::string& name, const std::string& summary, const std::string& examples,
                   Session& session) {
  const Command command(*parent.app().add_subcommand(name, summary));
  if (!examples.empty()) command.app().footer("EXAMPLES\n" + examples);
  command.AddFlag("--json", session.json, "Print JSON, in the form of docs/protocol/control-api.md");
  command.Add("--socket", "PATH", session.place_flags.socket,
              "The daemon's control socket (default: $WEIR_SOCKET, else in the run folder)");
  command.Add("--run-dir", "DIR", session.place_flags.run_dir,
              "The run folder (default: /run/weir for root, else $XDG_RUNTIME_DIR/weir)");
  return command;
}

Command AddCommandGroup(Command parent, const std::string& name, const std::string& summary,
                        const std::string& examples) {
  CLI::App* group = parent.app().add_subcommand(name, summary);
  group->footer("EXAMPLES\n" + examples);
  group->require_subcommand(1);
  return Command(*group);
}

void AddSettingOptions(Command command, VgpuSettings& settings, bool creates) {
  if (creates) command.Add("--device", "NAME", settings.device, "The device to share (default: the node's first)");
  command.AddParsed("--weight", "N", settings.weight, ParseWhole,
                    "Relative share of the device while it is contended, 1 to 10000 (default 100)");
  command.AddParsed("--cap", "SHARE", settings.cap, ParseFraction,
                    "Upper limit of GPU time, 0.01 to 1, or 40% (default 1)");
  command.AddParsed("--fps", "N", settings.fps, ParseNumber, "Promised frames per second; 0: none");
  command.AddParsed("--tasks", "N", settings.tasks_per_s, ParseNumber,
                    "Promised tasks per second of a program that computes: kernel launches, or work that ends with "
                    "its own markers; 0: none. Excludes --fps");
  command.AddParsed("--latency-ms", "N", settings.latency_ms, ParseNumber,
                    "Promised upper limit of a frame's latency; 0: none");
  command.AddParsed("--memory", "[MIN:]MAX", settings.memory, ParseMemoryRange,
                    "Device memory, as 512M or 512M:1G; a MAX of 0: no limit");
  command.Add("--partition", "MODE", settings.partition,
              "OpenCL launches that need more than the maximum of elastic memory: run in parts (auto, the default), "
              "fail (never), or parts for all launches that can be cut (always, for tests)");
  if (creates)
    command.AddFlag("--best-effort", settings.best_effort,
                    "Use only idle GPU time, without a promise: never refused on an oversold device");
}

}  // namespace weir::cli
