// SPDX-License-Identifier: Apache-2.0
// The cost of following a connection: each message of a client passes through the log.
#include <benchmark/benchmark.h>

#include "opencl/log/object_log.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

/// A context, a queue and a kernel with four buffers, as a log sees them.
struct FollowedKernel {
  FollowedKernel() {
    wire::PlatformFacts facts;
    facts.devices.push_back({.id = 1, .shares_arena = 0, .facts = {}});
    wire::FieldWriter counter;
    wire::PlatformFacts::Fields(facts, counter);
    std::vector<std::byte> body(counter.size());
    wire::FieldWriter writer(body);
    wire::PlatformFacts::Fields(facts, writer);
    log.FromExecutor(wire::Encode(wire::Reply{.part = body}));
    const std::uint32_t device = 1;
    log.FromClient(wire::Encode(wire::CreateContext{.id = 2, .devices = wire::IdList(&device, 1)}));
    log.FromClient(wire::Encode(wire::CreateQueue{.id = 3, .context = 2, .device = 1}));
    log.FromClient(wire::Encode(wire::CreateProgram{.id = 4, .context = 2}));
    log.FromClient(wire::Encode(wire::CreateKernel{.id = 5, .program = 4, .name = "k"}));
    for (std::uint32_t i = 0; i < 4; ++i) {
      log.FromClient(wire::Encode(wire::CreateBuffer{.id = 6 + i, .context = 2, .size = 4096, .offset = 4096 * i}));
      log.FromClient(wire::Encode(wire::SetArg{.kernel = 5, .index = i, .kind = 1, .object = 6 + i}));
    }
  }
  ObjectLog log{[](std::uint64_t, std::uint64_t) { return wire::ByteView(); }};
};

std::vector<std::byte> LaunchOf(std::uint32_t event) {
  return wire::Encode(
      wire::NdRange{.enqueue = {.queue = 3, .event = event}, .kernel = 5, .dimensions = 1, .global = {1024, 1, 1}});
}

void BM_FollowLaunch(benchmark::State& state) {
  FollowedKernel followed;
  const auto launch = LaunchOf(0);
  for (auto _ : state) benchmark::DoNotOptimize(followed.log.FromClient(launch));
}
BENCHMARK(BM_FollowLaunch);

void BM_FollowLaunchWithEventAndRelease(benchmark::State& state) {
  FollowedKernel followed;
  const auto launch = LaunchOf(20), release = wire::Encode(wire::Release{.id = 20});
  for (auto _ : state) {
    benchmark::DoNotOptimize(followed.log.FromClient(launch));
    benchmark::DoNotOptimize(followed.log.FromClient(release));
  }
}
BENCHMARK(BM_FollowLaunchWithEventAndRelease);

/// Two arguments before each launch; one of them is another buffer.
void BM_FollowLaunchAndTwoArgs(benchmark::State& state) {
  FollowedKernel followed;
  const int value = 7;
  const auto launch = LaunchOf(0), object = wire::Encode(wire::SetArg{.kernel = 5, .kind = 1, .object = 7}),
             number = wire::Encode(wire::SetArg{.kernel = 5, .index = 4, .data = std::as_bytes(std::span(&value, 1))});
  for (auto _ : state) {
    benchmark::DoNotOptimize(followed.log.FromClient(object));
    benchmark::DoNotOptimize(followed.log.FromClient(number));
    benchmark::DoNotOptimize(followed.log.FromClient(launch));
  }
}
BENCHMARK(BM_FollowLaunchAndTwoArgs);

/// By the number of buffers.
void BM_ReplayOf(benchmark::State& state) {
  FollowedKernel followed;
  for (std::uint32_t i = 0; i < state.range(0); ++i)
    followed.log.FromClient(wire::Encode(wire::CreateBuffer{.id = 100 + i, .context = 2, .size = 4096}));
  const ObjectLog::Place none = [](wire::ByteView) { return std::optional<wire::Blob>(); };
  for (auto _ : state) benchmark::DoNotOptimize(followed.log.MakeReplay(none));
}
BENCHMARK(BM_ReplayOf)->Arg(10)->Arg(1000);

}  // namespace
}  // namespace weir::opencl
