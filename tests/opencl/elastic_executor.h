// SPDX-License-Identifier: Apache-2.0
// An executor whose memory is elastic, on PoCL, between a client that speaks the protocol by hand and a gate whose
// orders the test gives.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "platform/spawn.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"
#include "tests/opencl/raw_client.h"

namespace weir::testing {

class ElasticExecutor : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kDevice = 1, kContext = 2, kQueue = 3, kProgram = 4, kKernel = 5;
  static constexpr std::uint64_t kMiB = 1 << 20;
  static constexpr const char* kSource =
      "kernel void add(global const int* in, global int* out, int n) {\n"
      "  out[get_global_id(0)] = in[get_global_id(0)] + n; }\n"
      "kernel void more(global int* at) { at[get_global_id(0)] += 1; }\n"
      "kernel void slow(global volatile int* at) { for (int i = 0; i < 300000000; ++i) at[1] = i; at[0] += 1; }\n"
      "kernel void look(read_only image2d_t from, global float4* to) {\n"
      "  const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_FILTER_NEAREST;\n"
      "  to[get_global_id(0)] = read_imagef(from, s, (int2)(get_global_id(0), 0)); }\n";

  void TearDown() override {
    if (pid_ == 0) return;
    EXPECT_EQ(Stop(), 0);
  }

