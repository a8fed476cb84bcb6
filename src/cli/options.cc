// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "cli/common/text_units.h"
#include "engine/vgpu_settings.h"

namespace weir::cli {
namespace {

constexpr std::string_view kOneOf = ". One of: ";

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

Option Option::OneOf(const std::vector<std::string>& names) const {
  return Option(
      *option_->description(fmt::format("{}{}{}", option_->get_description(), kOneOf, fmt::join(names, ", "))));
}

std::vector<std::string> ChoicesOf(const CLI::Option& option) {
  const std::string& text = option.get_description();
  const std::size_t before = text.find(kOneOf);
  if (before == std::string::npos) return {};
  std::vector<std::string> names;
  for (std::size_t from = before + kOneOf.size(); from < text.size();) {
    const std::size_t end = std::min(text.find(", ", from), text.size());
    names.push_back(text.substr(from, end - from));
    from = end + 2;
  }
  return names;
}

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
  if (name == "list") command.app().alias("ls");
  if (name == "rm") command.app().alias("delete");
  command.app().fallthrough(false);  // the command has the global options itself
  if (!examples.empty()) command.app().footer("EXAMPLES\n" + examples);
  command.AddFlag("--json", session.json, "Print JSON, in the form of docs/protocol/control-api.md");
  command.Add(
      "--socket", "PATH", session.place_flags.socket,
      "The daemon's control socket (default: in the folder of --run-dir, if given; else $WEIR_SOCKET, else in the run "
      "folder)");
  command.Add("--run-dir", "DIR", session.place_flags.run_dir,
              "The run folder (default: $WEIR_RUN_DIR, else /run/weir for root, else $XDG_RUNTIME_DIR/weir, else "
              "/tmp/weir-UID)");
  return command;
}

Command AddCommandGroup(Command parent, const std::string& name, const std::string& summary,
                        const std::string& examples) {
  CLI::App* group = parent.app().add_subcommand(name, summary);
  group->footer("EXAMPLES\n" + examples);
  group->require_subcommand(1);
  group->fallthrough();  // the parent has the global options
  return Command(*group);
}

namespace {

/// The text of an option as the control API's value of a setting of type Value.
template <typename Value>
Result<nlohmann::json> ParseSetting(const std::string& text) {
  if constexpr (engine::kIsChoice<Value>) {
    return nlohmann::json(text);
  } else if constexpr (std::is_same_v<Value, std::uint32_t>) {
    WEIR_TRY(const std::int64_t whole, ParseWhole(text));
    return nlohmann::json(whole);
  } else {
    WEIR_TRY(const double number, (std::is_same_v<Value, Share> ? ParseFraction(text) : ParseNumber(text)));
    return JsonNumber(number);
  }
}

/// The values with the one that the text gives.
template <typename Value>
Result<nlohmann::json> WithSetting(nlohmann::json values, const char* name, const std::string& text) {
  if constexpr (std::is_same_v<Value, Bytes>) {  // one option for two settings: [MIN:]MAX
    WEIR_TRY(const MemoryRange range, ParseMemoryRange(text));
    values["memory_min_bytes"] = range.min.count;
    values["memory_max_bytes"] = range.max.count;
  } else {
    WEIR_TRY(values[name], ParseSetting<Value>(text));
  }
  return values;
}

}  // namespace

void AddSettingOptions(Command command, GivenSettings& settings, bool creates) {
  if (creates) command.Add("--device", "NAME", settings.device, "The device to share (default: the node's first)");
  engine::VgpuSettings::Fields([&](const engine::SettingInfo& info, auto member) {
    using Value = std::remove_cvref_t<decltype(engine::VgpuSettings{}.*member)>;
    if (info.flag == nullptr) return;
    const auto parse = [&settings, name = info.name](const std::string& text) {
      return WithSetting<Value>(settings.values, name, text);
    };
    const std::string preset = creates ? fmt::format(" (default: {})", info.preset) : "";
    command.AddParsed(info.flag, info.value_name, settings.values, parse, info.summary + preset);
  });
  if (creates)
    command.AddFlag("--best-effort", settings.best_effort,
                    "Use only idle GPU time, without a promise: never refused on an oversold device");
}

}  // namespace weir::cli
