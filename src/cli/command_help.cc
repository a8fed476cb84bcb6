// SPDX-License-Identifier: Apache-2.0
// weir help [COMMAND...]: the same text as 'weir COMMAND --help'.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/options.h"
#include "cli/usage_errors.h"

namespace weir::cli {

Command AddHelp(Command app, Session& session) {
  const Command command =
      AddCommand(app, "help", "Print the help of a command", "  weir help\n  weir help vgpu create\n", session);
  command.SetUsage("weir help [COMMAND...]");
  // CLI11 would parse the words as given commands, so they are removed from the command line first.
  command.WhenGiven([root = &app.app(), &session] {
    session.action = [root, &session]() -> Result<int> {
      const CLI::App* asked = root;
      std::string name = "weir";
      for (const std::string& word : session.program) {
        const CLI::App* next = nullptr;
        for (const CLI::App* one : asked->get_subcommands([](const CLI::App*) { return true; }))
          if (one->check_name(word)) next = one;
        if (next == nullptr)
          return Fail(Errc::kInvalidArgument,
                      fmt::format("{}; 'weir help' lists the commands", UnknownCommandText(*asked, word)));
        asked = next;
        name += " " + next->get_name();
      }
      // help() would return the help of a given subcommand, so the formatter is called directly.
      fmt::print("{}", asked->get_formatter()->make_help(asked, name, CLI::AppFormatMode::Normal));
      return 0;
    };
  });
  return command;
}

}  // namespace weir::cli
