// SPDX-License-Identifier: Apache-2.0
// What a program gets as its binary: the driver's, and with it what the driver told of its kernels when it was built
// from source, since drivers don't tell that of binaries. A cache of binaries outlives drivers and devices, so it says
// whose it is. Little-endian; fields are only ever appended.
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
  std::string platform{}, device{}, driver{};  // whose binary it is
  std::uint32_t binary_type = 0;               // cl_program_binary_type
  std::uint8_t arg_info = 0;                   // the program asked for -cl-kernel-arg-info
  std::string options{};
  std::vector<proto::cl::KernelFacts> kernels{};
  proto::cl::ByteView native{};  // the driver's
  static void Fields(auto& m, auto& f) {
    f(m.platform, m.device, m.driver, m.binary_type, m.arg_info, m.options, m.kernels, m.native);
  }
};

std::vector<std::byte> WriteEnvelope(const BinaryEnvelope& envelope);
/// `native` of the result points into `bytes`. Nothing: these are not such bytes.
std::optional<BinaryEnvelope> ReadEnvelope(std::span<const std::byte> bytes);

}  // namespace weir::opencl::icd
