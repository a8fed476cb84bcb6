// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/analyzer_client.h"

#include <algorithm>
#include <array>

namespace weir::opencl {
namespace {

/// Longer than weir-analyzer's own limit.
constexpr Duration kAnswerWithin = seconds(12);
constexpr std::size_t kKnownMax = 32, kAheadMax = 8;

}  // namespace

void AnalyzerClient::Start() {
  const std::lock_guard lock(mutex_);
  if (process_) return;
  if (auto started = platform::PipedChild::Start({program_})) process_.emplace(std::move(*started));
}

Result<AnalyzerClient::Answer> AnalyzerClient::Ask(const kernel::AnalysisRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(known_, request, &Known::request);
  if (found != known_.end()) {
    known_.splice(known_.begin(), known_, found);
    return found->answer;
  }
  auto answer = AskProcess(request);
  if (!answer && answer.error().code == Errc::kUnavailable) {
    // It was killed, maybe long before this request. A source that ends it ends the next one, too, and gets the error.
    process_.reset();
    answer = AskProcess(request);
  }
  if (!answer) {
    if (answer.error().code != Errc::kInvalidArgument) process_.reset();
    return answer;
  }
  known_.push_front({.request = request, .answer = *answer});
  if (known_.size() > kKnownMax) known_.pop_back();
  return answer;
}

void AnalyzerClient::AskAhead(kernel::AnalysisRequest request) {
  const std::lock_guard lock(ahead_mutex_);
  ahead_.remove_if([](const auto& one) { return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
  if (ahead_.size() >= kAheadMax) return;
  ahead_.push_back(
      std::async(std::launch::async, [this, asked = std::move(request)] { static_cast<void>(Ask(asked)); }));
}

Result<AnalyzerClient::Answer> AnalyzerClient::AskProcess(const kernel::AnalysisRequest& request) {
  if (!process_) {
    WEIR_TRY(platform::PipedChild started, platform::PipedChild::Start({program_}));
    process_.emplace(std::move(started));
  }
  WEIR_TRY_STATUS(process_->Send(kernel::FrameOf(kernel::EncodeAnalysisRequest(request)), kAnswerWithin));
  std::array<std::byte, kernel::kAnalysisHeadBytes> head{};
  WEIR_TRY_STATUS(process_->Receive(head, kAnswerWithin));
  WEIR_TRY(const std::size_t size, kernel::BodySize(head));
  std::vector<std::byte> answer(size);
  WEIR_TRY_STATUS(process_->Receive(answer, kAnswerWithin));
  WEIR_TRY(kernel::ProgramAnalysis analysis, kernel::DecodeAnalysisReply(answer));
  return std::make_shared<const kernel::ProgramAnalysis>(std::move(analysis));
}

}  // namespace weir::opencl
