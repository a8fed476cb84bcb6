// SPDX-License-Identifier: Apache-2.0
// What weir-analyzer is asked and answers: a length of four bytes, little-endian, and so many bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/partition/access.h"
#include "core/partition/part_source.h"

namespace weir::core {

struct AnalysisRequest {
  std::vector<std::string> options{};  // of clBuildProgram, apart
  /// What the device's compiler defines, as "NAME=VALUE" or "NAME": extensions, __OPENCL_VERSION__, FP_FAST_FMA ...
  /// Where there are any, no other extension is one of it. None: it isn't known, and a source that asks gets no part's
  /// kernel.
  std::vector<std::string> macros{};
  std::string source{};
  bool operator==(const AnalysisRequest&) const = default;
};

struct ProgramAnalysis {
  std::vector<KernelAccess> kernels{};
  std::vector<PartKernel> parts{};  // of those that aren't refused, in their order
  std::string part_source{};
  bool operator==(const ProgramAnalysis&) const = default;
};

using AnalysisReply = Result<ProgramAnalysis>;

inline constexpr std::size_t kAnalysisBytesMax = std::size_t{8} << 20, kAnalysisOptionsMax = 256,
                             kAnalysisMacrosMax = 256, kAnalysisHeadBytes = 4;

/// Without the length. Not more options or macros than there may be.
std::vector<std::byte> EncodeAnalysisRequest(const AnalysisRequest& request);
Result<AnalysisRequest> DecodeAnalysisRequest(std::span<const std::byte> bytes);
/// The answer: kernels, or, with kInvalidArgument, what the compiler said. `parts` are those of the kernels.
std::vector<std::byte> EncodeAnalysisReply(const AnalysisReply& reply);
AnalysisReply DecodeAnalysisReply(std::span<const std::byte> bytes);

/// With the length.
std::vector<std::byte> FrameOf(std::span<const std::byte> body);
/// How many bytes follow a frame's first four. kProtocol: more than there may be.
Result<std::size_t> BodySize(std::span<const std::byte, kAnalysisHeadBytes> head);
/// Of all that the analyzer wrote when it was asked once. kUnavailable: no answer, or not all of one.
AnalysisReply ReplyOf(std::span<const std::byte> written);

}  // namespace weir::core
