// SPDX-License-Identifier: Apache-2.0
// The exports of libweir-shim.so, one for each library that opens it, and its handling of fork. Whichever APIs a
// process uses, it has one ProcessShim.
#include <pthread.h>

#include <atomic>
#include <cstdlib>

#include "shim/common/process_shim.h"
#include "shim/cuda/cuda_shim.h"
#include "shim/gl/gl_shim.h"
#include "shim/vulkan/vulkan_shim.h"

namespace {

using weir::shim::CudaShim;
using weir::shim::GlShim;
using weir::shim::ProcessShim;
using weir::shim::VulkanShim;

struct Shims {
  ProcessShim process;
  GlShim gl{process};
  VulkanShim vulkan{process};
  CudaShim cuda{process};
};

std::atomic<Shims*> shims_instance{nullptr};

Shims* MakeShims(weir::proto::Api first) noexcept {
  try {
    const char* attach = ::secure_getenv("WEIR_ATTACH");
    const char* meter = ::secure_getenv("WEIR_METER");
    return new Shims{ProcessShim(attach != nullptr ? attach : "", meter != nullptr ? meter : "auto", first)};
  } catch (...) {
    return nullptr;
  }
}

// A forked child must use neither its parent's region nor its parent's locks. The child creates a new shim, which
// attaches by itself. The inherited object is abandoned: its memory is a copy, and the state of its locks is unknown.
void InChild() {
  if (Shims* inherited = shims_instance.exchange(nullptr, std::memory_order_relaxed))
    inherited->process.AbandonInChild();
}

// Never destroyed: the program's threads may present until the process ends.
Shims* Get(weir::proto::Api first) noexcept {
  Shims* shims = shims_instance.load(std::memory_order_acquire);
  if (shims != nullptr) return shims;
  Shims* made = MakeShims(first);
  if (made == nullptr) return nullptr;
  if (shims_instance.compare_exchange_strong(shims, made, std::memory_order_acq_rel)) return made;
  delete made;
  return shims;
}
GlShim* Gl() noexcept {
  Shims* shims = Get(weir::proto::Api::kGl);
  return shims != nullptr ? &shims->gl : nullptr;
}
VulkanShim* Vulkan() noexcept {
  Shims* shims = Get(weir::proto::Api::kVulkan);
  return shims != nullptr ? &shims->vulkan : nullptr;
}
CudaShim* Cuda() noexcept {
  Shims* shims = Get(weir::proto::Api::kCuda);
  return shims != nullptr ? &shims->cuda : nullptr;
}
bool CatchForks() {
  static const int kRegistered = ::pthread_atfork(nullptr, nullptr, &InChild);
  return kRegistered == 0;
}

void BeforePresent(weir_gl_present* present, unsigned long long surface, weir_gl_place place) {
  *present = {};
  if (GlShim* gl = Gl()) gl->BeforePresent(*present, surface, place);
}
void AfterPresent(weir_gl_present* present) {
  if (GlShim* gl = Gl()) gl->AfterPresent(*present);
}
void BeforeBatchCall(weir_gl_present* present, weir_gl_call call, weir_gl_place place) {
  *present = {};
  if (GlShim* gl = Gl()) gl->BeforeBatchCall(*present, call, place);
}
void AfterBatchCall(weir_gl_present* present) {
  if (GlShim* gl = Gl()) gl->AfterBatchCall(*present);
}

void BeforeVulkanPresent(weir_shim_pass* pass, unsigned long long window, const weir_vulkan_device* device) {
  *pass = {};
  if (VulkanShim* vulkan = Vulkan()) vulkan->BeforePresent(*pass, window, *device);
}
void AfterVulkanPresent(weir_shim_pass* pass) {
  if (VulkanShim* vulkan = Vulkan()) vulkan->AfterPresent(*pass);
}
void BeforeVulkanWork(weir_shim_pass* pass, weir_vulkan_work work, const weir_vulkan_device* device) {
  *pass = {};
  if (VulkanShim* vulkan = Vulkan()) vulkan->BeforeWork(*pass, work, *device);
}
void AfterVulkanWork(weir_shim_pass* pass) {
  if (VulkanShim* vulkan = Vulkan()) vulkan->AfterWork(*pass);
}
unsigned long long BeforeVulkanImage(unsigned long long window, int ahead, unsigned long long most_ns) {
  VulkanShim* vulkan = Vulkan();
  return vulkan != nullptr ? vulkan->BeforeImage(window, ahead, most_ns) : 0;
}
void ForgetVulkanWindow(unsigned long long window) {
  if (VulkanShim* vulkan = Vulkan()) vulkan->ForgetWindow(window);
}
void ReportVulkanTime(unsigned made, unsigned known, long long gpu_ns) {
  if (VulkanShim* vulkan = Vulkan()) vulkan->ReportTime(made, known, gpu_ns);
}
weir_vulkan_need VulkanNeed() {
  VulkanShim* vulkan = Vulkan();
  return vulkan != nullptr ? vulkan->Need() : WEIR_VULKAN_NEEDS_NOTHING;
}
void UseVulkanDevices(unsigned devices) {
  if (VulkanShim* vulkan = Vulkan()) vulkan->UseDevices(devices);
}

int BeforeCudaWork(weir_shim_pass* pass, const weir_cuda_stream* stream) {
  *pass = {};
  CudaShim* cuda = Cuda();
  return cuda != nullptr && cuda->BeforeWork(*pass, *stream) ? 1 : 0;
}
void AfterCudaWork(weir_shim_pass* pass) {
  if (CudaShim* cuda = Cuda()) cuda->AfterWork(*pass);
}
void ReportCudaTime(unsigned made, unsigned known, long long gpu_ns) {
  if (CudaShim* cuda = Cuda()) cuda->ReportTime(made, known, gpu_ns);
}
int CudaCharges() {
  CudaShim* cuda = Cuda();
  return cuda != nullptr && cuda->Charges() ? 1 : 0;
}
void SettleCuda() {
  if (CudaShim* cuda = Cuda()) cuda->Settle();
}
void UseCudaDevices(unsigned devices) {
  if (CudaShim* cuda = Cuda()) cuda->UseDevices(devices);
}

// Memory is the process's, whichever API allocates it. `kFirst`: the API of a process that has used none before.
template <weir::proto::Api kFirst>
int ClaimMemory(unsigned long long bytes) {
  Shims* shims = Get(kFirst);
  return shims == nullptr || shims->process.ClaimMemory(bytes) ? 1 : 0;
}
template <weir::proto::Api kFirst>
void ReleaseMemory(unsigned long long bytes) {
  if (Shims* shims = Get(kFirst)) shims->process.ReleaseMemory(bytes);
}
template <weir::proto::Api kFirst>
void UsedMemory(weir_shim_memory* use) {
  *use = {};
  Shims* shims = Get(kFirst);
  if (shims == nullptr) return;
  const weir::gate::MemoryUse used = shims->process.UsedMemory();
  *use = {used.limit, used.held};
}

}  // namespace

