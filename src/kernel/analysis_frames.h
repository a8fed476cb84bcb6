// SPDX-License-Identifier: Apache-2.0
// Messages of weir-analyzer, in both directions: a length of four bytes, little-endian, followed by that many bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernel/access.h"
#include "kernel/part_source.h"

namespace weir::kernel {

struct AnalysisRequest {
  std::vector<std::string> options{};  // of clBuildProgram, split into words
  /// The macros that the device's compiler defines, as "NAME=VALUE" or "NAME": extensions, __OPENCL_VERSION__,
  /// FP_FAST_FMA ... If not empty, it lists all extensions. If empty, they are unknown, and a source that tests such
  /// macros gets no kernels for parts.
  std::vector<std::string> macros{};
  std::string source{};
  bool operator==(const AnalysisRequest&) const = default;
};

struct ProgramAnalysis {
  std::vector<KernelAccess> kernels{};
  std::vector<PartKernel> parts{};  // of the kernels that aren't refused, in their order
  std::string part_source{};
  bool operator==(const ProgramAnalysis&) const = default;
};

using AnalysisReply = Result<ProgramAnalysis>;

inline constexpr std::size_t kAnalysisBytesMax = std::size_t{8} << 20, kAnalysisOptionsMax = 256,
                             kAnalysisMacrosMax = 256, kAnalysisHeadBytes = 4;

/// Body without the length. The request must not exceed the limits for options and macros.
std::vector<std::byte> EncodeAnalysisRequest(const AnalysisRequest& request);
Result<AnalysisRequest> DecodeAnalysisRequest(std::span<const std::byte> bytes);
/// Body without the length. `reply`: the kernels, or kInvalidArgument with the compiler's message. Its `parts` has an
/// entry for each kernel that is not refused, in their order.
std::vector<std::byte> EncodeAnalysisReply(const AnalysisReply& reply);
AnalysisReply DecodeAnalysisReply(std::span<const std::byte> bytes);

/// Adds the length.
std::vector<std::byte> FrameOf(std::span<const std::byte> body);
/// Number of bytes after a frame's first four. kProtocol if it exceeds the limit.
Result<std::size_t> BodySize(std::span<const std::byte, kAnalysisHeadBytes> head);
/// Decodes all output of the analyzer for one request. kUnavailable if a reply is missing or incomplete.
AnalysisReply ReplyOf(std::span<const std::byte> written);

}  // namespace weir::kernel
