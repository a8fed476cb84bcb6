// SPDX-License-Identifier: Apache-2.0
// Messages of an OpenCL client that ask for an answer (opencl_answer_messages.h). Each gets one Reply, or one of the
// other answers. Their numbers are 50 to 99. Rules: opencl_messages.h
#pragma once

#include <tuple>

#include "proto/opencl_codec.h"

namespace weir::proto::cl {

/// A file that the program's source includes. `name`: as the compiler looks it up.
struct IncludedFile {
  std::string_view name{};
  Blob content{};
  std::uint64_t ticket = 0;  // if `content` is in the arena: returned in a Freed when the range is free; else 0
  static void Fields(auto& m, auto& f) { f(m.name, m.content, m.ticket); }
};

/// `options`: without the include paths, which are folders of the client; the files found there are in `headers`. The
/// same holds for Compile.
struct Build {
  static constexpr std::uint16_t kOp = 50;
  std::uint32_t request = 0, program = 0;
  IdList devices{};  // empty: all devices of the program
  std::string_view options{};
  std::vector<IncludedFile> headers{};
  static void Fields(auto& m, auto& f) { f(m.request, m.program, m.devices, m.options, m.headers); }
};

/// The program includes `header_programs[i]` as `header_names[i]`.
struct Compile {
  static constexpr std::uint16_t kOp = 51;
  std::uint32_t request = 0, program = 0;
  IdList devices{};
  std::string_view options{};
  std::vector<IncludedFile> headers{};
  IdList header_programs{};
  std::vector<std::string_view> header_names{};
  static void Fields(auto& m, auto& f) {
    f(m.request, m.program, m.devices, m.options, m.headers, m.header_programs, m.header_names);
  }
};

/// Creates program `id`.
struct Link {
  static constexpr std::uint16_t kOp = 52;
  std::uint32_t request = 0, id = 0, context = 0;
  IdList devices{};
  std::string_view options{};
  IdList programs{};
  static void Fields(auto& m, auto& f) { f(m.request, m.id, m.context, m.devices, m.options, m.programs); }
};

/// The reply is the driver's binary.
struct GetBinary {
  static constexpr std::uint16_t kOp = 53;
  std::uint32_t request = 0, program = 0, device = 0;
  static void Fields(auto& m, auto& f) { f(m.request, m.program, m.device); }
};

/// Creates devices with the ids `first`, `first` + 1 ...; the reply is their DeviceFacts.
struct CreateSubDevices {
  static constexpr std::uint16_t kOp = 54;
  std::uint32_t request = 0, device = 0, first = 0;
  NumberList<std::uint64_t> properties{};  // cl_device_partition_property as given, including the terminating 0
  static void Fields(auto& m, auto& f) { f(m.request, m.device, m.first, m.properties); }
};

/// The reply is sent when all earlier commands are done; it has the first error of a command without an event.
struct Finish {
  static constexpr std::uint16_t kOp = 55;
  std::uint32_t request = 0, queue = 0;
  static void Fields(auto& m, auto& f) { f(m.request, m.queue); }
};

/// Requests an EventDone when this event has ended.
struct Watch {
  static constexpr std::uint16_t kOp = 56;
  std::uint32_t event = 0;
  static void Fields(auto& m, auto& f) { f(m.event); }
};

/// clGetKernelWorkGroupInfo for values that the build's reply lacks (sub-devices); the reply is the value's bytes.
struct KernelWorkGroup {
  static constexpr std::uint16_t kOp = 57;
  std::uint32_t request = 0, kernel = 0, device = 0, name = 0;
  static void Fields(auto& m, auto& f) { f(m.request, m.kernel, m.device, m.name); }
};

/// clGetSupportedImageFormats; the reply is pairs of 4-byte numbers.
struct ImageFormats {
  static constexpr std::uint16_t kOp = 58;
  std::uint32_t request = 0, context = 0;
  std::uint64_t flags = 0;
  std::uint32_t type = 0;
  static void Fields(auto& m, auto& f) { f(m.request, m.context, m.flags, m.type); }
};

using AllRequests =
    std::tuple<Build, Compile, Link, GetBinary, CreateSubDevices, Finish, Watch, KernelWorkGroup, ImageFormats>;

}  // namespace weir::proto::cl
