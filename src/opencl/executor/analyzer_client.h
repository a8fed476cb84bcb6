// SPDX-License-Identifier: Apache-2.0
// Asks weir-analyzer, a process of its own, what kernels access. Thread-safe.
#pragma once

#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/partition/analysis_frames.h"
#include "platform/piped_child.h"

namespace weir::opencl {

class AnalyzerClient {
 public:
  /// `program`: weir-analyzer's path.
  explicit AnalyzerClient(std::string program) : program_(std::move(program)) {}

  /// Starts it before it is asked, so that the first question finds it ready; a failure is told to who asks.
  void Start();

  using Answer = std::shared_ptr<const core::ProgramAnalysis>;
  /// The same source with the same options is analysed once. Errors are those of weir-analyzer, and what keeps it from
  /// answering; the next question starts it anew.
  Result<Answer> Ask(const core::AnalysisRequest& request);
  /// Asks in a thread of its own: who asks the same later finds the answer, or waits for what is left of its time. Does
  /// nothing where enough are on their way.
  void AskAhead(core::AnalysisRequest request);

 private:
  struct Known {
    core::AnalysisRequest request;
    Answer answer;
  };
  Result<Answer> AskProcess(const core::AnalysisRequest& request);

  const std::string program_;
  std::mutex mutex_;
  std::optional<platform::PipedChild> process_;
  std::list<Known> known_;  // what was asked last in front
  std::mutex ahead_mutex_;
  std::list<std::future<void>> ahead_;  // last: they use all of the above
};

}  // namespace weir::opencl
