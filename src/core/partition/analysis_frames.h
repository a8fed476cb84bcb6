// SPDX-License-Identifier: Apache-2.0
// What weir-analyzer is asked and answers: a length of four bytes, little-endian, and so many bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/partition/access.h"

namespace weir::core {

struct AnalysisRequest {
  std::vector<std::string> options{};  // of clBuildProgram, apart
  std::string source{};
  bool operator==(const AnalysisRequest&) const = default;
};

inline constexpr std::size_t kAnalysisBytesMax = std::size_t{8} << 20, kAnalysisOptionsMax = 256;

/// Without the length.
std::vector<std::byte> EncodeAnalysisRequest(const AnalysisRequest& request);
Result<AnalysisRequest> DecodeAnalysisRequest(std::span<const std::byte> bytes);
/// The answer: kernels, or, with kInvalidArgument, what the compiler said.
std::vector<std::byte> EncodeAnalysisReply(const Result<std::vector<KernelAccess>>& reply);
Result<std::vector<KernelAccess>> DecodeAnalysisReply(std::span<const std::byte> bytes);

}  // namespace weir::core
