// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/binary_envelope.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::opencl::icd {
namespace {

std::vector<std::byte> Known(std::string_view native) {
  return WriteEnvelope(
      {.platform = "PoCL; OpenCL 3.0",
       .device = "pthread",
       .driver = "3.1",
       .binary_type = 4,
       .arg_info = 1,
       .options = "-DX",
       .kernels =
           {{.name = "f", .attributes = "", .arg_count = 1, .args = {{.name = "a", .type = "int"}}, .groups = {}}},
       .native = proto::cl::BytesOf(native)});
}

TEST(BinaryEnvelope, ReturnsTheOriginalBinary) {
  const auto bytes = Known("native code");
  const auto envelope = ReadEnvelope(bytes);
  ASSERT_TRUE(envelope);
  EXPECT_EQ(envelope->platform, "PoCL; OpenCL 3.0");
  EXPECT_EQ(envelope->device, "pthread");
  EXPECT_EQ(envelope->driver, "3.1");
  EXPECT_EQ(envelope->options, "-DX");
  EXPECT_EQ(envelope->arg_info, 1);
  ASSERT_EQ(envelope->kernels.size(), 1U);
  EXPECT_EQ(envelope->kernels[0].args.at(0).type, "int");
  EXPECT_EQ(proto::cl::TextOf(envelope->native), "native code");
}

TEST(BinaryEnvelope, IsNotForeignOrCut) {
  EXPECT_FALSE(ReadEnvelope({}));
  EXPECT_FALSE(ReadEnvelope(proto::cl::BytesOf("poclbin and what follows, which is of another driver")));
  auto bytes = Known("native code");
  EXPECT_FALSE(ReadEnvelope(std::span(bytes).first(bytes.size() - 1)));
  bytes.resize(bytes.size() + 8);  // a cache may round sizes up
  EXPECT_TRUE(ReadEnvelope(bytes));
}

RC_GTEST_PROP(BinaryEnvelope, WithAnyByteChangedIsRefused, (const std::string& native)) {
  auto bytes = Known(native);
  const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
  bytes[at] ^= static_cast<std::byte>(*rc::gen::inRange(1, 256));
  RC_ASSERT(!ReadEnvelope(bytes));
}

}  // namespace
}  // namespace weir::opencl::icd
