// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/binary_envelope.h"

#include <cstring>

namespace weir::opencl::icd {
namespace {

struct EnvelopeHead {
  std::uint32_t magic = kEnvelopeMagic, version = kEnvelopeVersion;
  std::uint64_t bytes = 0;     // including this head
  std::uint64_t checksum = 0;  // of the bytes after it, because caches may be truncated or overwritten
};
static_assert(sizeof(EnvelopeHead) == 24);

/// FNV-1a.
std::uint64_t ChecksumOf(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) sum = (sum ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  return sum;
}

}  // namespace

std::vector<std::byte> WriteEnvelope(const BinaryEnvelope& envelope) {
  proto::cl::FieldWriter counter;
  BinaryEnvelope::Fields(envelope, counter);
  std::vector<std::byte> bytes(sizeof(EnvelopeHead) + counter.size());
  const std::span<std::byte> body = std::span(bytes).subspan(sizeof(EnvelopeHead));
  proto::cl::FieldWriter writer(body);
  BinaryEnvelope::Fields(envelope, writer);
  const EnvelopeHead head{.bytes = bytes.size(), .checksum = ChecksumOf(body)};
  std::memcpy(bytes.data(), &head, sizeof head);
  return bytes;
}

std::optional<BinaryEnvelope> ReadEnvelope(std::span<const std::byte> bytes) {
  EnvelopeHead head;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != kEnvelopeMagic || head.version != kEnvelopeVersion || head.bytes > bytes.size() ||
      head.bytes < sizeof head)
    return std::nullopt;
  const std::span<const std::byte> body = bytes.subspan(sizeof head, head.bytes - sizeof head);
  if (head.checksum != ChecksumOf(body)) return std::nullopt;
  BinaryEnvelope envelope;
  proto::cl::FieldReader reader(body);
  BinaryEnvelope::Fields(envelope, reader);
  if (reader.malformed()) return std::nullopt;
  return envelope;
}

}  // namespace weir::opencl::icd
