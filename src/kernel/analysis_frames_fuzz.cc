// SPDX-License-Identifier: Apache-2.0
// Messages of weir-analyzer are decoded from any bytes without crashing, and encoded into the same bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "kernel/analysis_frames.h"

namespace {

void RequireSame(std::span<const std::byte> bytes, std::span<const std::byte> again) {
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::kernel;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto request = DecodeAnalysisRequest(bytes)) RequireSame(bytes, EncodeAnalysisRequest(*request));
  const auto reply = DecodeAnalysisReply(bytes);
  if (reply || (!bytes.empty() && reply.error().code == weir::Errc::kInvalidArgument))
    RequireSame(bytes, EncodeAnalysisReply(reply));
  if (const auto reply_of = ReplyOf(bytes); reply_of && bytes.size() < kAnalysisHeadBytes) std::abort();
  return 0;
}
