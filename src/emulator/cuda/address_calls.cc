// SPDX-License-Identifier: Apache-2.0
// Functions of the API: virtual memory management. Physical memory is mapped as a whole.
#include <sys/mman.h>
#include <unistd.h>

#include "emulator/cuda/driver.h"

using namespace weir::emulator::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

namespace {

/// CUmemAllocationProp, its first members.
struct PhysicalProperties {
  int type, handle_types, location_type, location;
};
/// CUmemAccessDesc.
struct Access {
  int location_type, location, flags;
};
constexpr int kDeviceLocation = 1, kReadWrite = 3;

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's
WEIR_EXPORT Result cuMemGetAllocationGranularity(std::size_t* bytes, const PhysicalProperties* properties,
                                                 int /*option*/) {
  return Call([&](Driver&) {
    if (bytes == nullptr || properties == nullptr) return kInvalidValue;
    *bytes = AddressSpace::kGranularity;
    return kSuccess;
  });
}

WEIR_EXPORT Result cuMemCreate(unsigned long long* handle, std::size_t bytes, const PhysicalProperties* properties,
                               unsigned long long flags) {
  return Call([&](Driver& driver) {
    if (handle == nullptr || properties == nullptr || flags != 0 || properties->type != 1) return kInvalidValue;
    if (bytes == 0 || bytes % AddressSpace::kGranularity != 0) return kInvalidValue;
    if (properties->location_type != kDeviceLocation) return kNotSupported;
    if (properties->location < 0 || static_cast<std::size_t>(properties->location) >= driver.cards.size())
      return kInvalidDevice;
    const auto card = static_cast<std::uint32_t>(properties->location);
    if (const Result error = driver.TakeRoom(card, bytes); error != kSuccess) return error;
    weir::platform::Fd memory(::memfd_create("weir-emulated-cuda", MFD_CLOEXEC));
    const bool sized = memory && ::ftruncate(memory.get(), static_cast<off_t>(bytes)) == 0;
    const auto physical = std::make_shared<Physical>(card, bytes, std::move(memory),
                                                     [&driver, card, bytes] { driver.GiveRoom(card, bytes); });
    if (!sized) return kOutOfMemory;
    const auto lock = driver.Lock();
    *handle = driver.addresses.NameOf(physical);
    return kSuccess;
  });
}

WEIR_EXPORT Result cuMemRelease(unsigned long long handle) {
  return Call([&](Driver& driver) {
    PhysicalPtr ended;  // given up without the lock
    const auto lock = driver.Lock();
    ended = driver.addresses.EndName(handle);
    return ended == nullptr ? kInvalidValue : kSuccess;
  });
}

WEIR_EXPORT Result cuMemRetainAllocationHandle(unsigned long long* handle, void* address) {
  return Call([&](Driver& driver) {
    const auto lock = driver.Lock();
    const PhysicalPtr physical = driver.addresses.MappedAt(reinterpret_cast<std::uintptr_t>(address));
    if (handle == nullptr || physical == nullptr) return kInvalidValue;
    *handle = driver.addresses.NameOf(physical);
    return kSuccess;
  });
}

WEIR_EXPORT Result cuMemAddressReserve(Pointer* address, std::size_t size, std::size_t /*alignment*/, Pointer /*wish*/,
                                       unsigned long long flags) {
  return Call([&](Driver& driver) {
    if (address == nullptr || flags != 0) return kInvalidValue;
    const auto lock = driver.Lock();
    return driver.addresses.Reserve(size, *address);
  });
}

WEIR_EXPORT Result cuMemAddressFree(Pointer address, std::size_t size) {
  return Call([&](Driver& driver) {
    const auto lock = driver.Lock();
    return driver.addresses.Unreserve(address, size);
  });
}

WEIR_EXPORT Result cuMemMap(Pointer address, std::size_t size, std::size_t offset, unsigned long long handle,
                            unsigned long long flags) {
  return Call([&](Driver& driver) {
    const auto lock = driver.Lock();
    const PhysicalPtr physical = driver.addresses.Find(handle);
    if (physical == nullptr || flags != 0) return kInvalidValue;
    return driver.addresses.Map(address, size, offset, physical);
  });
}

WEIR_EXPORT Result cuMemUnmap(Pointer address, std::size_t size) {
  return Call([&](Driver& driver) {
    std::vector<PhysicalPtr> ended;  // given up without the lock
    const auto lock = driver.Lock();
    return driver.addresses.Unmap(address, size, ended);
  });
}

WEIR_EXPORT Result cuMemSetAccess(Pointer address, std::size_t size, const Access* access, std::size_t count) {
  return Call([&](Driver& driver) {
    if (access == nullptr || count != 1 || access->location_type != kDeviceLocation) return kInvalidValue;
    const auto lock = driver.Lock();
    return driver.addresses.Allow(address, size, access->flags == kReadWrite);
  });
}
// NOLINTEND(readability-identifier-naming)
