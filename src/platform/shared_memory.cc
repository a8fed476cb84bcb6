// SPDX-License-Identifier: Apache-2.0
#include "platform/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

namespace weir::platform {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

Result<Mapping> Map(int fd, std::uint64_t bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return ErrnoError("mapping a shared region of " + std::to_string(bytes) + " bytes", errno);
  return Mapping(address, bytes);
}

}  // namespace

Mapping::~Mapping() {
  if (address_ != nullptr) ::munmap(address_, bytes_);
}

Result<SharedRegion> MakeSharedRegion(const std::string& name, std::uint64_t bytes) {
  SharedRegion region;
  region.fd.Reset(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!region.fd) return ErrnoError("memfd_create(" + name + ")", errno);
  if (::ftruncate(region.fd.get(), static_cast<off_t>(bytes)) != 0) return ErrnoError("sizing memfd " + name, errno);
  if (::fcntl(region.fd.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0)
    return ErrnoError("sealing memfd " + name, errno);
  WEIR_TRY(region.mapping, Map(region.fd.get(), bytes));
  return region;
}

Result<Mapping> MapForeignRegion(int fd, std::uint64_t bytes) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals)
    return Fail(Errc::kProtocol, "the shared region is not a memfd sealed against resizing");
  struct stat info {};
  if (::fstat(fd, &info) != 0) return ErrnoError("fstat of a shared region", errno);
  if (info.st_size < 0 || static_cast<std::uint64_t>(info.st_size) != bytes)
    return Fail(Errc::kProtocol,
                "the shared region has " + std::to_string(info.st_size) + " bytes, expected " + std::to_string(bytes));
  return Map(fd, bytes);
}

}  // namespace weir::platform
