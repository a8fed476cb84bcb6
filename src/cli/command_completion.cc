// SPDX-License-Identifier: Apache-2.0
// weir completion SHELL prints a script for a shell. The script calls `weir complete -- WORDS` for the words that may
// follow, so the script does not depend on the commands.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common/views.h"
#include "cli/completion.h"
#include "cli/options.h"

namespace weir::cli {
namespace {

/// Printed to make the shell complete a file's name.
constexpr const char* kFilesMark = ":files";

constexpr std::string_view kBash = R"script(# bash completion of weir. To use it:  source <(weir completion bash)
_weir() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ "${line}" == :files ]]; then
      compopt -o default
    else
      COMPREPLY+=("${line%%$'\t'*}")
    fi
  done < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _weir weir
)script";

constexpr std::string_view kZsh = R"script(#compdef weir
# zsh completion of weir. To use it:  source <(weir completion zsh)
_weir() {
  local line files=0
  local -a candidates
  for line in "${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case "${line}" in
      '') ;;
      :files) files=1 ;;
      *) candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
    esac
  done
  (( ${#candidates} )) && _describe weir candidates
  (( files )) && _files
}
if [[ "${funcstack[1]}" == _weir ]]; then _weir "$@"; else compdef _weir weir; fi
)script";

constexpr std::string_view kFish = R"script(# fish completion of weir. To use it:  weir completion fish | source
function __weir_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] complete -- $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path "$current"
        else
            echo $line
        end
    end
end
complete -c weir -f -a "(__weir_complete)"
)script";

struct Shell {
  std::string_view name, script;
};
constexpr std::array kShells{Shell{"bash", kBash}, Shell{"zsh", kZsh}, Shell{"fish", kFish}};

Result<int> PrintScript(const std::string& name) {
  const auto shell = std::ranges::find(kShells, name, &Shell::name);
  if (shell == kShells.end())
    return Fail(Errc::kInvalidArgument, fmt::format("no completion for '{}'; known: bash, zsh, fish", name));
  fmt::print("{}", shell->script);
  return 0;
}

/// Prints the names that the daemon knows. Without a daemon, prints nothing, because a shell cannot use an error.
void PrintNames(const Session& session, const std::string& target, const char* list, const std::string& word) {
  const auto reply = session.client().Get(target);
  if (!reply) return;
  for (const nlohmann::json& one : reply->value(list, nlohmann::json::array()))
    if (const std::string name = TextField(one, "name"); name.starts_with(word)) fmt::print("{}\n", name);
}

/// Applies the words that select a daemon.
void TakePlaces(Session& session) {
  const std::vector<std::string>& words = session.program;
  for (std::size_t i = 0; i + 2 < words.size() && words[i] != "--"; ++i) {
    if (words[i] == "--run-dir") session.place_flags.run_dir = words[i + 1];
    if (words[i] == "--socket") session.place_flags.socket = words[i + 1];
  }
}

}  // namespace

Command AddCompletion(Command app, Session& session) {
  const auto shell = std::make_shared<std::string>();
  const Command completion = AddCommand(app, "completion", "Print a script with which a shell completes commands",
                                        "  source <(weir completion bash)    # in ~/.bashrc for all shells to come\n"
                                        "  source <(weir completion zsh)\n"
                                        "  weir completion fish | source\n",
                                        session);
  completion.Add("shell", "bash|zsh|fish", *shell, "The shell").Required();
  completion.WhenGiven([shell, &session] { session.action = [shell] { return PrintScript(*shell); }; });

  const Command complete = AddCommand(app, "complete", "What may follow on a command line, for shells", "", session);
  complete.app().group("");  // not in the help
  complete.WhenGiven([root = &app.app(), &session] {
    session.action = [root, &session]() -> Result<int> {
      const std::string word = session.program.empty() ? "" : session.program.back();
      TakePlaces(session);
      const Completion found = Complete(*root, session.program);
      for (const Candidate& candidate : found.words) fmt::print("{}\t{}\n", candidate.word, candidate.summary);
      if (found.vgpus) PrintNames(session, "/v1/vgpus", "vgpus", word);
      if (found.devices) PrintNames(session, "/v1/devices", "devices", word);
      if (found.files) fmt::print("{}\n", kFilesMark);
      return 0;
    };
  });
  return complete;
}

}  // namespace weir::cli
