// SPDX-License-Identifier: Apache-2.0
#include "remote/fresh_node.h"

#include <algorithm>
#include <cstdio>

#include "opencl/channel/cl.h"
#include "platform/clock.h"
#include "proto/opencl_messages.h"

namespace weir::remote {
namespace {

namespace cl = proto::cl;

constexpr Duration kAnswerWithin = seconds(60);  // long, because program builds are among the requests

/// Limit of the messages whose content is kept until the migration needs it or the client gets them.
constexpr std::size_t kKeptBytesMax = 64 << 20;

/// Facts that may differ between nodes without affecting a program.
bool MayDiffer(std::uint32_t name) {
  return name == CL_DEVICE_GLOBAL_MEM_SIZE || name == CL_DEVICE_MAX_MEM_ALLOC_SIZE ||
         name == CL_DEVICE_PROFILING_TIMER_RESOLUTION;
}

Status SameDevices(std::span<const std::byte> there, std::span<const std::byte> here) {
  const auto read = [](std::span<const std::byte> body) {
    cl::PlatformFacts facts;
    cl::FieldReader reader(body);
    cl::PlatformFacts::Fields(facts, reader);
    return facts;
  };
  const cl::PlatformFacts theirs = read(there), ours = read(here);
  if (theirs.devices.size() != ours.devices.size())
    return Fail(Errc::kVersionMismatch, "the node has another number of devices");
  for (std::size_t d = 0; d < ours.devices.size(); ++d)
    for (const cl::Fact& fact : ours.devices[d].facts) {
      if (MayDiffer(fact.name)) continue;
      const auto same = std::ranges::find_if(theirs.devices[d].facts, [&](const cl::Fact& other) {
        return other.name == fact.name && other.value == fact.value;
      });
      if (same != theirs.devices[d].facts.end()) continue;
      char name[16];
      std::snprintf(name, sizeof name, "0x%04x", fact.name);
      return Fail(Errc::kVersionMismatch, std::string("the node's device is different: clGetDeviceInfo of ") + name +
                                              " differs; programs move between devices and drivers of one kind only");
    }
  return Ok();
}

}  // namespace

Status FreshNode::Take(std::span<std::byte> message) {
  cl::Header header;
  cl::Reply reply;
  if (!cl::ReadHeader(message, header)) return Fail(Errc::kProtocol, "a malformed message");
  if (header.op == cl::Notice::kOp) return Ok();
  kept_bytes_ += message.size();
  if (kept_bytes_ > kKeptBytesMax) return Fail(Errc::kProtocol, "the new node sends more messages than a move needs");
  if (header.op != cl::Reply::kOp) {
    late_.emplace_back(message.begin(), message.end());
    return Ok();
  }
  if (!cl::Decode(message, reply)) return Fail(Errc::kProtocol, "a malformed reply");
  if (reply.request == 0) facts_.insert(facts_.end(), reply.part.begin(), reply.part.end());
  if (reply.more == 0) answers_[reply.request] = reply.status;
  return Ok();
}

Status FreshNode::Await(std::uint32_t request, std::int32_t expected, const char* what) {
  const std::int64_t until = platform::NowNs() + kAnswerWithin.count();
  while (!answers_.contains(request)) {
    WEIR_TRY([[maybe_unused]] const bool some, in_.Step(*this, milliseconds(50)));
    if (platform::NowNs() > until) return Fail(Errc::kTimeout, std::string("the new node did not answer: ") + what);
  }
  const std::int32_t status = answers_.extract(request).mapped();
  if (status == expected) return Ok();
  return Fail(Errc::kUnavailable, std::string(what) + " ended with " + std::to_string(status) +
                                      " on the new node, where it should be " + std::to_string(expected));
}

Status FreshNode::SameDeviceAs(std::span<const std::byte> here) {
  WEIR_TRY_STATUS(Await(0, CL_SUCCESS, "the device's facts"));
  return SameDevices(facts_, here);
}

}  // namespace weir::remote
