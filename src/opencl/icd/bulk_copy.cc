// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/bulk_copy.h"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace weir::opencl::icd {

#if defined(__SSE2__)

namespace {

constexpr std::size_t kLine = 64;
/// Below this the caches may hold both, and writing past them costs more than it saves.
constexpr std::size_t kStreamFrom = 4 << 20;

}  // namespace

void BulkCopy(void* to, const void* from, std::size_t bytes) {
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  if (bytes < kStreamFrom) {
    std::memcpy(out, in, bytes);
    return;
  }
  const std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(out) % kLine) % kLine;
  std::memcpy(out, in, head);
  out += head;
  in += head;
  bytes -= head;
  for (; bytes >= kLine; bytes -= kLine, in += kLine, out += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(in);
    auto* line = reinterpret_cast<__m128i*>(out);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(line, a);
    _mm_stream_si128(line + 1, b);
    _mm_stream_si128(line + 2, c);
    _mm_stream_si128(line + 3, d);
  }
  _mm_sfence();
  std::memcpy(out, in, bytes);
}

#else

void BulkCopy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

#endif

}  // namespace weir::opencl::icd
