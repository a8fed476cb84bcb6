// SPDX-License-Identifier: Apache-2.0
#include "remote/memory_line.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "platform/shared_memory.h"
#include "remote/memory_rings.h"

namespace weir::remote {
namespace {

namespace port = proto::port;

class MemoryLine final : public PortLine {
 public:
  MemoryLine(platform::Fd fd, platform::Mapping mapping, std::uint64_t ring_bytes, port::Side side)
      : fd_(std::move(fd)),
        mapping_(std::move(mapping)),
        rings_(std::span(mapping_.As<std::byte>(), mapping_.bytes()), ring_bytes, side, DrawEpoch()) {}
  std::optional<std::size_t> Read(std::span<std::byte> into) override {
    if (rings_.TakenOver()) return std::nullopt;
    return rings_.Read(into);
  }
  std::optional<std::size_t> Write(std::span<const std::byte> bytes) override { return rings_.Write(bytes); }
  [[nodiscard]] int fd() const override { return -1; }
  [[nodiscard]] bool Ready(bool to_write) const override { return rings_.Ready(to_write); }
  bool Restarted() override { return rings_.Restarted(); }

 private:
  platform::Fd fd_;  // holds the lock
  platform::Mapping mapping_;
  MemoryRings rings_;
};

Result<platform::Mapping> MapMemory(int fd, std::uint64_t bytes, const std::string& path) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED)
    return platform::ErrnoError("mapping " + std::to_string(bytes) + " bytes of " + path, errno);
  return platform::Mapping(address, bytes);
}

/// Allows one process for each end. Each end locks its own byte, because both may open the same file.
Status LockEnd(int fd, port::Side side, const std::string& path, const std::string& who_has_it) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(side);
  lock.l_len = 1;
  if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) return Ok();
  if (errno == EAGAIN || errno == EACCES) return Fail(Errc::kBusy, path + who_has_it);
  return platform::ErrnoError("locking " + path, errno);
}

/// Copies the header. The acquire load of the magic number makes the other fields visible.
port::MemoryHeader HeaderOf(const platform::Mapping& mapping) {
  static_cast<void>(mapping.As<std::atomic<std::uint32_t>>()->load(std::memory_order_acquire));
  port::MemoryHeader header;
  std::memcpy(&header, mapping.As<std::byte>(), sizeof header);
  return header;
}

/// Returns the size of the host's file; 0: it was just created.
Result<std::uint64_t> SizeOfOurs(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return platform::ErrnoError("looking at " + path, errno);
  if (!S_ISREG(info.st_mode)) return Fail(Errc::kInvalidArgument, path + " is not a file");
  // A file of another user may have been created by the guest.
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return Fail(Errc::kPermissionDenied, path + " belongs to another user: remove it, and it is created again");
  if ((info.st_mode & 0007) != 0)
    return Fail(Errc::kPermissionDenied,
                path + " can be opened by every user, who could act as that guest: chmod 600 " + path);
  return static_cast<std::uint64_t>(info.st_size);
}

Status CheckMemorySize(std::uint64_t bytes, const std::string& what) {
  if (bytes >= port::kMemoryBytesMin && bytes <= port::kMemoryBytesMax) return Ok();
  return Fail(Errc::kInvalidArgument,
              what + " of " + std::to_string(bytes) + " bytes can't be shared: it must have between 64K and 1G");
}

/// `header` is a checked copy.
std::unique_ptr<PortLine> LineThrough(platform::Fd fd, platform::Mapping mapping, const port::MemoryHeader& header,
                                      port::Side side) {
  return std::make_unique<MemoryLine>(std::move(fd), std::move(mapping), header.ring_bytes, side);
}

/// Initialises the memory. It must contain only zeros, so that no other file is overwritten.
Status SetUp(const platform::Mapping& mapping, const std::string& path) {
  const std::span all(mapping.As<const std::byte>(), mapping.bytes());
  if (!std::all_of(all.begin(), all.end(), [](std::byte byte) { return byte == std::byte{0}; }))
    return Fail(Errc::kInvalidArgument, path + " is not a guest's memory; remove it, or give another");
  const port::MemoryHeader header = port::MemoryHeaderFor(mapping.bytes());
  std::memcpy(mapping.As<std::byte>() + sizeof header.magic, &header.version, sizeof header - sizeof header.magic);
  mapping.As<std::atomic<std::uint32_t>>()->store(header.magic, std::memory_order_release);
  return Ok();
}

}  // namespace

Result<std::unique_ptr<PortLine>> OpenGuestMemory(platform::Fd fd, const std::string& path, std::uint64_t bytes) {
  WEIR_TRY_STATUS(LockEnd(fd.get(), port::Side::kHost, path,
                          " belongs to another portal, possibly of an earlier daemon whose programs still run"));
  WEIR_TRY(std::uint64_t there, SizeOfOurs(fd.get(), path));
  if (there == 0) {
    there = bytes == 0 ? kGuestMemoryBytes : bytes;
    WEIR_TRY_STATUS(CheckMemorySize(there, "a guest's memory"));
    // Reserves the space now, so that later writes cannot fail.
    if (const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(there)); error != 0)
      return platform::ErrnoError("making " + path + " of " + std::to_string(there) + " bytes", error);
  } else if (bytes != 0 && bytes != there) {
    return Fail(Errc::kInvalidArgument, path + " exists already, with " + std::to_string(there) + " bytes and not " +
                                            std::to_string(bytes) + ": remove it, or omit the size");
  }
  WEIR_TRY_STATUS(CheckMemorySize(there, path));
  WEIR_TRY(platform::Mapping mapping, MapMemory(fd.get(), there, path));
  if (HeaderOf(mapping).magic == 0) WEIR_TRY_STATUS(SetUp(mapping, path));
  const port::MemoryHeader header = HeaderOf(mapping);
  if (const Status is_ours = port::CheckMemoryHeader(header, there, path); !is_ours)
    return Fail(is_ours.error().code, is_ours.error().message + "; remove it while its guest is off");
  return LineThrough(std::move(fd), std::move(mapping), header, port::Side::kHost);
}

bool CanBeMapped(int fd) {
  const platform::Mapping page = [fd] {
    void* address = ::mmap(nullptr, port::kMemoryRingsAt, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return address == MAP_FAILED ? platform::Mapping() : platform::Mapping(address, port::kMemoryRingsAt);
  }();
  return static_cast<bool>(page);
}

Result<std::unique_ptr<PortLine>> OpenHostMemory(platform::Fd fd, const std::string& path) {
  WEIR_TRY_STATUS(LockEnd(fd.get(), port::Side::kGuest, path,
                          " is in use by another program, of another user, perhaps: 'fuser -v " + path + "' says"));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return platform::ErrnoError("looking at " + path, errno);
  // The size of a device is unknown, but mmap fails if the device is too small.
  const std::uint64_t there = S_ISREG(info.st_mode) ? static_cast<std::uint64_t>(info.st_size) : UINT64_MAX;
  if (there < port::kMemoryBytesMin)
    return Fail(Errc::kInvalidArgument,
                path + " has " + std::to_string(there) + " bytes: too few to be a guest's memory");
  WEIR_TRY(const platform::Mapping first, MapMemory(fd.get(), port::kMemoryRingsAt, path));
  const port::MemoryHeader header = HeaderOf(first);
  WEIR_TRY_STATUS(port::CheckMemoryHeader(header, there, path));
  WEIR_TRY(platform::Mapping mapping, MapMemory(fd.get(), header.bytes, path));
  return LineThrough(std::move(fd), std::move(mapping), header, port::Side::kGuest);
}

}  // namespace weir::remote
