// SPDX-License-Identifier: Apache-2.0
#include "proto/gate_layout.h"

namespace weir::proto {

const char* HeaderFault(const RegionHeader& header, std::uint32_t magic, std::uint64_t mapped_bytes) {
  if (header.magic != magic) return "wrong magic";
  if (header.version_major != kGateVersionMajor) return "another major version";
  if (header.size_bytes != mapped_bytes) return "stated size differs from the mapped size";
  if (header.id == 0) return "id is zero";
  return nullptr;
}

void InitHeader(RegionHeader& header, std::uint32_t magic, std::uint64_t size_bytes, std::uint64_t id) {
  header.magic = magic;
  header.version_major = kGateVersionMajor;
  header.version_minor = kGateVersionMinor;
  header.size_bytes = size_bytes;
  header.id = id;
}

}  // namespace weir::proto
