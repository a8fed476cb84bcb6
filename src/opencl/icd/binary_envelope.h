// SPDX-License-Identifier: Apache-2.0
// The program binary that applications receive: the driver's binary, with the kernel facts that the driver reported
// when it built from source, because drivers do not report them for binaries. A cache of binaries may outlive drivers
// and devices, so the envelope names them. Little-endian; fields are only ever appended.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/opencl_messages.h"

namespace weir::opencl::icd {

inline constexpr std::uint32_t kEnvelopeMagic = 0x42434F57;  // "WOCB"
inline constexpr std::uint32_t kEnvelopeVersion = 1;

struct BinaryEnvelope {
  std::string platform{}, device{}, driver{};  // the origin of the binary
  std::uint32_t binary_type = 0;               // cl_program_binary_type
  std::uint8_t arg_info = 0;                   // the program was built with -cl-kernel-arg-info
  std::string options{};
  std::vector<proto::cl::KernelFacts> kernels{};
  proto::cl::ByteView native{};  // the driver's binary
  static void Fields(auto& m, auto& f) {
    f(m.platform, m.device, m.driver, m.binary_type, m.arg_info, m.options, m.kernels, m.native);
  }
};

std::vector<std::byte> WriteEnvelope(const BinaryEnvelope& envelope);
/// `native` of the result points into `bytes`. Nullopt: not a valid envelope.
std::optional<BinaryEnvelope> ReadEnvelope(std::span<const std::byte> bytes);

}  // namespace weir::opencl::icd
