// SPDX-License-Identifier: Apache-2.0
// Runs the program for some seconds on a new vGPU and observes it.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "cli/common/control_client.h"
#include "cli/common/terminal.h"
#include "tools/doctor/facts.h"

namespace weir::cli {

struct TrialPlan {
  std::vector<std::string> program;
  std::string library;  // for LD_PRELOAD
  Duration span = seconds(5);
};

/// If the trial can't be made, `error` and `code` say why.
TrialFacts TryProgram(const ControlClient& client, const TrialPlan& plan, StopSignals& signals);

/// Extracts the explanatory lines of a program's output.
class OutputWatch {
 public:
  static constexpr std::size_t kMessagesMax = 8;
  static constexpr std::size_t kLineBytesMax = 400;

  void Add(std::string_view bytes);
  /// Lines of weir, or of ld.so about preloading, each once.
  [[nodiscard]] const std::vector<std::string>& messages() const { return messages_; }
  [[nodiscard]] std::string last_line() const { return line_.empty() ? last_ : line_; }

 private:
  void Finish();
  std::string line_, last_;
  std::vector<std::string> messages_;
};

/// "sh(12) > start.sh(13)": the chain of processes from `root` to the one that started `pid`.
std::string AncestryText(const std::vector<TreeProcess>& tree, std::int64_t root, std::int64_t pid);

}  // namespace weir::cli
