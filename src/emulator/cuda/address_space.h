// SPDX-License-Identifier: Apache-2.0
// Ranges of addresses that the program has reserved, and the physical memory that it has mapped to them (CUDA's virtual
// memory management). Physical memory is a memfd.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "emulator/cuda/types.h"
#include "platform/fd.h"

namespace weir::emulator::cuda {

/// Physical memory of a card. It ends when no handle names it and no address maps it.
struct Physical {
  Physical(std::uint32_t on_card, std::uint64_t size, platform::Fd file, std::function<void()> at_end)
      : card(on_card), bytes(size), memory(std::move(file)), end(std::move(at_end)) {}
  ~Physical() { end(); }
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  const std::uint32_t card;
  const std::uint64_t bytes;
  const platform::Fd memory;
  const std::function<void()> end;
};
using PhysicalPtr = std::shared_ptr<Physical>;

class AddressSpace {
 public:
  static constexpr std::uint64_t kGranularity = 2ULL << 20;

  Result Reserve(std::uint64_t size, Pointer& address);
  /// Fails while something is mapped there.
  Result Unreserve(Pointer address, std::uint64_t size);
  Result Map(Pointer address, std::uint64_t size, std::uint64_t offset, const PhysicalPtr& physical);
  /// `ended`: the memory that was mapped. The caller gives it up without the driver's lock.
  Result Unmap(Pointer address, std::uint64_t size, std::vector<PhysicalPtr>& ended);
  Result Allow(Pointer address, std::uint64_t size, bool writes);
  [[nodiscard]] PhysicalPtr MappedAt(Pointer address) const;
  /// Whether the bytes lie in one mapping that the program may read and write.
  [[nodiscard]] bool MayUse(Pointer address, std::uint64_t bytes) const;

  /// A new name of the memory, or one more of the same.
  unsigned long long NameOf(const PhysicalPtr& physical);
  [[nodiscard]] PhysicalPtr Find(unsigned long long handle) const;
  /// Removes one of the handles that name the memory. Returns null if the handle is not known.
  PhysicalPtr EndName(unsigned long long handle);

 private:
  struct Mapping {
    std::uint64_t size = 0;
    PhysicalPtr physical;
    bool allowed = false;
  };
  struct Name {
    PhysicalPtr physical;
    unsigned count = 0;
  };
  using Mappings = std::map<Pointer, Mapping>;
  [[nodiscard]] Mappings::const_iterator MappingAt(Pointer address) const;
  /// Whether the range consists of whole mappings and nothing else.
  [[nodiscard]] bool IsMapped(Pointer address, std::uint64_t size) const;

  std::map<Pointer, std::uint64_t> reserved_;
  Mappings mappings_;
  std::map<unsigned long long, Name> names_;
};

}  // namespace weir::emulator::cuda
