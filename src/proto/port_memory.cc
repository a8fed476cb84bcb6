// SPDX-License-Identifier: Apache-2.0
#include "proto/port_memory.h"

#include <bit>

namespace weir::proto::port {

Status CheckMemoryHeader(const MemoryHeader& header, std::uint64_t bytes, const std::string& name) {
  if (header.magic == 0)
    return Fail(
        Errc::kUnavailable,
        name + " is empty: on the host, 'weir serve --guest-memory FILE=VGPU' is needed with that memory's file");
  if (header.magic == UINT32_MAX)
    return Fail(Errc::kUnavailable,
                name + " answers nothing; a PCI device has to be enabled: echo 1 > 'enable' in the same folder");
  if (header.magic != kMemoryMagic) return Fail(Errc::kInvalidArgument, name + " is not a guest's shared memory");
  if (header.version != kMemoryVersion)
    return Fail(Errc::kVersionMismatch, name + " has layout " + std::to_string(header.version) +
                                            ", this is for layout " + std::to_string(kMemoryVersion) +
                                            ": the host and the guest need the same version of weir");
  const bool plausible = header.bytes >= kMemoryBytesMin && header.bytes <= kMemoryBytesMax &&
                         header.ring_bytes >= kMemoryRingMin && std::has_single_bit(header.ring_bytes) &&
                         header.ring_bytes <= (header.bytes - kMemoryRingsAt) / 2;
  if (!plausible) return Fail(Errc::kInvalidArgument, name + " has a header that no host writes");
  if (header.bytes > bytes)
    return Fail(Errc::kInvalidArgument, name + " has " + std::to_string(bytes) + " bytes of the " +
                                            std::to_string(header.bytes) +
                                            " that the host shares: give it all of them");
  return Ok();
}

}  // namespace weir::proto::port
