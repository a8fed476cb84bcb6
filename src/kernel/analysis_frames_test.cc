// SPDX-License-Identifier: Apache-2.0
#include "kernel/analysis_frames.h"

#include <gtest/gtest.h>

namespace weir::kernel {
namespace {

ProgramAnalysis AnalysisOfTwo() {
  return {.kernels = {{.kernel = "scale", .verdict = AccessVerdict::kExact},
                      {.kernel = "count", .verdict = AccessVerdict::kRefuse, .reason = "atomics"},
                      {.kernel = "blur", .verdict = AccessVerdict::kGuarded}},
          .parts = {{.kernel = "scale"}, {.kernel = "blur", .why_not = "its argument 1 is an array"}},
          .part_source = "kernel void weir_part_scale(ulong16 weir_part) {}\n"};
}

TEST(AnalysisFrames, ARequestIsReadAsItWasWritten) {
  for (const AnalysisRequest& request : {AnalysisRequest{}, AnalysisRequest{.options = {"-DA=1", ""},
                                                            .macros = {"cl_khr_fp64", "__OPENCL_VERSION__=300"},
                                                            .source = "x\n"}}) {
    const auto decoded = DecodeAnalysisRequest(EncodeAnalysisRequest(request));
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(*decoded, request);
  }
}

TEST(AnalysisFrames, ATruncatedRequestIsRefused) {
  const std::vector<std::byte> bytes = EncodeAnalysisRequest({.options = {"-w"}, .macros = {"A"}, .source = "kernel"});
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(DecodeAnalysisRequest(std::span(bytes).first(size))) << size;
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(DecodeAnalysisRequest(longer));
  EXPECT_FALSE(DecodeAnalysisRequest(
      EncodeAnalysisRequest({.macros = std::vector<std::string>(kAnalysisMacrosMax + 1, "A"), .source = "x"})));
}

TEST(AnalysisFrames, AReplyIsReadAsItWasWritten) {
  const auto decoded = DecodeAnalysisReply(EncodeAnalysisReply(AnalysisOfTwo()));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, AnalysisOfTwo());
  const auto failed = DecodeAnalysisReply(EncodeAnalysisReply(Fail(Errc::kInvalidArgument, "line 3: what?")));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Errc::kInvalidArgument);
  EXPECT_EQ(failed.error().message, "line 3: what?");
}

TEST(AnalysisFrames, AMalformedReplyIsRefused) {
  const std::vector<std::byte> bytes = EncodeAnalysisReply(AnalysisOfTwo());
  const std::size_t whole = bytes.size() - AnalysisOfTwo().part_source.size();
  for (std::size_t size = 0; size < whole; ++size)
    EXPECT_FALSE(DecodeAnalysisReply(std::span(bytes).first(size))) << size;
  std::vector<std::byte> with_zero = bytes;
  with_zero.push_back(std::byte{0});
  EXPECT_FALSE(DecodeAnalysisReply(with_zero));
  ProgramAnalysis longest = AnalysisOfTwo();
  longest.part_source.assign(kPartSourceMax, ' ');
  EXPECT_TRUE(DecodeAnalysisReply(EncodeAnalysisReply(longest)));
  longest.part_source += ' ';
  EXPECT_FALSE(DecodeAnalysisReply(EncodeAnalysisReply(longest)));
}

TEST(AnalysisFrames, AnIncompleteReplyIsRefused) {
  const std::vector<std::byte> frame = FrameOf(EncodeAnalysisReply(AnalysisOfTwo()));
  ASSERT_TRUE(ReplyOf(frame));
  EXPECT_EQ(*ReplyOf(frame), AnalysisOfTwo());
  for (std::size_t size = 0; size < frame.size(); ++size) {
    const auto reply = ReplyOf(std::span(frame).first(size));
    ASSERT_FALSE(reply) << size;
    EXPECT_EQ(reply.error().code, Errc::kUnavailable) << size;
  }
  constexpr std::array kTooLong{std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}};
  EXPECT_FALSE(BodySize(kTooLong));
}

}  // namespace
}  // namespace weir::kernel
