// SPDX-License-Identifier: Apache-2.0
// What the commands' command lines have in common. Only files that define options include this: CLI11 compiles slowly.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "cli/session.h"
#include "cli/settings.h"

namespace weir::cli {

/// A subcommand with the global options and its examples.
CLI::App* AddCommand(CLI::App& parent, const std::string& name, const std::string& summary, const std::string& examples,
                     Session& session);

/// The settings of a vGPU; `session` of a command that creates it takes --device too.
void AddSettingOptions(CLI::App& command, VgpuSettings& settings, bool creates);

/// An option whose text `parse` reads; its error is shown behind the flag's name.
template <typename Target, typename Parse>
CLI::Option* AddParsed(CLI::App& command, const std::string& flag, const std::string& value_name, Target& target,
                       Parse parse, const std::string& summary) {
  return command
      .add_option_function<std::string>(
          flag,
          [&target, parse, flag](const std::string& text) {
            auto parsed = parse(text);
            if (!parsed) throw CLI::ValidationError(flag, parsed.error().message);  // CLI11's way; ends in Main
            target = *std::move(parsed);
          },
          summary)
      ->type_name(value_name);
}

/// For the help of commands that run a program: CLI11 doesn't know of it, since it is taken off the command line
/// before.
std::shared_ptr<CLI::Formatter> ProgramUsage(const std::string& usage);

// Each adds its command to `app`; when it is the one given, session.action is set.
void AddServe(CLI::App& app, Session& session);
void AddDevices(CLI::App& app, Session& session);
void AddVgpu(CLI::App& app, Session& session);
void AddPolicy(CLI::App& app, Session& session);
CLI::App* AddRun(CLI::App& app, Session& session);
CLI::App* AddRecord(CLI::App& app, Session& session);
CLI::App* AddDoctor(CLI::App& app, Session& session);
void AddTop(CLI::App& app, Session& session);
void AddStatus(CLI::App& app, Session& session);
void AddStop(CLI::App& app, Session& session);
void AddDemo(CLI::App& app, Session& session);
void AddSim(CLI::App& app, Session& session);
void AddSimReplay(CLI::App& sim, Session& session);
void AddVersion(CLI::App& app, Session& session);

}  // namespace weir::cli
