// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/allocations.h"

#include <mutex>
#include <utility>

#include "platform/mutex.h"

namespace weir::shim::cuda {
namespace {

using BlocksLock = std::lock_guard<platform::Mutex>;

constexpr std::size_t IndexOf(Allocations::Kind kind) { return static_cast<std::size_t>(kind); }

}  // namespace

std::uint64_t Allocations::Add(const Block& block) {
  const BlocksLock lock(mutex_);
  Block numbered = block;
  numbered.number = next_++;
  const auto [at, added] = blocks_[IndexOf(block.kind)].try_emplace(block.handle, numbered);
  return added ? 0 : std::exchange(at->second, numbered).bytes;
}

std::uint64_t Allocations::Next() {
  const BlocksLock lock(mutex_);
  return next_;
}

Allocations::Block Allocations::Take(Kind kind, std::uint64_t handle) {
  const BlocksLock lock(mutex_);
  const auto block = blocks_[IndexOf(kind)].extract(handle);
  return block ? block.mapped() : Block{};
}

std::vector<Allocations::Block> Allocations::TakeOf(CudaHandle context, std::uint64_t before) {
  const BlocksLock lock(mutex_);
  std::vector<Block> taken;
  for (auto& blocks : blocks_)
    std::erase_if(blocks, [&](const auto& one) {
      const bool ends = one.second.context == context && one.second.number < before;
      if (ends) taken.push_back(one.second);
      return ends;
    });
  return taken;
}

void Allocations::PutBack(const Block& block) {
  if (block.bytes == 0) return;
  const BlocksLock lock(mutex_);
  blocks_[IndexOf(block.kind)].try_emplace(block.handle, block);
}

std::uint64_t Allocations::AddPhysical(std::uint64_t handle, std::uint64_t bytes) {
  auto physical = std::make_shared<Physical>(Physical{bytes});
  std::shared_ptr<Physical> before;
  {
    const BlocksLock lock(mutex_);
    Name& name = names_[handle];
    before = std::exchange(name.physical, std::move(physical));
    name.count = 1;
  }
  return Drop(std::move(before));
}

std::shared_ptr<Allocations::Physical> Allocations::TakeName(std::uint64_t handle) {
  const BlocksLock lock(mutex_);
  const auto found = names_.find(handle);
  if (found == names_.end()) return nullptr;
  std::shared_ptr<Physical> physical = found->second.physical;
  if (--found->second.count == 0) names_.erase(found);
  return physical;
}

void Allocations::AddName(std::uint64_t handle, std::shared_ptr<Physical> physical) {
  if (physical == nullptr) return;
  const BlocksLock lock(mutex_);
  Name& name = names_[handle];
  name.physical = std::move(physical);
  ++name.count;
}

std::shared_ptr<Allocations::Physical> Allocations::MappedAt(std::uint64_t address) {
  const BlocksLock lock(mutex_);
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return nullptr;
  const Mapping& mapping = std::prev(after)->second;
  return address - mapping.address < mapping.size ? mapping.physical : nullptr;
}

void Allocations::Map(std::uint64_t address, std::uint64_t size, std::uint64_t handle) {
  const BlocksLock lock(mutex_);
  const auto found = names_.find(handle);
  if (found != names_.end()) mappings_[address] = {address, size, found->second.physical};
}

std::vector<Allocations::Mapping> Allocations::TakeMappings(std::uint64_t address, std::uint64_t size) {
  const BlocksLock lock(mutex_);
  std::vector<Mapping> taken;
  for (auto at = mappings_.lower_bound(address); at != mappings_.end() && at->first - address < size;) {
    taken.push_back(std::move(at->second));
    at = mappings_.erase(at);
  }
  return taken;
}

void Allocations::PutBack(std::vector<Mapping>&& mappings) {
  const BlocksLock lock(mutex_);
  for (Mapping& one : mappings) mappings_.try_emplace(one.address, std::move(one));
}

std::uint64_t Allocations::Drop(std::shared_ptr<Physical> physical) {
  if (physical == nullptr) return 0;
  const BlocksLock lock(mutex_);
  // References are copied and dropped with the lock held only, so that one caller finds the last one.
  const std::uint64_t bytes = physical.use_count() == 1 ? physical->bytes : 0;
  physical.reset();
  return bytes;
}

}  // namespace weir::shim::cuda
