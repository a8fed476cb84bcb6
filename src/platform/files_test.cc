// SPDX-License-Identifier: Apache-2.0
#include "platform/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "platform/fd.h"
#include "tests/harness/child.h"
#include "tests/harness/code_of.h"
#include "tests/harness/temp_folder.h"

namespace weir::platform {
namespace {

using weir::testing::CodeOf;
using weir::testing::TempFolder;

std::string Content(const std::string& path) {
  auto content = ReadFile(path, 1 << 20);
  EXPECT_TRUE(content) << content.error().message;
  return content ? *content : "";
}

TEST(ReplaceFile, WritesAWorldReadableFile) {
  const TempFolder folder;
  ASSERT_TRUE(ReplaceFile(folder / "list", "one, and more"));
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat((folder / "list").c_str(), &before), 0);
  ASSERT_TRUE(ReplaceFile(folder / "list", "two"));
  EXPECT_EQ(Content(folder / "list"), "two");
  ASSERT_EQ(::stat((folder / "list").c_str(), &after), 0);
  EXPECT_EQ(after.st_mode & 0777, 0644u);
  EXPECT_NE(before.st_ino, after.st_ino) << "who reads the old one has all of it";
  EXPECT_FALSE(ReplaceFile(folder / "no/list", "x"));
}

TEST(WriteFileAtomically, WritesAPrivateFile) {
  const TempFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "state", "one"));
  EXPECT_EQ(Content(folder / "state"), "one");
  ASSERT_TRUE(WriteFileAtomically(folder / "state", ""));
  EXPECT_EQ(Content(folder / "state"), "");
  struct stat info {};
  ASSERT_EQ(::stat((folder / "state").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(WriteFileAtomically, LeavesNoOtherFileBehind) {
  const TempFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "state", "one"));
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  EXPECT_EQ(files, 1);
}

TEST(WriteFileAtomically, FailsWhereTheFolderIsMissing) {
  const TempFolder folder;
  const Status status = WriteFileAtomically(folder / "missing/state", "one");
  ASSERT_FALSE(status);
  EXPECT_EQ(CodeOf(status), Errc::kNotFound);
  EXPECT_NE(status.error().message.find("missing/state"), std::string::npos) << status.error().message;
}

TEST(WriteFileAtomically, KeepsTheOldContentWhenTheTemporaryFileFails) {
  const TempFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "state", "old"));
  std::filesystem::create_directory(folder / "state.new");
  EXPECT_FALSE(WriteFileAtomically(folder / "state", "new"));
  EXPECT_EQ(Content(folder / "state"), "old");
}

// In a folder such as /tmp another user may have put a file, or a link, where the new content is written.
TEST(WriteFileAtomically, WritesToNoFileThatAnotherHasMade) {
  const TempFolder folder;
  for (const auto write : {&WriteFileAtomically, &ReplaceFile}) {
    const std::string path = folder / "token";
    const Fd others(::open((path + ".new").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    ASSERT_TRUE(others);
    ASSERT_TRUE(write(path, "a private key"));
    char byte = 0;
    EXPECT_EQ(::pread(others.get(), &byte, 1, 0), 0) << "the other's file has no content";
    std::filesystem::create_symlink(folder / "victim", path + ".new");
    ASSERT_TRUE(write(path, "a private key"));
    EXPECT_FALSE(std::filesystem::exists(folder / "victim"));
    EXPECT_EQ(Content(path), "a private key");
  }
}

TEST(WriteFileAtomically, LeavesTheOldContentWhenTheFileMayNotGrow) {
  const TempFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "state", "old"));
  weir::testing::Child child([&folder] {
    const rlimit limit{4096, 4096};
    std::signal(SIGXFSZ, SIG_IGN);
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const Status status = WriteFileAtomically(folder / "state", std::string(8192, 'n'));
    return !status && status.error().code == Errc::kResourceExhausted ? 0 : 1;
  });
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(Content(folder / "state"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder / "state.new"));
}

/// A file system of 64 KiB. Tests that need it are skipped where mounting is not allowed.
class TinyFileSystem {
 public:
  TinyFileSystem() : mounted_(::mount("weir-test", folder_.path().c_str(), "tmpfs", 0, "size=64k") == 0) {}
  ~TinyFileSystem() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] bool MakeReadOnly() const {
    return ::mount("weir-test", folder_.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }
  [[nodiscard]] std::string operator/(const std::string& name) const { return folder_ / name; }

 private:
  TempFolder folder_;
  bool mounted_;
};

TEST(WriteFileAtomically, LeavesTheOldContentOnAFullDisk) {
  const TinyFileSystem disk;
  if (!disk.mounted()) GTEST_SKIP() << "mounting needs root";
  ASSERT_TRUE(WriteFileAtomically(disk / "state", "old"));
  const Status status = WriteFileAtomically(disk / "state", std::string(256 << 10, 'n'));
  ASSERT_FALSE(status);
  EXPECT_EQ(CodeOf(status), Errc::kResourceExhausted) << status.error().message;
  EXPECT_EQ(Content(disk / "state"), "old");
  EXPECT_TRUE(WriteFileAtomically(disk / "state", "new")) << "the failed attempt must not keep the disk full";
  EXPECT_EQ(Content(disk / "state"), "new");
}

