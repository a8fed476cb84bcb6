// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include "cli/text_units.h"

namespace weir::cli {
namespace {

class FixedUsage : public CLI::Formatter {
 public:
  explicit FixedUsage(std::string usage) : usage_(std::move(usage)) {}
  std::string make_usage(const CLI::App*, std::string) const override { return "Usage: " + usage_ + "\n"; }

 private:
  std::string usage_;
};

}  // namespace

std::shared_ptr<CLI::Formatter> ProgramUsage(const std::string& usage) { return std::make_shared<FixedUsage>(usage); }

CLI::App* AddCommand(CLI::App& parent, const std::string& name, const std::string& summary, const std::string& examples,
                     Session& session) {
  CLI::App* command = parent.add_subcommand(name, summary);
  if (!examples.empty()) command->footer("EXAMPLES\n" + examples);
  command->add_flag("--json", session.json, "Print JSON, in the form of docs/protocol/control-api.md");
  command
      ->add_option("--socket", session.place_flags.socket,
                   "The daemon's control socket (default: $WEIR_SOCKET, else in the run folder)")
      ->type_name("PATH");
  command
      ->add_option("--run-dir", session.place_flags.run_dir,
                   "The run folder (default: /run/weir for root, else $XDG_RUNTIME_DIR/weir)")
      ->type_name("DIR");
  return command;
}

void AddSettingOptions(CLI::App& command, VgpuSettings& settings, bool creates) {
  if (creates)
    command.add_option("--device", settings.device, "The device to share (default: the node's first)")
        ->type_name("NAME");
  AddParsed(command, "--weight", "N", settings.weight, ParseWhole,
            "Proportional share of what is contended, 1 to 10000 (default 100)");
  AddParsed(command, "--cap", "SHARE", settings.cap, ParseFraction,
            "Upper limit of GPU time, 0.01 to 1, or 40% (default 1)");
  AddParsed(command, "--fps", "N", settings.fps, ParseNumber, "Promised frames per second; 0: none");
  AddParsed(command, "--latency-ms", "N", settings.latency_ms, ParseNumber,
            "Promised upper limit of a frame's latency; 0: none");
  AddParsed(command, "--memory", "[MIN:]MAX", settings.memory, ParseMemoryRange,
            "Device memory, as 512M or 512M:1G; a MAX of 0: no limit");
}

}  // namespace weir::cli
