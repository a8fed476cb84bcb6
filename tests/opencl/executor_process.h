// SPDX-License-Identifier: Apache-2.0
// An executor process on PoCL, and the objects that most tests of it need.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "platform/spawn.h"
#include "tests/opencl/raw_client.h"

namespace weir::testing {

namespace raw {
inline constexpr std::uint32_t kDevice = 1, kContext = 2, kQueue = 3, kProgram = 4, kKernel = 5, kIn = 6, kOut = 7;
inline constexpr std::uint64_t kBytes = 1 << 20;
inline constexpr const char* kSource =
    "kernel void twice(global const int* in, global int* out) { out[get_global_id(0)] = 2 * in[get_global_id(0)]; }\n"
    "kernel void endless(global volatile int* out) { while (out[0] != 42) out[1] += 1; }\n"
    "kernel void slow(global volatile int* out) { for (int i = 0; i < 400000000; ++i) out[1] = i; }\n"
    "kernel void crash(global int* out) { *(global int*)(1) = out[0]; }\n";
}  // namespace raw

class ExecutorProcess : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }
  void TearDown() override { EXPECT_EQ(Stop(), 0); }

  void Start(std::vector<std::string> more) {
    folder_ = (std::filesystem::temp_directory_path() / "weir-executor-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    std::vector<std::string> argv{WEIR_EXECUTOR, "--socket", folder_ + "/s", "--cpus", "2"};
    argv.insert(argv.end(), more.begin(), more.end());
    const auto pid = platform::Spawn({.argv = argv});
    ASSERT_TRUE(pid) << pid.error().message;
    pid_ = *pid;
  }
  /// Its exit code, or minus the signal that ended it.
  int Stop() {
    if (pid_ == 0) return 0;
    ::kill(pid_, SIGTERM);
    return Await();
  }
  int Await() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    std::filesystem::remove_all(folder_);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

  RawClient Connected(bool remote = false) {
    for (int attempt = 0;; ++attempt) {
      auto connection = opencl::Connect(folder_ + "/s", "executor_test", remote);
      if (connection) return RawClient(std::move(*connection));
      if (attempt == 500) {
        ADD_FAILURE() << connection.error().message;
        std::abort();
      }
      ::usleep(20'000);
    }
  }
  /// A context, a queue and the program, built.
  void Prepare(RawClient& client) {
    client.Send(proto::cl::CreateContext{.id = raw::kContext, .devices = proto::cl::IdList(&raw::kDevice, 1)});
    client.Send(proto::cl::CreateQueue{.id = raw::kQueue, .context = raw::kContext, .device = raw::kDevice});
    client.Send(proto::cl::CreateProgram{.id = raw::kProgram,
                                         .context = raw::kContext,
                                         .source = proto::cl::Blob::Inline(proto::cl::BytesOf(raw::kSource))});
    client.Send(proto::cl::Build{.request = 1, .program = raw::kProgram});
    ASSERT_EQ(client.AnswerTo(1).status, CL_SUCCESS);
  }
  void MakeBuffer(RawClient& client, std::uint32_t id, std::uint64_t offset, std::uint64_t bytes = raw::kBytes) {
    client.Send(proto::cl::CreateBuffer{
        .id = id, .context = raw::kContext, .flags = CL_MEM_READ_WRITE, .size = bytes, .offset = offset});
  }
  void Launch(RawClient& client, const char* name, std::initializer_list<std::uint32_t> buffers, std::uint64_t items,
              std::uint32_t event = 0) {
    LaunchIn(raw::kQueue, raw::kKernel, client, name, buffers, items, event);
  }
  void LaunchIn(std::uint32_t queue, std::uint32_t kernel, RawClient& client, const char* name,
                std::initializer_list<std::uint32_t> buffers, std::uint64_t items, std::uint32_t event = 0) {
    client.Send(proto::cl::CreateKernel{.id = kernel, .program = raw::kProgram, .name = name});
    std::uint32_t index = 0;
    for (const std::uint32_t buffer : buffers)
      client.Send(proto::cl::SetArg{.kernel = kernel,
                                    .index = index++,
                                    .kind = static_cast<std::uint8_t>(proto::cl::ArgKind::kObject),
                                    .object = buffer});
    client.Send(proto::cl::NdRange{
        .enqueue = {.queue = queue, .event = event}, .kernel = kernel, .dimensions = 1, .global = {items, 0, 0}});
  }

  pid_t pid_ = 0;
  std::string folder_;
};

}  // namespace weir::testing
