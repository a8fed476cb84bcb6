// SPDX-License-Identifier: Apache-2.0
#include "platform/control_groups.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "platform/spawn.h"
#include "tests/harness/temp_folder.h"

namespace weir::platform {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(CgroupMounts, AreThoseOfBothVersionsWithTheirControllers) {
  const auto mounts = CgroupMountsIn(
      "22 26 0:20 / /proc rw,nosuid - proc proc rw\n"
      "31 25 0:26 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
      "32 25 0:27 / /sys/fs/cgroup/both rw master:1 propagate_from:2 - cgroup cgroup rw,cpu,pids\n"
      "33 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n");
  ASSERT_EQ(mounts.size(), 3U);
  EXPECT_EQ(mounts[0].folder, "/sys/fs/cgroup/memory");
  EXPECT_TRUE(mounts[0].memory && !mounts[0].processes && !mounts[0].is_v2);
  EXPECT_EQ(mounts[1].folder, "/sys/fs/cgroup/both");
  EXPECT_TRUE(!mounts[1].memory && mounts[1].processes && !mounts[1].is_v2);
  EXPECT_EQ(mounts[2].folder, "/sys/fs/cgroup/unified");
  EXPECT_TRUE(mounts[2].is_v2);
}

TEST(CgroupMounts, OfLinesThatAreCutAreNone) {
  for (const char* text : {"", "\n\n", "31 25 0:26 /", "31 25 0:26 / /sys/fs/cgroup rw -",
                           "31 25 0:26 / /x rw - cgroup c", "- cgroup2 a b"})
    EXPECT_TRUE(CgroupMountsIn(text).empty()) << text;
}

/// A folder with files as the kernel shows them, of version 2. The files of groups are made before the groups.
class ShownGroups : public ::testing::Test {
 protected:
  void SetUp() override {
    Put("proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    Put("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
    Put("sys/fs/cgroup/cgroup.subtree_control", "cpu memory\n");
    PutGroup("weir-test");
    PutGroup("weir-test/7");
  }
  void PutGroup(const std::string& name) {
    for (const char* file : {"memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cgroup.subtree_control"})
      Put("sys/fs/cgroup/" + name + "/" + file, "");
  }
  void Put(const std::string& name, const std::string& text) {
    const std::filesystem::path path(folder_ / name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string Text(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(folder_ / ("sys/fs/cgroup/" + name)).rdbuf();
    return text.str();
  }
  testing::TempFolder folder_;
};

TEST_F(ShownGroups, OfVersion2GetTheirLimits) {
  const auto groups = ControlGroups::Make("weir-test", {.memory_bytes = 7 * kMiB}, folder_.path());
  ASSERT_TRUE(groups) << groups.error().message;
  EXPECT_EQ(Text("cgroup.subtree_control"), "+pids") << "memory is enabled already";
  EXPECT_EQ(Text("weir-test/memory.max"), "7340032");
  EXPECT_EQ(Text("weir-test/pids.max"), "max");
  EXPECT_EQ(Text("weir-test/memory.oom.group"), "") << "one group that is full does not end all";
  EXPECT_EQ(Text("weir-test/cgroup.subtree_control"), "+memory +pids");
  ASSERT_TRUE(groups->Set("7", {.memory_bytes = kMiB, .processes = 9}));
  EXPECT_EQ(Text("weir-test/7/memory.max"), "1048576");
  EXPECT_EQ(Text("weir-test/7/memory.swap.max"), "0");
  EXPECT_EQ(Text("weir-test/7/memory.oom.group"), "1");
  EXPECT_EQ(Text("weir-test/7/pids.max"), "9");
  EXPECT_EQ(groups->EntriesOf("7"), std::vector<std::string>{folder_ / "sys/fs/cgroup/weir-test/7/cgroup.procs"});
}

TEST_F(ShownGroups, TellHowManyProcessesTheKernelHasKilled) {
  Put("sys/fs/cgroup/weir-test/7/memory.events", "low 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n");
  const auto groups = ControlGroups::Make("weir-test", {}, folder_.path());
  ASSERT_TRUE(groups) << groups.error().message;
  EXPECT_EQ(groups->KilledForMemory("7"), 2U);
  EXPECT_EQ(groups->KilledForMemory("8"), 0U) << "no such group";
}

TEST_F(ShownGroups, AreMissingWhereAControllerIs) {
  Put("sys/fs/cgroup/cgroup.controllers", "cpu pids\n");
  auto groups = ControlGroups::Make("weir-test", {}, folder_.path());
  ASSERT_FALSE(groups);
  EXPECT_EQ(groups.error().message, "no cgroup hierarchy is mounted that limits memory");
}

TEST_F(ShownGroups, LimitMemoryAlsoWhereNoneLimitProcesses) {
  Put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  const auto groups = ControlGroups::Make("weir-test", {}, folder_.path());
  ASSERT_TRUE(groups) << groups.error().message;
  ASSERT_TRUE(groups->Set("7", {.memory_bytes = kMiB, .processes = 9}));
  EXPECT_EQ(Text("weir-test/7/memory.max"), "1048576");
  EXPECT_EQ(Text("weir-test/7/pids.max"), "");
}

TEST_F(ShownGroups, KeepALimitThatIsAboveWhatTheyHold) {
  const auto groups = ControlGroups::Make("weir-test", {}, folder_.path());
  ASSERT_TRUE(groups) << groups.error().message;
  ASSERT_TRUE(groups->Set("7", {.memory_bytes = 4 * kMiB}));
  Put("sys/fs/cgroup/weir-test/7/memory.current", "3145728\n");
  ASSERT_TRUE(groups->Set("7", {.memory_bytes = 2 * kMiB}));
  EXPECT_EQ(Text("weir-test/7/memory.max"), "4194304");
  Put("sys/fs/cgroup/weir-test/7/memory.current", "1048576\n");
  ASSERT_TRUE(groups->Set("7", {.memory_bytes = 2 * kMiB}));
  EXPECT_EQ(Text("weir-test/7/memory.max"), "2097152");
}

TEST_F(ShownGroups, ThatCanNotBeMadeSayWhere) {
  std::filesystem::remove_all(folder_ / "sys/fs/cgroup/weir-test");
  Put("sys/fs/cgroup/weir-test", "a file\n");
  const auto groups = ControlGroups::Make("weir-test", {}, folder_.path());
  ASSERT_FALSE(groups);
  EXPECT_NE(groups.error().message.find("/sys/fs/cgroup/weir-test/pids.max"), std::string::npos)
      << groups.error().message;
}

/// Groups of this machine's kernel.
class KernelsGroups : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = ControlGroups::Make(name_, {.memory_bytes = 256 * kMiB});
    if (!made) GTEST_SKIP() << "this process may make no control groups: " << made.error().message;
    groups_ = std::move(*made);
  }
  void TearDown() override {
    groups_.RemoveUnused({});
    groups_.RemoveIfEmpty();
  }
  /// The exit status, as waitpid has it, of a shell that runs `script` in the group.
  int StatusIn(const std::string& group, const std::string& script) {
    const auto pid = Spawn({.argv = {"/bin/sh", "-c", script}, .silent = true, .groups = groups_.EntriesOf(group)});
    EXPECT_TRUE(pid) << pid.error().message;
    int status = 0;
    if (pid) ::waitpid(*pid, &status, 0);
    return status;
  }
  const std::string name_ = "weir-test-" + std::to_string(::getpid());
  ControlGroups groups_;
};

constexpr const char* kUse64MiB = "exec /bin/dd if=/dev/zero of=/dev/null bs=64M count=1";

TEST_F(KernelsGroups, EndAProgramThatUsesMoreMemoryThanItsGroupHasAndNoOther) {
  ASSERT_TRUE(groups_.Set("small", {.memory_bytes = 16 * kMiB}));
  ASSERT_TRUE(groups_.Set("large", {.memory_bytes = 128 * kMiB}));
  const int status = StatusIn("small", kUse64MiB);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_GE(groups_.KilledForMemory("small"), 1U);
  EXPECT_EQ(StatusIn("large", kUse64MiB), 0);
  EXPECT_EQ(groups_.KilledForMemory("large"), 0U);
}

TEST_F(KernelsGroups, CountFilesInATmpfsUntilTheyAreRemoved) {
  const testing::TempFolder folder;
  if (::system(("mount -t tmpfs tmpfs " + folder.path()).c_str()) != 0)
    GTEST_SKIP() << "this process may mount nothing";
  ASSERT_TRUE(groups_.Set("small", {.memory_bytes = 32 * kMiB}));
  const std::string write = "exec /bin/dd if=/dev/zero bs=1M count=24 of=" + folder.path() + "/";
  EXPECT_EQ(StatusIn("small", write + "a"), 0);
  EXPECT_NE(StatusIn("small", write + "b"), 0) << "24 and 24 MiB are more than 32 MiB";
  std::filesystem::remove(folder.path() + "/a");
  std::filesystem::remove(folder.path() + "/b");
  EXPECT_EQ(StatusIn("small", write + "c"), 0);
  EXPECT_EQ(::system(("umount " + folder.path()).c_str()), 0);
}

TEST_F(KernelsGroups, EndNoProgramWhenTheirLimitIsLowered) {
  ASSERT_TRUE(groups_.Set("used", {.memory_bytes = 128 * kMiB}));
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  // The shell holds 32 MiB and says so. It ends when it is told to.
  const std::string script = "x=$(head -c 33554432 /dev/zero | tr '\\0' x); echo; while kill -0 $$ && [ ! -e /tmp/" +
                             name_ + " ]; do sleep 0.02; done";
  const auto pid =
      Spawn({.argv = {"/bin/sh", "-c", script}, .output_fd = ends[1], .groups = groups_.EntriesOf("used")});
  ASSERT_TRUE(pid) << pid.error().message;
  ::close(ends[1]);
  char byte = 0;
  ASSERT_EQ(::read(ends[0], &byte, 1), 1) << "it holds the memory";
  EXPECT_TRUE(groups_.Set("used", {.memory_bytes = 16 * kMiB}));
  std::ofstream("/tmp/" + name_) << "end\n";
  int status = 0;
  ::waitpid(*pid, &status, 0);
  std::filesystem::remove("/tmp/" + name_);
  EXPECT_EQ(status, 0) << "it ended by itself";
  ::close(ends[0]);
  EXPECT_EQ(groups_.KilledForMemory("used"), 0U);
}

TEST_F(KernelsGroups, LimitProcesses) {
  ASSERT_TRUE(groups_.Set("few", {.processes = 3}));
  ASSERT_TRUE(groups_.Set("many", {.processes = 64}));
  const std::string script = "for i in 1 2 3 4 5; do sleep 0.2 & done; wait";
  EXPECT_NE(StatusIn("few", script), 0);
  EXPECT_EQ(StatusIn("many", script), 0);
}

TEST_F(KernelsGroups, HaveALimitTogether) {
  for (const char* group : {"a", "b"}) ASSERT_TRUE(groups_.Set(group, {.memory_bytes = 1024 * kMiB}));
  const int status = StatusIn("a", "exec /bin/dd if=/dev/zero of=/dev/null bs=512M count=1");
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST_F(KernelsGroups, GoOnceNoProcessIsLeft) {
  ASSERT_TRUE(groups_.Set("used", {}));
  ASSERT_TRUE(groups_.Set("kept", {}));
  ASSERT_TRUE(groups_.Set("gone", {}));
  const auto pid = Spawn({.argv = {"/bin/sleep", "600"}, .silent = true, .groups = groups_.EntriesOf("used")});
  ASSERT_TRUE(pid) << pid.error().message;
  const auto there = [&](const char* group) {
    return std::filesystem::exists(groups_.Folders().front() + "/" + group);
  };
  groups_.RemoveUnused({"kept"});
  EXPECT_TRUE(there("used") && there("kept") && !there("gone"));
  ::kill(*pid, SIGKILL);
  ::waitpid(*pid, nullptr, 0);
  groups_.RemoveUnused({"kept"});
  EXPECT_TRUE(!there("used") && there("kept"));
  groups_.RemoveUnused({});
  groups_.RemoveIfEmpty();
  EXPECT_FALSE(std::filesystem::exists(groups_.Folders().front()));
  EXPECT_TRUE(groups_.Set("again", {.memory_bytes = 16 * kMiB}));
  EXPECT_TRUE(there("again"));
}

// As by the daemon's unit.
TEST_F(KernelsGroups, AreMadeAndRemovedByRootWithoutTheRightToPassOverModes) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root owns the root of a hierarchy";
  std::vector<std::string> roots;
  for (const std::string& folder : groups_.Folders()) roots.push_back(std::filesystem::path(folder).parent_path());
  for (const std::string& root : roots) ASSERT_EQ(::chmod(root.c_str(), 0555), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3]{};
    if (::syscall(SYS_capset, &header, none) != 0) ::_exit(3);
    const auto made = ControlGroups::Make(name_ + "-unit", {});
    if (!made || !made->Set("7", {.memory_bytes = 16 * kMiB})) ::_exit(1);
    made->RemoveUnused({});
    made->RemoveIfEmpty();
    ::_exit(std::filesystem::exists(made->Folders().front()) ? 2 : 0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(KernelsGroups, AProgramThatCanNotEnterItsGroupIsNotStarted) {
  const auto pid = Spawn({.argv = {"/bin/true"}, .silent = true, .groups = groups_.EntriesOf("missing")});
  EXPECT_FALSE(pid);
}

TEST_F(KernelsGroups, AreNotLeftWithoutRights) {
  ASSERT_TRUE(groups_.Set("mine", {}));
  const std::string parents = groups_.Folders().front() + "/../cgroup.procs";
  const auto pid = Spawn({.argv = {"/bin/sh", "-c", "echo 0 > " + parents},
                          .silent = true,
                          .as = RunAs{.uid = 54'321, .gid = 54'321},
                          .groups = groups_.EntriesOf("mine")});
  ASSERT_TRUE(pid) << pid.error().message;
  int status = 0;
  ::waitpid(*pid, &status, 0);
  EXPECT_NE(status, 0);
}

}  // namespace
}  // namespace weir::platform
