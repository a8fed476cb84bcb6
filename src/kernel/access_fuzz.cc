// SPDX-License-Identifier: Apache-2.0
// DecodeAccesses accepts any bytes without crashing. Its result is encoded into the same bytes, and can be evaluated
// with any launch in bounded time, with no extent outside its buffer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "kernel/cuttable.h"

namespace weir::kernel {
namespace {

constexpr std::uint64_t kFuzzBufferBytes = 65'536;
constexpr std::size_t kFuzzKernelsMax = 4;  // further kernels are evaluated in the same way

/// A scalar with the value 64 for 64 bits; for 32 bits the words are 64, 0, and so on.
std::span<const std::byte> FuzzScalar(std::uint32_t bytes) {
  static const std::vector<std::byte> all = [] {
    std::vector<std::byte> made(65'536);
    for (std::size_t i = 0; i < made.size(); i += 8) made[i] = std::byte{64};
    return made;
  }();
  return std::span(all).first(bytes);
}

void Require(bool holds) {
  if (!holds) std::abort();
}

void RequireInside(const std::vector<Extent>& extents) {
  for (const Extent& one : extents)
    Require(one.bytes > 0 && one.rows > 0 && one.begin < kFuzzBufferBytes && one.end() <= kFuzzBufferBytes);
}

void Evaluate(const KernelAccess& access, KernelLaunch launch) {
  std::vector<LaunchArgument> arguments;
  for (const KernelArgument& argument : access.arguments) {
    // Each pair of buffers shares one memory object.
    const std::uint64_t memory = arguments.size() / 2, offset = arguments.size() % 2 * 256;
    if (argument.kind == ArgumentKind::kScalar)
      arguments.push_back({.value = FuzzScalar(argument.bytes)});
    else
      arguments.push_back({.memory = memory, .offset = offset, .bytes = kFuzzBufferBytes});
  }
  launch.arguments = arguments;
  const auto answers = Cuttable(access, launch);
  for (unsigned d = 0; d < launch.dimensions; ++d) {
    const auto footprint = FootprintOf(access, launch, {.dimension = d, .first = 0, .end = 1});
    Require(footprint.has_value() == (access.verdict != AccessVerdict::kRefuse));
    Require(footprint.has_value() || !answers[d].yes);
    if (!footprint) continue;
    for (const ArgumentFootprint& one : *footprint) {
      RequireInside(one.reads);
      RequireInside(one.writes);
    }
  }
}

}  // namespace
}  // namespace weir::kernel

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::kernel;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto kernels = DecodeAccesses(bytes);
  if (!kernels) return 0;
  const std::vector<std::byte> again = EncodeAccesses(*kernels);
  Require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  const auto twice = DecodeAccesses(again);
  Require(twice && *twice == *kernels);
  for (const KernelAccess& access : std::span(*kernels).first(std::min(kernels->size(), kFuzzKernelsMax))) {
    Evaluate(access, {.dimensions = 3, .global = {64, 32, 4}, .local = {8, 4, 1}});
    Evaluate(access, {.dimensions = 2, .offset = {3, 0, 0}, .global = {61, 32, 1}, .local = {16, 16, 1}});
    for (const MemoryAccess& one : access.accesses) Require(!ExprText(access, one.offset).empty());
  }
  return 0;
}
