// SPDX-License-Identifier: Apache-2.0
// Runs the program on a vGPU of its own for some seconds and watches what becomes of it.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "cli/control_client.h"
#include "cli/doctor/facts.h"
#include "cli/terminal.h"

namespace weir::cli {

struct TrialPlan {
  std::vector<std::string> program;
  std::string library;  // for LD_PRELOAD
  Duration span = seconds(5);
};

/// A trial that can't be made says so in `error` and `code`.
TrialFacts TryProgram(const ControlClient& client, const TrialPlan& plan, StopSignals& signals);

/// Keeps of a program's output what explains something, whatever it prints.
class OutputWatch {
 public:
  static constexpr std::size_t kMessagesMax = 8;
  static constexpr std::size_t kLineBytesMax = 400;

  void Add(std::string_view bytes);
  /// Lines that come from weir or from ld.so about preloading, each once.
  [[nodiscard]] const std::vector<std::string>& messages() const { return messages_; }
  [[nodiscard]] std::string last_line() const { return line_.empty() ? last_ : line_; }

 private:
  void Finish();
  std::string line_, last_;
  std::vector<std::string> messages_;
};

/// "sh(12) > start.sh(13)": who, below `root` and it included, started `pid`.
std::string AncestryText(const std::vector<TreeProcess>& tree, std::int64_t root, std::int64_t pid);

}  // namespace weir::cli
