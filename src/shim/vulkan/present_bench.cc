// SPDX-License-Identifier: Apache-2.0
// The cost of one Vulkan present, and of one submit, through the layer and a driver that does nothing. The shim reads
// its environment once in a process, so that one process measures one variant: weir_vulkan_bench --variant=NAME.
// scripts/bench-present runs all variants side by side and checks the bounds.
#include <benchmark/benchmark.h>

#include <cstdlib>

#include "tests/harness/bench_variants.h"
#include "tests/harness/fake_vulkan.h"
#include "tests/harness/wait_until.h"

namespace weir {
namespace {

using testing::fake_vulkan;
using testing::GateHost;

struct Variant {
  const char* name;
  bool through_layer;
  const char* attach;  // nullptr: WEIR_ATTACH is not set; "": the host's socket
  bool submits = false;
};
constexpr Variant kVariants[] = {
    {"vulkan-bare", false, nullptr},                     // the fake driver alone
    {"vulkan-unmanaged", true, nullptr},                 // the layer without a vGPU
    {"vulkan-nobody-there", true, "/nonexistent/weir"},  // configured to attach, but no daemon answers
    {"vulkan-gated", true, ""},                          // an ample allowance, the cheapest meter
    {"vulkan-submit-bare", false, nullptr, true},        // the same for submits
    {"vulkan-submit-unmanaged", true, nullptr, true},
    {"vulkan-submit-gated", true, "", true},  // of a program that presents
};

/// What the calls go to: the layer or the driver.
struct Program {
  PFN_vkQueuePresentKHR present = &testing::fake::Present;
  PFN_vkQueueSubmit submit = &testing::fake::QueueSubmit;
  VkQueue queue = VK_NULL_HANDLE;
  VkSwapchainKHR swapchain = VK_NULL_HANDLE;

  void Present() const {
    VkPresentInfoKHR info{};
    info.swapchainCount = 1;
    info.pSwapchains = &swapchain;
    present(queue, &info);
  }
};

Program Make(const Variant& variant) {
  static testing::VulkanChain chain(WEIR_VULKAN_LAYER);
  fake_vulkan.counts_only = true;
  const VkInstance instance = chain.MakeInstance();
  const VkDevice device = chain.MakeDevice(instance);
  Program program;
  chain.Get<PFN_vkGetDeviceQueue>(device, "vkGetDeviceQueue")(device, 0, 0, &program.queue);
  VkSwapchainCreateInfoKHR info{};
  info.surface = (VkSurfaceKHR)1;  // NOLINT: a pointer or a number
  chain.Get<PFN_vkCreateSwapchainKHR>(device, "vkCreateSwapchainKHR")(device, &info, nullptr, &program.swapchain);
  if (!variant.through_layer) return program;
  program.present = chain.Get<PFN_vkQueuePresentKHR>(device, "vkQueuePresentKHR");
  program.submit = chain.Get<PFN_vkQueueSubmit>(device, "vkQueueSubmit");
  return program;
}

void Measure(benchmark::State& state, const Variant& variant, GateHost* host) {
  constexpr int kBatch = 512;  // half a ring: no record is dropped
  const Program program = Make(variant);
  const auto attached = [&] {
    program.Present();
    return host == nullptr || !host->Drain().frames.empty();
  };
  if (!testing::WaitUntil(attached)) return state.SkipWithError("can't attach");
  // A submit of semaphores alone would be free: one command buffer, which the driver does not look at.
  const VkCommandBuffer buffer = testing::fake::MakeHandle<VkCommandBuffer>(nullptr, 0);
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &buffer;
  const int before = fake_vulkan.presents;
  std::size_t frames = 0;
  int presents = 0;
  while (state.KeepRunningBatch(kBatch)) {
    if (variant.submits)
      for (int i = 0; i < kBatch; ++i) program.submit(program.queue, 1, &info, VK_NULL_HANDLE);
    else
      for (int i = 0; i < kBatch; ++i) program.Present();
    state.PauseTiming();                                 // the daemon's work is not measured
    if (variant.submits) program.Present(), ++presents;  // it is a program that presents
    if (host != nullptr) frames += host->Drain().frames.size();
    fake_vulkan.submitted_to.clear();
    state.ResumeTiming();
  }
  if (!variant.submits) presents = static_cast<int>(state.iterations());
  if (fake_vulkan.presents - before != presents) state.SkipWithError("a present didn't arrive");
  if (host != nullptr && frames != static_cast<std::size_t>(presents))
    state.SkipWithError("a present passed without the gate, or a submit with it");
}

int Run(const Variant& variant, int argc, char** argv) {
  const testing::BenchGate gate(variant.attach);
  ::setenv("WEIR_METER", "wall-clock", 1);
  return testing::RunBenchmark(variant.name, argc, argv,
                               [&](benchmark::State& state) { Measure(state, variant, gate.host()); });
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) { return weir::testing::ChooseVariant(weir::kVariants, argc, argv, &weir::Run); }
