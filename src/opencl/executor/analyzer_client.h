// SPDX-License-Identifier: Apache-2.0
// Asks weir-analyzer, a separate process, for the accesses of kernels. Thread-safe.
#pragma once

#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "kernel/analysis_frames.h"
#include "platform/piped_child.h"

namespace weir::opencl {

class AnalyzerClient {
 public:
  /// `program`: weir-analyzer's path.
  explicit AnalyzerClient(std::string program) : program_(std::move(program)) {}

  /// Starts the process in advance, so that the first request finds it ready. A failure is reported to the first
  /// request.
  void Start();

  using Answer = std::shared_ptr<const kernel::ProgramAnalysis>;
  /// Analyses each combination of source and options only once. Errors: those of weir-analyzer, and those that keep it
  /// from answering. If it has ended, it is started again once for this request; after another error, for the next one.
  Result<Answer> Ask(const kernel::AnalysisRequest& request);
  /// Starts a request in the background. A later Ask for the same program finds the answer, or waits for the rest of
  /// the time. Does nothing if too many requests are pending.
  void AskAhead(kernel::AnalysisRequest request);

 private:
  struct Known {
    kernel::AnalysisRequest request;
    Answer answer;
  };
  Result<Answer> AskProcess(const kernel::AnalysisRequest& request);

  const std::string program_;
  std::mutex mutex_;
  std::optional<platform::PipedChild> process_;
  std::list<Known> known_;  // most recently used first
  std::mutex ahead_mutex_;
  std::list<std::future<void>> ahead_;  // last, because its tasks use the other members
};

}  // namespace weir::opencl