  /// Slots that are its own now and as long as it is not told otherwise, and that it may make.
  void Start(std::uint32_t here, std::uint32_t max = 8, const std::vector<std::string>& more = {}) {
    max_ = max;
    Open();
    Order(here);
    std::vector<std::string> argv{WEIR_EXECUTOR, "--socket", folder_ / "s",        "--cpus",
                                  "2",           "--attach", folder_ / "gate.sock"};
    argv.insert(argv.end(), more.begin(), more.end());
    const auto pid = platform::Spawn({.argv = argv});
    ASSERT_TRUE(pid) << pid.error().message;
    pid_ = *pid;
  }
  /// Its exit code, or minus the signal that ended it.
  int Stop() {
    ::kill(pid_, SIGTERM);
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  void Open() { gate_ = std::make_unique<GateHost>(folder_ / "gate.sock"); }
  void CloseGate() { gate_.reset(); }

  void Order(std::uint32_t here, std::uint32_t limit = 4, bool elastic = true) {
    gate_->With([&](gate::VgpuGate& gate) {
      gate.Publish({.memory_limit_slots = limit,
                    .memory_elastic = elastic,
                    .memory_here_slots = here,
                    .memory_max_slots = max_});
    });
  }
  bool Done() {
    const std::uint32_t order = gate_->With([](gate::VgpuGate& gate) { return gate.memory_order(); });
    return Books().order_done == order;
  }
  void AwaitDone() {
    ASSERT_TRUE(WaitUntil([this] { return Done(); })) << "the order was not carried out";
  }
  void OrderAndAwait(std::uint32_t here, std::uint32_t limit = 4) {
    Order(here, limit);
    AwaitDone();
  }
  proto::ExecutorStatistics Books() {
    return gate_->With([](gate::VgpuGate& gate) {
      return gate.processes().empty() ? proto::ExecutorStatistics{} : gate.processes().begin()->second->Memory();
    });
  }
  std::uint32_t InFlight() {
    return gate_->With([](gate::VgpuGate& gate) {
      return gate.processes().empty() ? 0U : gate.processes().begin()->second->InFlight();
    });
  }
  /// As they are once those of before have been replaced.
  proto::ExecutorStatistics FreshBooks() {
    ::usleep(250'000);
    return Books();
  }

  RawClient Connected() {
    for (int attempt = 0;; ++attempt) {
      auto connection = opencl::Connect(folder_ / "s", "elastic_test");
      if (connection) return RawClient(std::move(*connection));
      if (attempt == 500) {
        ADD_FAILURE() << connection.error().message;
        std::abort();
      }
      ::usleep(20'000);
    }
  }
  /// A context, a queue and the program, built.
  RawClient Prepared() {
    RawClient client = Connected();
    client.Send(proto::cl::CreateContext{.id = kContext, .devices = proto::cl::IdList(&kDevice, 1)});
    client.Send(proto::cl::CreateQueue{.id = kQueue, .context = kContext, .device = kDevice});
    client.Send(proto::cl::CreateProgram{
        .id = kProgram, .context = kContext, .source = proto::cl::Blob::Inline(proto::cl::BytesOf(kSource))});
    client.Send(proto::cl::Build{.request = 1, .program = kProgram});
    EXPECT_EQ(client.AnswerTo(1).status, CL_SUCCESS);
    return client;
  }

  static constexpr std::uint64_t kWriteOnly = CL_MEM_WRITE_ONLY, kReadOnly = CL_MEM_READ_ONLY;
  /// At the offset that its id says, in steps of 64 MiB: ids from 10.
  static std::uint64_t PlaceOf(std::uint32_t id) { return (id - 10) * 64 * kMiB; }
  void MakeBuffer(RawClient& client, std::uint32_t id, std::uint64_t bytes, std::uint64_t flags = CL_MEM_READ_WRITE,
                  bool filled = false) {
    client.Send(proto::cl::CreateBuffer{.id = id,
                                        .context = kContext,
                                        .flags = flags,
                                        .size = bytes,
                                        .offset = PlaceOf(id),
                                        .filled = static_cast<std::uint8_t>(filled ? 1 : 0)});
  }
  static std::uint32_t PatternOf(std::uint32_t id) { return 0x01010101U * (id + 1); }
  void Fill(RawClient& client, std::uint32_t id, std::uint64_t bytes, std::uint64_t offset = 0) {
    const std::uint32_t pattern = PatternOf(id);
    client.Send(proto::cl::FillBuffer{.enqueue = {.queue = kQueue},
                                      .buffer = id,
                                      .offset = offset,
                                      .size = bytes,
                                      .pattern = std::as_bytes(std::span(&pattern, 1))});
  }
  /// Reads to the end of the arena and says what there is at each int.
  std::vector<std::uint32_t> Read(RawClient& client, std::uint32_t id, std::uint64_t bytes, std::uint64_t offset = 0) {
    const std::uint64_t to = client.arena_bytes() - 64 * kMiB;
    std::memset(client.arena() + to, 0xEE, bytes);
    client.Send(
        proto::cl::ReadBuffer{.enqueue = {.queue = kQueue}, .buffer = id, .offset = offset, .size = bytes, .to = to});
    EXPECT_EQ(client.Finish(kQueue), CL_SUCCESS);
    std::vector<std::uint32_t> values(bytes / 4);
    std::memcpy(values.data(), client.arena() + to, bytes);
    return values;
  }
  bool Holds(RawClient& client, std::uint32_t id, std::uint64_t bytes, std::uint32_t value) {
    return std::ranges::all_of(Read(client, id, bytes), [value](std::uint32_t v) { return v == value; });
  }
  void SetArg(RawClient& client, std::uint32_t index, std::uint32_t object, std::uint32_t kernel = kKernel) {
    client.Send(proto::cl::SetArg{.kernel = kernel,
                                  .index = index,
                                  .kind = static_cast<std::uint8_t>(proto::cl::ArgKind::kObject),
                                  .object = object});
  }
  void MakeKernel(RawClient& client, const char* name, std::initializer_list<std::uint32_t> objects,
                  std::uint32_t kernel = kKernel) {
    client.Send(proto::cl::CreateKernel{.id = kernel, .program = kProgram, .name = name});
    std::uint32_t index = 0;
    for (const std::uint32_t object : objects) SetArg(client, index++, object, kernel);
  }
  void SetNumber(RawClient& client, std::uint32_t index, std::int32_t value, std::uint32_t kernel = kKernel) {
    client.Send(proto::cl::SetArg{.kernel = kernel,
                                  .index = index,
                                  .kind = static_cast<std::uint8_t>(proto::cl::ArgKind::kData),
                                  .data = std::as_bytes(std::span(&value, 1))});
  }
  void Launch(RawClient& client, std::uint64_t items, std::uint32_t event = 0, std::uint32_t kernel = kKernel) {
    client.Send(proto::cl::NdRange{
        .enqueue = {.queue = kQueue, .event = event}, .kernel = kernel, .dimensions = 1, .global = {items, 0, 0}});
  }

  TempFolder folder_;
  std::unique_ptr<GateHost> gate_;
  std::uint32_t max_ = 0;
  pid_t pid_ = 0;
};

}  // namespace weir::testing
