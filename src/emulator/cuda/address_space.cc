// SPDX-License-Identifier: Apache-2.0
#include "emulator/cuda/address_space.h"

#include <sys/mman.h>

#include <algorithm>

namespace weir::emulator::cuda {
namespace {

void* At(Pointer address) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)); }

constexpr std::size_t kRangesMost = 65'536;

}  // namespace

Result AddressSpace::Reserve(std::uint64_t size, Pointer& address) {
  if (size == 0 || size % kGranularity != 0) return kInvalidValue;
  if (reserved_.size() >= kRangesMost) return kOutOfMemory;
  void* at = ::mmap(nullptr, size + kGranularity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return kOutOfMemory;
  const auto first = static_cast<Pointer>(reinterpret_cast<std::uintptr_t>(at));
  address = (first + kGranularity - 1) / kGranularity * kGranularity;
  if (address > first) ::munmap(At(first), address - first);
  if (first + kGranularity > address) ::munmap(At(address + size), first + kGranularity - address);
  reserved_[address] = size;
  return kSuccess;
}

Result AddressSpace::Unreserve(Pointer address, std::uint64_t size) {
  const auto found = reserved_.find(address);
  if (found == reserved_.end() || found->second != size) return kInvalidValue;
  const auto mapped = mappings_.lower_bound(address);
  if (mapped != mappings_.end() && mapped->first - address < size) return kInvalidValue;
  ::munmap(At(address), size);
  reserved_.erase(found);
  return kSuccess;
}

AddressSpace::Mappings::const_iterator AddressSpace::MappingAt(Pointer address) const {
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return mappings_.end();
  const auto found = std::prev(after);
  return address - found->first < found->second.size ? found : mappings_.end();
}

Result AddressSpace::Map(Pointer address, std::uint64_t size, std::uint64_t offset, const PhysicalPtr& physical) {
  if (size == 0 || size % kGranularity != 0 || address % kGranularity != 0 || offset != 0 || size != physical->bytes)
    return kInvalidValue;
  const auto after = reserved_.upper_bound(address);
  if (after == reserved_.begin()) return kInvalidValue;
  const auto& [first, reserved] = *std::prev(after);
  if (address - first > reserved || size > reserved - (address - first)) return kInvalidValue;
  const auto next = mappings_.lower_bound(address);
  if (MappingAt(address) != mappings_.end() || (next != mappings_.end() && next->first - address < size))
    return kInvalidValue;
  if (::mmap(At(address), size, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->memory.get(), 0) == MAP_FAILED)
    return kOutOfMemory;
  mappings_[address] = {.size = size, .physical = physical};
  return kSuccess;
}

bool AddressSpace::IsMapped(Pointer address, std::uint64_t size) const {
  const Pointer end = address + size;
  if (size == 0 || end < address) return false;
  while (address < end) {
    const auto found = mappings_.find(address);
    if (found == mappings_.end() || found->second.size > end - address) return false;
    address += found->second.size;
  }
  return true;
}

Result AddressSpace::Unmap(Pointer address, std::uint64_t size, std::vector<PhysicalPtr>& ended) {
  if (!IsMapped(address, size)) return kInvalidValue;
  if (::mmap(At(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
      MAP_FAILED)
    return kOutOfMemory;
  for (auto at = mappings_.find(address); at != mappings_.end() && at->first - address < size;) {
    ended.push_back(std::move(at->second.physical));
    at = mappings_.erase(at);
  }
  return kSuccess;
}

Result AddressSpace::Allow(Pointer address, std::uint64_t size, bool writes) {
  if (!IsMapped(address, size)) return kInvalidValue;
  if (::mprotect(At(address), size, writes ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) return kOutOfMemory;
  for (auto at = mappings_.find(address); at != mappings_.end() && at->first - address < size; ++at)
    at->second.allowed = writes;
  return kSuccess;
}

PhysicalPtr AddressSpace::MappedAt(Pointer address) const {
  const auto found = MappingAt(address);
  return found == mappings_.end() ? nullptr : found->second.physical;
}

bool AddressSpace::MayUse(Pointer address, std::uint64_t bytes) const {
  const auto found = MappingAt(address);
  return found != mappings_.end() && found->second.allowed && bytes <= found->second.size - (address - found->first);
}

unsigned long long AddressSpace::NameOf(const PhysicalPtr& physical) {
  const auto handle = static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(physical.get()));
  Name& name = names_[handle];
  name.physical = physical;
  ++name.count;
  return handle;
}

PhysicalPtr AddressSpace::Find(unsigned long long handle) const {
  const auto found = names_.find(handle);
  return found == names_.end() ? nullptr : found->second.physical;
}

PhysicalPtr AddressSpace::EndName(unsigned long long handle) {
  const auto found = names_.find(handle);
  if (found == names_.end()) return nullptr;
  PhysicalPtr physical = found->second.physical;
  if (--found->second.count == 0) names_.erase(found);
  return physical;
}

}  // namespace weir::emulator::cuda