#define WEIR_SHIM_EXPORT extern "C" __attribute__((visibility("default")))

WEIR_SHIM_EXPORT const weir_gl_hooks* weir_gl_shim_hooks(void) {
  static const weir_gl_hooks kHooks = {WEIR_GL_HOOKS_VERSION, &BeforePresent, &AfterPresent, &BeforeBatchCall,
                                       &AfterBatchCall};
  return CatchForks() ? &kHooks : nullptr;
}

WEIR_SHIM_EXPORT const weir_vulkan_hooks* weir_vulkan_shim_hooks(void) {
  constexpr auto kVulkan = weir::proto::Api::kVulkan;
  static const weir_vulkan_hooks kHooks = {
      WEIR_VULKAN_HOOKS_VERSION, &BeforeVulkanPresent,    &AfterVulkanPresent, &BeforeVulkanWork, &AfterVulkanWork,
      &BeforeVulkanImage,        &ForgetVulkanWindow,     &ReportVulkanTime,   &VulkanNeed,       &UseVulkanDevices,
      &ClaimMemory<kVulkan>,     &ReleaseMemory<kVulkan>, &UsedMemory<kVulkan>};
  return CatchForks() ? &kHooks : nullptr;
}

WEIR_SHIM_EXPORT const weir_cuda_hooks* weir_cuda_shim_hooks(void) {
  constexpr auto kCuda = weir::proto::Api::kCuda;
  static const weir_cuda_hooks kHooks = {
      WEIR_CUDA_HOOKS_VERSION, &BeforeCudaWork,     &AfterCudaWork,        &ReportCudaTime,   &CudaCharges, &SettleCuda,
      &UseCudaDevices,         &ClaimMemory<kCuda>, &ReleaseMemory<kCuda>, &UsedMemory<kCuda>};
  return CatchForks() ? &kHooks : nullptr;
}
