// SPDX-License-Identifier: Apache-2.0
#include "kernel/analysis_frames.h"

#include <algorithm>

namespace weir::kernel {
namespace {

constexpr std::byte kAnalysed{0}, kNotAnalysed{1};

void AppendText(std::vector<std::byte>& bytes, const std::string& text) {
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
}

void AppendNumber(std::vector<std::byte>& bytes, std::size_t number, unsigned size) {
  for (unsigned i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(number >> (8 * i)));
}

std::size_t NumberOf(std::span<const std::byte> bytes) {
  std::size_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) number = (number << 8) | std::to_integer<std::size_t>(bytes[i]);
  return number;
}

std::string TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Error BadReply() { return Fail(Errc::kProtocol, "the analyzer's answer is malformed"); }

/// Consumes bytes from the front.
class AnalysisReader {
 public:
  explicit AnalysisReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool Number(std::size_t& number, unsigned size) {
    std::span<const std::byte> taken;
    if (!Bytes(taken, size)) return false;
    number = NumberOf(taken);
    return true;
  }
  bool Bytes(std::span<const std::byte>& taken, std::size_t size) {
    if (size > bytes_.size()) return false;
    taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return true;
  }
  /// Reads up to a zero byte and consumes it.
  bool Text(std::string& text) {
    const auto end = std::find(bytes_.begin(), bytes_.end(), std::byte{0});
    if (end == bytes_.end()) return false;
    text = TextOf({bytes_.begin(), end});
    bytes_ = {end + 1, bytes_.end()};
    return true;
  }
  [[nodiscard]] std::span<const std::byte> rest() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

// The numbers of options and macros, in two bytes each; then the options, macros and source, each terminated by a zero
// byte, which none of them contains.
std::vector<std::byte> EncodeAnalysisRequest(const AnalysisRequest& request) {
  std::vector<std::byte> bytes;
  AppendNumber(bytes, request.options.size(), 2);
  AppendNumber(bytes, request.macros.size(), 2);
  for (const auto* list : {&request.options, &request.macros})
    for (const std::string& text : *list) {
      AppendText(bytes, text);
      bytes.push_back(std::byte{0});
    }
  AppendText(bytes, request.source);
  bytes.push_back(std::byte{0});
  return bytes;
}

Result<AnalysisRequest> DecodeAnalysisRequest(std::span<const std::byte> bytes) {
  AnalysisRequest request;
  AnalysisReader reader(bytes);
  std::size_t options = 0, macros = 0;
  bool sound = bytes.size() <= kAnalysisBytesMax && reader.Number(options, 2) && reader.Number(macros, 2);
  if (sound && (options > kAnalysisOptionsMax || macros > kAnalysisMacrosMax))
    return Fail(Errc::kProtocol, "a request for an analysis has too many options");
  request.options.resize(options);
  request.macros.resize(macros);
  for (std::string& text : request.options) sound = sound && reader.Text(text);
  for (std::string& text : request.macros) sound = sound && reader.Text(text);
  sound = sound && reader.Text(request.source) && reader.rest().empty();
  if (!sound) return Fail(Errc::kProtocol, "a request for an analysis is malformed");
  return request;
}

// The length of the kernels in four bytes, and the kernels; for each kernel that isn't refused, the reason for having
// no part's kernel, after its length in two bytes; the rest is the parts' source.
std::vector<std::byte> EncodeAnalysisReply(const AnalysisReply& reply) {
  std::vector<std::byte> bytes{reply ? kAnalysed : kNotAnalysed};
  if (!reply) {
    AppendText(bytes, reply.error().message);
    return bytes;
  }
  const std::vector<std::byte> kernels = EncodeAccesses(reply->kernels);
  AppendNumber(bytes, kernels.size(), 4);
  bytes.insert(bytes.end(), kernels.begin(), kernels.end());
  for (const PartKernel& part : reply->parts) {
    const std::string why_not = part.why_not.substr(0, kAccessTextMax);
    AppendNumber(bytes, why_not.size(), 2);
    AppendText(bytes, why_not);
  }
  AppendText(bytes, reply->part_source);
  return bytes;
}

AnalysisReply DecodeAnalysisReply(std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes[0] > kNotAnalysed) return BadReply();
  if (bytes[0] == kNotAnalysed) return Fail(Errc::kInvalidArgument, TextOf(bytes.subspan(1)));
  AnalysisReader reader(bytes.subspan(1));
  std::size_t size = 0;
  std::span<const std::byte> taken;
  if (!reader.Number(size, 4) || !reader.Bytes(taken, size)) return BadReply();
  ProgramAnalysis analysis;
  WEIR_TRY(analysis.kernels, DecodeAccesses(taken));
  for (const KernelAccess& kernel : analysis.kernels) {
    if (kernel.verdict == AccessVerdict::kRefuse) continue;
    if (!reader.Number(size, 2) || size > kAccessTextMax || !reader.Bytes(taken, size)) return BadReply();
    analysis.parts.push_back({.kernel = kernel.kernel, .why_not = TextOf(taken)});
  }
  analysis.part_source = TextOf(reader.rest());
  if (analysis.part_source.size() > kPartSourceMax || analysis.part_source.find('\0') != std::string::npos)
    return BadReply();
  return analysis;
}

std::vector<std::byte> FrameOf(std::span<const std::byte> body) {
  std::vector<std::byte> frame;
  frame.reserve(kAnalysisHeadBytes + body.size());
  AppendNumber(frame, body.size(), kAnalysisHeadBytes);
  frame.insert(frame.end(), body.begin(), body.end());
  return frame;
}

Result<std::size_t> BodySize(std::span<const std::byte, kAnalysisHeadBytes> head) {
  const std::size_t size = NumberOf(head);
  if (size > kAnalysisBytesMax) return Fail(Errc::kProtocol, "a request to weir-analyzer or its reply is too long");
  return size;
}

AnalysisReply ReplyOf(std::span<const std::byte> written) {
  if (written.size() < kAnalysisHeadBytes) return Fail(Errc::kUnavailable, "weir-analyzer ended without an answer");
  WEIR_TRY(const std::size_t size, BodySize(written.first<kAnalysisHeadBytes>()));
  if (written.size() - kAnalysisHeadBytes < size)
    return Fail(Errc::kUnavailable, "weir-analyzer ended in the middle of its answer");
  return DecodeAnalysisReply(written.subspan(kAnalysisHeadBytes, size));
}

}  // namespace weir::kernel
