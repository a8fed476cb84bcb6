// SPDX-License-Identifier: Apache-2.0
#include "remote/fresh_node.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "proto/network_frames.h"
#include "proto/opencl_messages.h"
#include "tests/harness/code_of.h"
#include "tests/harness/memory_stream.h"

namespace weir::remote {
namespace {

namespace cl = proto::cl;
using testing::CodeOf;

/// A part of the reply about the platform, which says that more parts follow.
std::vector<std::byte> PartOfFacts() {
  const std::vector<std::byte> part(cl::kReplyPartBytesMax);
  return cl::Encode(cl::Reply{.request = 0, .more = 1, .part = part});
}

TEST(FreshNode, ANodeThatSendsWithoutEndIsCutOff) {
  const std::vector<std::byte> message = PartOfFacts();
  const std::size_t padded = cl::Padded(message.size());
  const proto::net::FrameHeader header{.bytes = static_cast<std::uint32_t>(padded),
                                       .kind = static_cast<std::uint16_t>(proto::net::Kind::kMessages)};
  std::vector<std::byte> frame(sizeof header + padded), said;
  std::memcpy(frame.data(), &header, sizeof header);
  std::memcpy(frame.data() + sizeof header, message.data(), message.size());
  for (int i = 0; i < 2200; ++i) said.insert(said.end(), frame.begin(), frame.end());
  testing::MemoryStream stream(said);
  const std::atomic<bool> stop{false};
  InPump in(stop, stream);
  FreshNode node(stream, in, stop);
  EXPECT_EQ(CodeOf(node.SameDeviceAs({})), Errc::kProtocol);
}

}  // namespace
}  // namespace weir::remote
