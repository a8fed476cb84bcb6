// SPDX-License-Identifier: Apache-2.0
#include "cli/usage_errors.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "cli/common/nearest.h"

namespace weir::cli {
namespace {

/// The given command and its parents, from the outermost on.
std::vector<const CLI::App*> GivenCommands(const CLI::App& app) {
  std::vector<const CLI::App*> given{&app};
  while (!given.back()->get_subcommands().empty()) given.push_back(given.back()->get_subcommands().front());
  return given;
}

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
    names.insert(names.end(), command->get_aliases().begin(), command->get_aliases().end());
  }
  return names;
}

/// The long names of the command's options, with dashes. Its own options come before those of its parents.
std::vector<std::string> OptionsFor(const std::vector<const CLI::App*>& given) {
  std::vector<std::string> names;
  for (auto command = given.rbegin(); command != given.rend(); ++command)
    for (const CLI::Option* option : (*command)->get_options())
      for (const std::string& name : option->get_lnames())
        if (std::ranges::find(names, "--" + name) == names.end()) names.push_back("--" + name);
  return names;
}

std::string UnknownOptionText(const std::vector<const CLI::App*>& given, const std::string& argument) {
  const std::string word = argument.substr(0, argument.find('='));
  std::vector<std::string> names = OptionsFor(given);
  if (word.size() == 2)  // one letter: an option that begins with it, if there is only one
    std::erase_if(names, [&](const std::string& name) { return name[2] != word[1]; });
  const bool letter = word.size() == 2 && names.size() == 1;
  return fmt::format("unknown option '{}'{}", argument,
                     letter ? fmt::format("; did you mean '{}'?", names.front()) : Suggestion(word, names));
}

std::string Joined(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

/// The error text for arguments that CLI11 could not place. If there are several, an option is the likely mistake,
/// unless a command is missing.
std::string UnexpectedText(const std::vector<const CLI::App*>& given, const std::vector<std::string>& rest) {
  const auto is_option = [](const std::string& argument) { return argument.starts_with('-'); };
  const auto option = std::ranges::find_if(rest, is_option);
  const auto word = std::ranges::find_if_not(rest, is_option);
  const bool needs_command = !CommandsOf(*given.back()).empty();
  if (needs_command && word != rest.end() && (option == rest.end() || word < option))
    return UnknownCommandText(*given.back(), *word);
  if (option != rest.end()) return UnknownOptionText(given, *option);
  return word == rest.end() ? "an argument too many" : fmt::format("unexpected argument '{}'", *word);
}

}  // namespace

std::string CommandName(const CLI::App& app) {
  std::string name = "weir";
  for (const CLI::App* command : GivenCommands(app))
    if (command != &app) name += " " + command->get_name();
  return name;
}

std::string UnknownCommandText(const CLI::App& app, const std::string& word) {
  return fmt::format("unknown command '{}'{}", word, Suggestion(word, CommandsOf(app)));
}

std::string UsageErrorText(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<const CLI::App*> given = GivenCommands(app);
  const std::string what = error.what();
  // For a wrong command, CLI11 reports a missing command before it reports arguments that it could not place.
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  const bool needs_command = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr || (needs_command && !rest.empty()))
    return UnexpectedText(given, rest);
  if (needs_command && what.starts_with("A subcommand")) {
    std::string name = CommandName(app);
    return fmt::format("{} needs a command: {}", name, Joined(CommandsOf(*given.back())));
  }
  // CLI11's text is "--weight: 1 required N missing".
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && what.find(" required ") != std::string::npos &&
      what.ends_with(" missing")) {
    const std::size_t type = what.find(" required ") + std::string_view(" required ").size();
    return fmt::format("{} needs a value: {}", what.substr(0, what.find(':')),
                       what.substr(type, what.size() - type - std::string_view(" missing").size()));
  }
  return what;
}

}  // namespace weir::cli
