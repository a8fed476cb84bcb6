// SPDX-License-Identifier: Apache-2.0
// Messages of an executor to its client, and what replies' bodies consist of. Their numbers begin at 100. Rules:
// opencl_messages.h
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "proto/opencl_codec.h"

namespace weir::proto::cl {

/// One part of a reply; `more`: another part follows, and the body is their concatenation. The body is a BuildFacts for
/// a build, compile or link, the bytes for a GetBinary, and a SubDeviceFacts for a CreateSubDevices.
struct Reply {
  static constexpr std::uint16_t kOp = 100;
  std::uint32_t request = 0;
  std::int32_t status = 0;  // OpenCL's error code
  std::uint8_t more = 0;
  ByteView part{};
  static void Fields(auto& m, auto& f) { f(m.request, m.status, m.more, m.part); }
};
inline constexpr std::size_t kReplyPartBytesMax = 32 * 1024;

/// Times are CLOCK_MONOTONIC, ns; 0 if the device does not report them.
struct EventDone {
  static constexpr std::uint16_t kOp = 101;
  std::uint32_t event = 0;
  std::int32_t status = 0;
  std::uint64_t queued_ns = 0, submit_ns = 0, start_ns = 0, end_ns = 0;
  static void Fields(auto& m, auto& f) { f(m.event, m.status, m.queued_ns, m.submit_ns, m.start_ns, m.end_ns); }
};

struct Freed {
  static constexpr std::uint16_t kOp = 102;
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.ticket); }
};

/// For the context's callback: the failure of a message that has no reply.
struct Notice {
  static constexpr std::uint16_t kOp = 103;
  std::uint32_t context = 0;
  std::int32_t status = 0;
  std::string_view text{};
  static void Fields(auto& m, auto& f) { f(m.context, m.status, m.text); }
};

/// Sent to a remote client (Hello::remote) before any message that may report the end of a read: this part of the
/// arena holds the result of the read, or will be filled from the buffers' memory.
struct Arrived {
  static constexpr std::uint16_t kOp = 104;
  std::uint64_t offset = 0, size = 0;
  std::uint8_t in_buffers = 0;  // 1: the bytes are in the buffers' memory rather than in the arena
  std::uint64_t from = 0;       // their position in the buffers' memory
  static void Fields(auto& m, auto& f) { f(m.offset, m.size, m.in_buffers, m.from); }
};

using AllAnswers = std::tuple<Reply, EventDone, Freed, Notice, Arrived>;

// -- Bodies -----------------------------------------------------------------------------------------------------------

struct ArgFacts {
  std::string name, type;
  std::uint32_t address = 0, access = 0;  // cl_kernel_arg_address_qualifier, cl_kernel_arg_access_qualifier
  std::uint64_t type_qualifier = 0;
  static void Fields(auto& m, auto& f) { f(m.name, m.type, m.address, m.access, m.type_qualifier); }
};

/// clGetKernelWorkGroupInfo for one device.
struct WorkGroupFacts {
  std::uint32_t device = 0;
  std::uint64_t size = 0, preferred_multiple = 0, local_bytes = 0, private_bytes = 0, compile_size[3] = {};
  static void Fields(auto& m, auto& f) {
    f(m.device, m.size, m.preferred_multiple, m.local_bytes, m.private_bytes, m.compile_size);
  }
};

struct KernelFacts {
  std::string name, attributes;
  std::uint32_t arg_count = 0;
  std::vector<ArgFacts> args;  // empty if the driver does not report them
  std::vector<WorkGroupFacts> groups;
  static void Fields(auto& m, auto& f) { f(m.name, m.attributes, m.arg_count, m.args, m.groups); }
};

struct DeviceBuildFacts {
  std::uint32_t device = 0;
  std::int32_t status = 0;  // cl_build_status
  std::uint32_t binary_type = 0;
  std::uint64_t binary_size = 0;  // always 0 now; GetBinary returns the binary
  std::uint64_t global_variables = 0;
  std::string log;
  static void Fields(auto& m, auto& f) {
    f(m.device, m.status, m.binary_type, m.binary_size, m.global_variables, m.log);
  }
};

struct BuildFacts {
  std::vector<DeviceBuildFacts> devices;
  std::vector<KernelFacts> kernels;
  static void Fields(auto& m, auto& f) { f(m.devices, m.kernels); }
};

/// One value of clGetDeviceInfo or clGetPlatformInfo, as returned by the driver.
struct Fact {
  std::uint32_t name = 0;
  std::string value;
  static void Fields(auto& m, auto& f) { f(m.name, m.value); }
};

struct DeviceFacts {
  std::uint32_t id = 0;
  std::uint8_t shares_arena = 0;  // its buffers use their ranges in the arena directly
  std::vector<Fact> facts;
  static void Fields(auto& m, auto& f) { f(m.id, m.shares_arena, m.facts); }
};

struct SubDeviceFacts {
  std::vector<DeviceFacts> devices;
  static void Fields(auto& m, auto& f) { f(m.devices); }
};

/// The platform, sent as the body of the reply to request 0 right after the Welcome.
struct PlatformFacts {
  std::vector<Fact> facts;
  std::vector<DeviceFacts> devices;
  static void Fields(auto& m, auto& f) { f(m.facts, m.devices); }
};

}  // namespace weir::proto::cl
