// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "cli/options.h"

namespace weir::cli {
namespace {

/// The first sentence or clause: "Print JSON" of "Print JSON; more".
std::string FirstSentence(std::string_view text) {
  const std::size_t end = std::min({text.find(". "), text.find("; "), text.find('\n'), text.size()});
  return std::string(text.substr(0, end));
}

bool TakesValue(const CLI::Option& option) {
  return option.get_items_expected_max() > 0 && option.get_expected_max() > 0;
}

/// The choices in the name of a value's type: those of "on|off|status", but none of "FILE|DIR".
std::vector<std::string> ChoicesInType(const std::string& type) {
  std::vector<std::string> choices;
  const bool named = type.find('|') != std::string::npos && std::ranges::all_of(type, [](unsigned char c) {
                       return std::islower(c) != 0 || c == '|' || c == '-';
                     });
  for (std::size_t from = 0; named && from <= type.size();) {
    const std::size_t end = std::min(type.find('|', from), type.size());
    choices.push_back(type.substr(from, end - from));
    from = end + 1;
  }
  return choices;
}

/// The state while the words are read: the command so far, and the kind of the next word.
struct Reading {
  const CLI::App* command;
  const CLI::Option* value_of = nullptr;  // the option whose value comes next
  std::size_t arguments = 0;              // number of arguments given to the command
  bool of_program = false;                // the next words belong to another program
};

const CLI::App* CommandNamed(const CLI::App& in, const std::string& word) {
  for (const CLI::App* one : in.get_subcommands([](const CLI::App*) { return true; }))
    if (one->check_name(word)) return one;
  return nullptr;
}

/// Whether the command runs a program, which follows the command's options or `--`.
bool RunsAProgram(const CLI::App& command) {
  const std::string& name = command.get_name();
  return command.get_parent() != nullptr && command.get_parent()->get_parent() == nullptr &&
         (name == "run" || name == "doctor" || name == "record");
}

/// Whether the word is the name of the program that the command runs.
bool IsProgram(const Reading& reading, const std::string& word) {
  return !word.starts_with('-') && CommandNamed(*reading.command, word) == nullptr && RunsAProgram(*reading.command) &&
         reading.command->get_name() != "record";  // the argument of record is a vGPU
}

void Read(Reading& reading, const std::string& word) {
  if (reading.of_program || std::exchange(reading.value_of, nullptr) != nullptr) return;
  if (word == "--" || IsProgram(reading, word)) {
    reading.of_program = true;
  } else if (word.size() > 1 && word[0] == '-') {
    if (word.find('=') != std::string::npos) return;
    const CLI::Option* option = reading.command->get_option_no_throw(word);
    if (option != nullptr && TakesValue(*option)) reading.value_of = option;
  } else if (const CLI::App* next = CommandNamed(*reading.command, word)) {
    const bool is_help = next->get_name() == "help";  // the words after help name another command
    if (!is_help) reading.command = next;
    reading.arguments = 0;
  } else {
    ++reading.arguments;
  }
}

class Collector {
 public:
  explicit Collector(std::string word) : word_(std::move(word)) {}

  void Add(const std::string& word, const std::string& summary) {
    if (word.starts_with(word_)) completion_.words.push_back({word, FirstSentence(summary)});
  }
  /// Adds the possible values of an option or an argument.
  void AddValues(const CLI::Option& option, const CLI::App& command) {
    const std::string type = option.get_type_name();
    for (const std::string& choice : ChoicesOf(option)) Add(choice, "");
    for (const std::string& choice : ChoicesInType(type)) Add(choice, "");
    const std::string parent = command.get_parent() != nullptr ? command.get_parent()->get_name() : "";
    const bool is_argument_of_vgpu = parent == "vgpu" && !option.nonpositional() && command.get_name() != "create";
    if (type.starts_with("VGPU") || option.check_lname("vgpu") || is_argument_of_vgpu) completion_.vgpus = true;
    if (option.check_lname("device") && type == "NAME") completion_.devices = true;
    for (const char* of_files : {"FILE", "DIR", "PATH"})
      if (type.find(of_files) != std::string::npos) completion_.files = true;
  }
  void AddOptions(const CLI::App& command) {
    for (const CLI::Option* option : command.get_options()) {
      if (!option->nonpositional()) continue;
      for (const std::string& name : option->get_lnames()) Add("--" + name, option->get_description());
    }
  }
  void AddCommands(const CLI::App& command) {
    for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; }))
      if (!one->get_group().empty()) Add(one->get_name(), one->get_description());
  }
  void AddArgument(const CLI::App& command, std::size_t place) {
    const CLI::Option* last = nullptr;
    for (const CLI::Option* option : command.get_options()) {
      if (option->nonpositional()) continue;
      last = option;
      if (place-- == 0) return AddValues(*option, command);
    }
    if (last != nullptr && last->get_expected_max() > 1) AddValues(*last, command);
  }
  void AddFiles() { completion_.files = true; }
  Completion Take() { return std::move(completion_); }

 private:
  const std::string word_;
  Completion completion_;
};

}  // namespace

Completion Complete(const CLI::App& weir, const std::vector<std::string>& words) {
  Reading reading{.command = &weir};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) Read(reading, words[i]);
  const std::string word = words.empty() ? "" : words.back();
  Collector collector(word);
  if (reading.of_program) {
    collector.AddFiles();
  } else if (reading.value_of != nullptr) {
    collector.AddValues(*reading.value_of, *reading.command);
  } else if (word.starts_with('-')) {
    collector.AddOptions(*reading.command);
  } else {
    collector.AddCommands(*reading.command);
    collector.AddArgument(*reading.command, reading.arguments);
    if (RunsAProgram(*reading.command)) collector.AddFiles();
  }
  return collector.Take();
}

}  // namespace weir::cli
