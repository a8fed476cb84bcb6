// SPDX-License-Identifier: Apache-2.0
#include "modules/module_frames.h"

#include <gtest/gtest.h>

namespace weir::modules {
namespace {

const std::string kBlobA(64, 'a');

std::vector<HostFrame> HostFrames() {
  return {
      DeviceFrame{
          .index = 1, .count = 2, .units = 8, .memory_bytes = 1 << 30, .local_memory_bytes = 1 << 15, .name = "d"},
      RefusalFrame{Errc::kUnavailable, "no"},
      DoneFrame{.run = 7, .output_bytes = 3, .text = "said"},
      DoneFrame{.run = 8, .text = "", .measured = MeasuredLoads{.loads = {1, 2, 3, 4}, .launches = 5, .device_ns = 6}},
      FailedFrame{.run = 7, .code = Errc::kInternal, .text = "said", .words = "why"},
      CrashFrame{.run = 9, .signal = 11},
      DeviceLostFrame{"gone"},
      TableFrame{{{.name = "k", .summary = "does", .need = {.memory = {5}, .loads = {1, 2, 3, 4}, .alone_ms = 6}}}}};
}

TEST(ModuleFrames, EachComesBackAsItWas) {
  for (const HostFrame& frame : HostFrames()) {
    const auto back = DecodeFrame(EncodeFrame(frame));
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, frame);
  }
  const OrderFrame order = ExecuteFrame{.run = 1,
                                        .tenant = 2,
                                        .blob = kBlobA,
                                        .kernel = "k",
                                        .arguments = "n=1",
                                        .input = kBlobA,
                                        .capacity = {8, 10'000, 1'024, 8}};
  const auto back = DecodeOrder(EncodeOrder(order));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, order);
  for (const OrderFrame& other : {OrderFrame(ForgetFrame{kBlobA}), OrderFrame(InspectFrame{kBlobA})})
    EXPECT_EQ(DecodeOrder(EncodeOrder(other)).value(), other);
}

TEST(ModuleFrames, TruncatedOrOverlongBytesAreRefused) {
  for (const HostFrame& frame : HostFrames()) {
    std::vector<std::byte> bytes = EncodeFrame(frame);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(DecodeFrame(std::span(bytes).first(size))) << frame.index() << " at " << size;
    bytes.push_back({});
    EXPECT_FALSE(DecodeFrame(bytes));
  }
}

TEST(ModuleFrames, TheSignalHandlersFrameIsACrash) {
  std::array<std::byte, kCrashFrameBytes> bytes{};
  EncodeCrash(0x0102030405060708, 11, bytes);
  const auto frame = DecodeFrame(bytes);
  ASSERT_TRUE(frame);
  EXPECT_EQ(std::get<CrashFrame>(*frame), (CrashFrame{0x0102030405060708, 11}));
  EXPECT_EQ(std::vector(bytes.begin(), bytes.end()), EncodeFrame(CrashFrame{0x0102030405060708, 11}));
}

TEST(ModuleFrames, TextsAreCut) {
  const auto frame = DecodeFrame(
      EncodeFrame(FailedFrame{.run = 1, .code = Errc::kIo, .text = std::string(99'999, 'x'), .words = "w"}));
  ASSERT_TRUE(frame);
  EXPECT_EQ(std::get<FailedFrame>(*frame).text.size(), kTextBytesMax);
}

TEST(ModuleFrames, NamesAndBlobsAreChecked) {
  EXPECT_FALSE(DecodeOrder(EncodeOrder(ExecuteFrame{.run = 1, .blob = "../x", .kernel = "k", .arguments = ""})));
  EXPECT_FALSE(DecodeOrder(EncodeOrder(ExecuteFrame{.run = 1, .blob = kBlobA, .kernel = "a b", .arguments = ""})));
  EXPECT_FALSE(DecodeOrder(EncodeOrder(ForgetFrame{"zz"})));
  EXPECT_FALSE(DecodeOrder(EncodeOrder(InspectFrame{"../x"})));
  const MeasuredLoads many{.loads = {0, 0, core::kLoadMax + 1, 0}};
  EXPECT_FALSE(DecodeFrame(EncodeFrame(DoneFrame{.run = 1, .text = "", .measured = many})));
  EXPECT_FALSE(DecodeFrame(EncodeFrame(TableFrame{})));
  EXPECT_FALSE(DecodeFrame(EncodeFrame(DeviceFrame{.index = 2, .count = 2, .name = ""})));
}

}  // namespace
}  // namespace weir::modules
