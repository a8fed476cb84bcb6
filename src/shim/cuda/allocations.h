// SPDX-License-Identifier: Apache-2.0
// What the program has allocated, so that it is known how much becomes free. One object with one lock for the process:
// allocations are rare beside launches.
//
//   memory     by its address: ended by a free, or with its context
//   array      by its handle: the same
//   physical   by its handle (cuMemCreate): ended when no handle names it and no address maps it
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "platform/mutex.h"
#include "shim/cuda/driver.h"

namespace weir::shim::cuda {

class Allocations {
 public:
  enum class Kind : std::uint8_t { kMemory, kArray };
  struct Block {
    Kind kind = Kind::kMemory;
    std::uint64_t handle = 0;  // the address, or the array's handle
    std::uint64_t bytes = 0;
    CudaHandle context = nullptr;  // that ends it; null: memory of a pool, which lasts until it is freed
    std::uint64_t number = 0;      // in the order in which blocks were added; given by Add
  };
  /// Physical memory of cuMemCreate.
  struct Physical {
    std::uint64_t bytes = 0;
  };
  struct Mapping {
    std::uint64_t address = 0, size = 0;
    std::shared_ptr<Physical> physical;
  };

  // Each function that returns bytes returns those that the process holds no longer. Blocks are taken before the driver
  // frees them, because the driver may give the address to another thread at once, and are put back if it fails.

  /// Returns the bytes of a block that had the same handle: the program has freed that one by a function that Weir does
  /// not know.
  std::uint64_t Add(const Block& block);
  /// Removes a block and returns it. Returns a block of 0 bytes if the handle is not known.
  Block Take(Kind kind, std::uint64_t handle);
  /// The number of the next block.
  [[nodiscard]] std::uint64_t Next();
  /// The blocks of a context with numbers below `before`: Next() at a time when the context still lived, because
  /// another thread may have made a new context with the same handle.
  std::vector<Block> TakeOf(CudaHandle context, std::uint64_t before);
  void PutBack(const Block& block);

  std::uint64_t AddPhysical(std::uint64_t handle, std::uint64_t bytes);
  /// One name of the physical memory ends (cuMemRelease). Null: the handle is not known.
  std::shared_ptr<Physical> TakeName(std::uint64_t handle);
  /// The handle is one name more of this memory.
  void AddName(std::uint64_t handle, std::shared_ptr<Physical> physical);
  /// What is mapped at the address; null: nothing that is known.
  std::shared_ptr<Physical> MappedAt(std::uint64_t address);
  void Map(std::uint64_t address, std::uint64_t size, std::uint64_t handle);
  /// The mappings in a range of addresses.
  std::vector<Mapping> TakeMappings(std::uint64_t address, std::uint64_t size);
  void PutBack(std::vector<Mapping>&& mappings);
  /// Gives up a reference that TakeName or a mapping held.
  std::uint64_t Drop(std::shared_ptr<Physical> physical);

 private:
  struct Name {
    std::shared_ptr<Physical> physical;
    unsigned count = 0;
  };

  platform::Mutex mutex_;
  std::uint64_t next_ = 0;
  std::unordered_map<std::uint64_t, Block> blocks_[2];  // by kind
  std::unordered_map<std::uint64_t, Name> names_;
  std::map<std::uint64_t, Mapping> mappings_;
};

}  // namespace weir::shim::cuda
