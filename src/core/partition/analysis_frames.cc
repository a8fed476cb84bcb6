// SPDX-License-Identifier: Apache-2.0
#include "core/partition/analysis_frames.h"

#include <algorithm>

namespace weir::core {
namespace {

constexpr std::byte kAnalysed{0}, kNotAnalysed{1};

void AppendText(std::vector<std::byte>& bytes, const std::string& text) {
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
}

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

// Options and the source, each ended by a zero byte; neither has one inside.
std::vector<std::byte> EncodeAnalysisRequest(const AnalysisRequest& request) {
  std::vector<std::byte> bytes;
  for (const std::string& option : request.options) {
    AppendText(bytes, option);
    bytes.push_back(std::byte{0});
  }
  AppendText(bytes, request.source);
  bytes.push_back(std::byte{0});
  return bytes;
}

Result<AnalysisRequest> DecodeAnalysisRequest(std::span<const std::byte> bytes) {
  AnalysisRequest request;
  if (bytes.empty() || bytes.back() != std::byte{0} || bytes.size() > kAnalysisBytesMax)
    return Fail(Errc::kProtocol, "a request for an analysis is malformed");
  for (auto begin = bytes.begin(); begin != bytes.end();) {
    const auto end = std::find(begin, bytes.end(), std::byte{0});
    std::string text = TextOf({begin, end});
    begin = end + 1;
    if (begin == bytes.end())
      request.source = std::move(text);
    else if (request.options.size() == kAnalysisOptionsMax)
      return Fail(Errc::kProtocol, "a request for an analysis has too many options");
    else
      request.options.push_back(std::move(text));
  }
  return request;
}

std::vector<std::byte> EncodeAnalysisReply(const Result<std::vector<KernelAccess>>& reply) {
  std::vector<std::byte> bytes{reply ? kAnalysed : kNotAnalysed};
  if (reply) {
    const std::vector<std::byte> kernels = EncodeAccesses(*reply);
    bytes.insert(bytes.end(), kernels.begin(), kernels.end());
  } else {
    AppendText(bytes, reply.error().message);
  }
  return bytes;
}

Result<std::vector<KernelAccess>> DecodeAnalysisReply(std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes[0] > kNotAnalysed) return Fail(Errc::kProtocol, "the analyzer's answer is malformed");
  if (bytes[0] == kNotAnalysed) return Fail(Errc::kInvalidArgument, TextOf(bytes.subspan(1)));
  return DecodeAccesses(bytes.subspan(1));
}

}  // namespace weir::core