TEST(WriteFileAtomically, LeavesTheOldContentOnAReadOnlyFileSystem) {
  const TinyFileSystem disk;
  if (!disk.mounted()) GTEST_SKIP() << "mounting needs root";
  ASSERT_TRUE(WriteFileAtomically(disk / "state", "old"));
  ASSERT_TRUE(disk.MakeReadOnly());
  EXPECT_FALSE(WriteFileAtomically(disk / "state", "new"));
  EXPECT_EQ(Content(disk / "state"), "old");
}

TEST(WriteFileAtomically, ReadersSeeOneContentOrTheOtherNeverAMixture) {
  const TempFolder folder;
  const std::string a(30'000, 'a'), b(50'000, 'b');
  ASSERT_TRUE(WriteFileAtomically(folder / "state", a));
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(WriteFileAtomically(folder / "state", i % 2 == 0 ? b : a));
    done = true;
  });
  do {
    const std::string seen = Content(folder / "state");
    EXPECT_TRUE(seen == a || seen == b) << seen.size() << " bytes";
  } while (!done);
  writer.join();
}

TEST(ReadFile, IsBounded) {
  const TempFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "file", std::string(100, 'x')));
  EXPECT_TRUE(ReadFile(folder / "file", 100));
  EXPECT_EQ(CodeOf(ReadFile(folder / "file", 99)), Errc::kResourceExhausted);
  EXPECT_EQ(CodeOf(ReadFile("/dev/zero", 1 << 20)), Errc::kResourceExhausted);
}

TEST(ReadFile, NamesTheMissingFile) {
  const TempFolder folder;
  EXPECT_EQ(CodeOf(ReadFile(folder / "none", 1)), Errc::kNotFound);
  EXPECT_FALSE(ReadFile(folder.path(), 1));
}

TEST(MakeFolder, MakesParentsAndTakesAnExistingOneOfOurs) {
  const TempFolder folder;
  ASSERT_TRUE(MakeFolder(folder / "a/b/c", 0700));
  EXPECT_TRUE(MakeFolder(folder / "a/b/c", 0700));
  struct stat info {};
  ASSERT_EQ(::stat((folder / "a/b/c").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST(CheckFolder, DoesNotMakeOne) {
  const TempFolder folder;
  EXPECT_EQ(CodeOf(CheckFolder(folder / "missing")), Errc::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(folder / "missing"));
  EXPECT_TRUE(CheckFolder(folder.path(), 0700));
}

TEST(MakeFolder, RefusesAFileInItsPlace) {
  const TempFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "file", ""));
  EXPECT_EQ(CodeOf(MakeFolder(folder / "file")), Errc::kAlreadyExists);
  EXPECT_FALSE(MakeFolder(folder / "file/below"));
}

TEST(MakeFolder, RefusesAFolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "giving a folder away needs root";
  const TempFolder folder;
  ASSERT_TRUE(MakeFolder(folder / "theirs"));
  ASSERT_EQ(::chown((folder / "theirs").c_str(), 65'534, 65'534), 0);
  EXPECT_EQ(CodeOf(MakeFolder(folder / "theirs")), Errc::kPermissionDenied);
}

TEST(MakeFolder, RefusesALinkThatAnotherUserHasMade) {
  if (::geteuid() != 0) GTEST_SKIP() << "giving a link away needs root";
  const TempFolder folder;
  ASSERT_TRUE(MakeFolder(folder / "ours"));
  ASSERT_EQ(::symlink((folder / "ours").c_str(), (folder / "link").c_str()), 0);
  EXPECT_TRUE(MakeFolder(folder / "link")) << "as /var/run is one to /run";
  ASSERT_EQ(::lchown((folder / "link").c_str(), 65'534, 65'534), 0);
  EXPECT_EQ(CodeOf(MakeFolder(folder / "link")), Errc::kPermissionDenied);
}

TEST(MakeFolder, RefusesOneThatOthersMayWrite) {
  const TempFolder folder;
  ASSERT_TRUE(MakeFolder(folder / "a"));
  ASSERT_EQ(::chmod((folder / "a").c_str(), 0757), 0);
  EXPECT_EQ(CodeOf(MakeFolder(folder / "a")), Errc::kPermissionDenied);
  ASSERT_EQ(::chmod((folder / "a").c_str(), 0775), 0);
  EXPECT_TRUE(MakeFolder(folder / "a")) << "its group was not asked to be kept out";
  EXPECT_EQ(CodeOf(MakeFolder(folder / "a", 0700)), Errc::kPermissionDenied);
  ASSERT_EQ(::chmod((folder / "a").c_str(), 01777), 0);
  EXPECT_TRUE(MakeFolder(folder / "a")) << "what is ours there others can't replace";
}

TEST(DefaultFolders, FollowTheEnvironment) {
  ::setenv("WEIR_RUN_DIR", "/somewhere/run", 1);
  ::setenv("WEIR_STATE_DIR", "/somewhere/state", 1);
  EXPECT_EQ(DefaultRunDir(), "/somewhere/run");
  EXPECT_EQ(DefaultStateDir(), "/somewhere/state");
  ::setenv("WEIR_RUN_DIR", "", 1);
  EXPECT_FALSE(DefaultRunDir().empty()) << "an empty variable says nothing";
  ::unsetenv("WEIR_RUN_DIR");
  ::unsetenv("WEIR_STATE_DIR");
  EXPECT_FALSE(DefaultStateDir().empty());
}

}  // namespace
}  // namespace weir::platform
