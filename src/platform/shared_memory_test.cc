// SPDX-License-Identifier: Apache-2.0
#include "platform/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "platform/files.h"
#include "tests/harness/code_of.h"
#include "tests/harness/temp_folder.h"

namespace weir::platform {
namespace {

using weir::testing::CodeOf;

constexpr std::uint64_t kBytes = 8192;

/// A memfd with exactly these seals.
Fd Memfd(std::uint64_t bytes, int seals) {
  Fd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

TEST(SharedRegion, StartsZeroedAndIsSharedByMappings) {
  auto region = MakeSharedRegion("weir-test", kBytes);
  ASSERT_TRUE(region) << region.error().message;
  EXPECT_EQ(region->mapping.bytes(), kBytes);
  for (std::uint64_t i = 0; i < kBytes; ++i) ASSERT_EQ(region->mapping.As<unsigned char>()[i], 0);
  auto other = MapForeignRegion(region->fd.get(), kBytes);
  ASSERT_TRUE(other) << other.error().message;
  region->mapping.As<char>()[kBytes - 1] = 'w';
  EXPECT_EQ(other->As<char>()[kBytes - 1], 'w');
}

TEST(SharedRegion, CannotBeResizedByAHolder) {
  const auto region = MakeSharedRegion("weir-test", kBytes);
  ASSERT_TRUE(region);
  for (const off_t size : {off_t{0}, off_t{4096}, off_t{kBytes * 2}}) {
    errno = 0;
    EXPECT_NE(::ftruncate(region->fd.get(), size), 0);
    EXPECT_EQ(errno, EPERM) << size;
  }
}

TEST(SharedRegion, CannotBeSealedFurther) {
  const auto region = MakeSharedRegion("weir-test", kBytes);
  ASSERT_TRUE(region);
  EXPECT_NE(::fcntl(region->fd.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_EQ(errno, EPERM);
}

TEST(SharedRegion, IsNotInheritedByOtherPrograms) {
  const auto region = MakeSharedRegion("weir-test", kBytes);
  ASSERT_TRUE(region);
  EXPECT_NE(::fcntl(region->fd.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Mapping, OutlivesItsDescriptorAndMoves) {
  auto region = MakeSharedRegion("weir-test", kBytes);
  ASSERT_TRUE(region);
  Mapping mapping = std::move(region->mapping);
  EXPECT_FALSE(region->mapping);
  region->fd.Reset();
  mapping.As<char>()[0] = 'w';
  Mapping other;
  other = std::move(mapping);
  EXPECT_EQ(other.As<char>()[0], 'w');
  EXPECT_EQ(other.bytes(), kBytes);
}

TEST(MapForeignRegion, TakesAMemfdThatIsSealedAgainstResizing) {
  EXPECT_TRUE(MapForeignRegion(Memfd(kBytes, F_SEAL_SHRINK | F_SEAL_GROW).get(), kBytes));
}

TEST(MapForeignRegion, RefusesAMemfdThatItsOwnerCanStillResize) {
  for (const int seals : {0, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL}) {
    const auto mapping = MapForeignRegion(Memfd(kBytes, seals).get(), kBytes);
    ASSERT_FALSE(mapping) << seals;
    EXPECT_EQ(CodeOf(mapping), Errc::kProtocol) << seals;
  }
}

TEST(MapForeignRegion, RefusesAnUnexpectedSize) {
  const Fd fd = Memfd(kBytes, F_SEAL_SHRINK | F_SEAL_GROW);
  for (const std::uint64_t said : {std::uint64_t{0}, kBytes - 1, kBytes + 1, ~std::uint64_t{0}})
    EXPECT_EQ(CodeOf(MapForeignRegion(fd.get(), said)), Errc::kProtocol) << said;
}

TEST(MapForeignRegion, RefusesAReadOnlyRegion) {
  EXPECT_FALSE(MapForeignRegion(Memfd(kBytes, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE).get(), kBytes));
}

TEST(MapForeignRegion, RefusesOtherDescriptors) {
  const weir::testing::TempFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "file", std::string(kBytes, 'x')));
  const Fd file(::open((folder / "file").c_str(), O_RDWR | O_CLOEXEC));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd read_end(ends[0]), write_end(ends[1]);
  const Fd zero(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  for (const int fd : {file.get(), read_end.get(), zero.get(), -1})
    EXPECT_EQ(CodeOf(MapForeignRegion(fd, kBytes)), Errc::kProtocol) << fd;
}

}  // namespace
}  // namespace weir::platform
