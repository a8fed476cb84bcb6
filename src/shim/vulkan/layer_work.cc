// SPDX-License-Identifier: Apache-2.0
// Queues, submits and waits. The layer itself never waits for work of the program (docs/vulkan.md, law 1).
#include <algorithm>

#include "shim/vulkan/layer.h"
#include "shim/vulkan/layer_timer.h"

namespace weir::shim {

WorkPass::WorkPass(Device& device, weir_vulkan_work work, bool is_work) : hooks_(is_work ? Hooks() : nullptr) {
  if (hooks_ == nullptr) return;
  const InShim in_shim;
  hooks_->before_work(&pass_, work, &device.place);
}

WorkPass::~WorkPass() {
  if (hooks_ == nullptr) return;
  const InShim in_shim;
  hooks_->after_work(&pass_);
}

Queue* QueueOf(Device& device, VkQueue queue) {
  const std::size_t count = device.queue_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i)
    if (device.queues[i].handle == queue) return &device.queues[i];
  return nullptr;
}

namespace {

void NoteQueue(Device& device, VkQueue queue, std::uint32_t family) {
  if (queue == VK_NULL_HANDLE) return;
  const std::lock_guard lock(device.mutex);
  const std::size_t count = device.queue_count.load(std::memory_order_relaxed);
  if (QueueOf(device, queue) != nullptr || count == Device::kQueues) return;
  device.queues[count].handle = queue;
  device.queues[count].family = family;
  device.queue_count.store(count + 1, std::memory_order_release);
}

VKAPI_ATTR void VKAPI_CALL GetDeviceQueue(VkDevice handle, std::uint32_t family, std::uint32_t index, VkQueue* queue) {
  Device& device = DeviceOf(handle);
  device.next.GetDeviceQueue(handle, family, index, queue);
  NoteQueue(device, *queue, family);
}

VKAPI_ATTR void VKAPI_CALL GetDeviceQueue2(VkDevice handle, const VkDeviceQueueInfo2* info, VkQueue* queue) {
  Device& device = DeviceOf(handle);
  device.next.GetDeviceQueue2(handle, info, queue);
  NoteQueue(device, *queue, info->queueFamilyIndex);
}

/// The two forms of a submit: vkQueueSubmit and vkQueueSubmit2.
struct Form1 {
  using Info = VkSubmitInfo;
  using Buffer = VkCommandBuffer;
  static std::uint32_t Count(const Info& info) { return info.commandBufferCount; }
  static const Buffer* Buffers(const Info& info) { return info.pCommandBuffers; }
  static void Set(Info& info, const Buffer* buffers, std::uint32_t count) {
    info.pCommandBuffers = buffers;
    info.commandBufferCount = count;
  }
  static Buffer Ours(VkCommandBuffer buffer) { return buffer; }
  static bool Waits(const Info& info) { return info.waitSemaphoreCount != 0; }
  static void NoteSignals(Signals& signals, const Info& info) {
    if (info.signalSemaphoreCount != 0) signals.Note(info.pNext, info.signalSemaphoreCount, info.pSignalSemaphores);
  }
  static bool Special(const Info&) { return false; }
};
struct Form2 {
  using Info = VkSubmitInfo2;
  using Buffer = VkCommandBufferSubmitInfo;
  static std::uint32_t Count(const Info& info) { return info.commandBufferInfoCount; }
  static const Buffer* Buffers(const Info& info) { return info.pCommandBufferInfos; }
  static void Set(Info& info, const Buffer* buffers, std::uint32_t count) {
    info.pCommandBufferInfos = buffers;
    info.commandBufferInfoCount = count;
  }
  static Buffer Ours(VkCommandBuffer buffer) {
    Buffer ours{};
    ours.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO;
    ours.commandBuffer = buffer;
    return ours;
  }
  static bool Waits(const Info& info) { return info.waitSemaphoreInfoCount != 0; }
  static void NoteSignals(Signals& signals, const Info& info) {
    for (std::uint32_t i = 0; i < info.signalSemaphoreInfoCount; ++i)
      signals.Note(info.pSignalSemaphoreInfos[i].semaphore, info.pSignalSemaphoreInfos[i].value);
  }
  static bool Special(const Info& info) { return (info.flags & VK_SUBMIT_PROTECTED_BIT) != 0; }
};

/// Whether chained structures describe each command buffer, or forbid those of the layer.
bool IsSpecial(const void* chain) {
  for (auto* at = static_cast<const VkBaseInStructure*>(chain); at != nullptr; at = at->pNext)
    if (at->sType == VK_STRUCTURE_TYPE_DEVICE_GROUP_SUBMIT_INFO || at->sType == VK_STRUCTURE_TYPE_PROTECTED_SUBMIT_INFO)
      return true;
  return false;
}

template <typename Form>
bool HasWork(std::uint32_t count, const typename Form::Info* infos) {
  return std::any_of(infos, infos + count, [](const auto& info) { return Form::Count(info) != 0; });
}

/// The queue's timer; null: the submit is not measured.
QueueTimer* TimerFor(Device& device, VkQueue handle) {
  const weir_vulkan_hooks* hooks = Hooks();
  if (hooks == nullptr || hooks->need() != WEIR_VULKAN_NEEDS_TIME) return nullptr;
  Queue* queue = QueueOf(device, handle);
  if (queue == nullptr || queue->untimed) return nullptr;
  QueueTimer* timer = queue->timer.load(std::memory_order_relaxed);
  if (timer == nullptr) {
    timer = QueueTimer::Make(device, *queue);
    queue->untimed = timer == nullptr;
    queue->timer.store(timer, std::memory_order_release);
  }
  return timer;
}

template <typename Form>
using Timed = TimedSubmit<typename Form::Info, typename Form::Buffer>;

/// Copies the submit and puts the timer's command buffers around its spans. A part that waits for semaphores begins a
/// span, if there is a pair for it, because the device may be idle meanwhile. So does the next part with work after one
/// that only waits.
template <typename Form>
void Fill(QueueTimer& timer, std::uint32_t count, Timed<Form>& timed) {
  typename Form::Info* last = nullptr;  // the last part with work
  typename Form::Buffer* at = timed.buffers.get();
  QueueTimer::Pair open, next;
  bool waits = false;
  const auto close = [&] {
    *at++ = Form::Ours(open.end);
    Form::Set(*last, Form::Buffers(*last), Form::Count(*last) + 1);
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    typename Form::Info& info = timed.infos[i];
    waits = waits || Form::Waits(info);
    if (Form::Count(info) == 0) continue;
    const bool opens = (last == nullptr || waits) && timer.Take(next);
    if (last == nullptr && !opens) return;
    if (opens && last != nullptr) close();
    typename Form::Buffer* const first = at;
    if (opens) *at++ = Form::Ours(next.begin);
    at = std::copy_n(Form::Buffers(info), Form::Count(info), at);
    Form::Set(info, first, static_cast<std::uint32_t>(at - first));
    if (opens) open = next, ++timed.spans;
    last = &info;
    waits = false;
  }
  close();
}

/// Measures the submit, if it can be. Otherwise the submit is passed on unchanged.
template <typename Form>
void PutAround(QueueTimer& timer, std::uint32_t count, const typename Form::Info* infos, Timed<Form>& timed) {
  std::size_t buffers = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (IsSpecial(infos[i].pNext) || Form::Special(infos[i])) return;
    if (Form::Count(infos[i]) != 0) buffers += std::size_t{Form::Count(infos[i])} + 2;
  }
  timed.infos.reset(new (std::nothrow) typename Form::Info[count]);
  timed.buffers.reset(new (std::nothrow) typename Form::Buffer[buffers]);
  if (timed.infos == nullptr || timed.buffers == nullptr) return;
  std::copy_n(infos, count, timed.infos.get());
  Fill<Form>(timer, count, timed);
  timed.full = timed.spans == 0;
}

template <typename Form, typename Next>
VkResult Submit(VkQueue queue, std::uint32_t count, const typename Form::Info* infos, VkFence fence,
                Next DeviceFunctions::*next) {
  Device& device = DeviceOf(queue);
  const weir_vulkan_hooks* hooks = Hooks();
  if (hooks == nullptr) return (device.next.*next)(queue, count, infos, fence);
  const bool has_work = HasWork<Form>(count, infos);
  const WorkPass pass(device, WEIR_VULKAN_SUBMITS, has_work);
  for (std::uint32_t i = 0; i < count; ++i) Form::NoteSignals(device.signals, infos[i]);
  if (!has_work) return (device.next.*next)(queue, count, infos, fence);
  device.submitted.store(true, std::memory_order_relaxed);
  QueueTimer* timer = TimerFor(device, queue);
  if (timer == nullptr) return (device.next.*next)(queue, count, infos, fence);
  timer->Read();
  Timed<Form> timed;
  PutAround<Form>(*timer, count, infos, timed);
  const VkResult result = (device.next.*next)(queue, count, timed.spans > 0 ? timed.infos.get() : infos, fence);
  if (result != VK_SUCCESS) {
    timer->GiveBack(timed.spans);
  } else if (timed.full) {
    timer->NoteUnmeasured();
  } else if (timed.spans > 0) {
    hooks->report_time(timed.spans, 0, 0);
  }
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL QueueSubmit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* infos,
                                           VkFence fence) {
  return Submit<Form1>(queue, count, infos, fence, &DeviceFunctions::QueueSubmit);
}
VKAPI_ATTR VkResult VKAPI_CALL QueueSubmit2(VkQueue queue, std::uint32_t count, const VkSubmitInfo2* infos,
                                            VkFence fence) {
  return Submit<Form2>(queue, count, infos, fence, &DeviceFunctions::QueueSubmit2);
}
VKAPI_ATTR VkResult VKAPI_CALL QueueSubmit2KHR(VkQueue queue, std::uint32_t count, const VkSubmitInfo2* infos,
                                               VkFence fence) {
  return Submit<Form2>(queue, count, infos, fence, &DeviceFunctions::QueueSubmit2KHR);
}

VKAPI_ATTR VkResult VKAPI_CALL QueueBindSparse(VkQueue queue, std::uint32_t count, const VkBindSparseInfo* infos,
                                               VkFence fence) {
  Device& device = DeviceOf(queue);
  const bool binds = std::any_of(infos, infos + count, [](const VkBindSparseInfo& info) {
    return info.bufferBindCount + info.imageOpaqueBindCount + info.imageBindCount != 0;
  });
  const WorkPass pass(device, WEIR_VULKAN_SUBMITS, binds);
  for (std::uint32_t i = 0; i < count; ++i)
    device.signals.Note(infos[i].pNext, infos[i].signalSemaphoreCount, infos[i].pSignalSemaphores);
  return device.next.QueueBindSparse(queue, count, infos, fence);
}

/// Passes the gate around a wait for work that was submitted, if some was since the last wait. Any other wait may
/// concern anything and never end, so the gate is passed only after it, if another thread's submit has ended it. A wait
/// that the meter measures is left to a thread that waits for its own work then.
template <typename Call>
VkResult Wait(Device& device, bool waits, bool of_submits, Call call) {
  const weir_vulkan_hooks* hooks = waits ? Hooks() : nullptr;
  if (hooks == nullptr) return call();
  const weir_vulkan_need need = hooks->need();
  const auto take_submitted = [&] { return device.submitted.exchange(false, std::memory_order_relaxed); };
  if (of_submits && take_submitted()) {
    const WorkPass pass(device, WEIR_VULKAN_WAITS, true);
    const VkResult result = call();
    if (result == VK_TIMEOUT) device.submitted.store(true, std::memory_order_relaxed);
    if (need == WEIR_VULKAN_NEEDS_TIME) ReadTimers(device);
    return result;
  }
  const VkResult result = call();
  if (need == WEIR_VULKAN_NEEDS_TIME) ReadTimers(device);
  if (!of_submits && result == VK_SUCCESS && need != WEIR_VULKAN_NEEDS_WAITS && take_submitted())
    const WorkPass pass(device, WEIR_VULKAN_WAITS, true);
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL QueueWaitIdle(VkQueue queue) {
  Device& device = DeviceOf(queue);
  return Wait(device, true, true, [&] { return device.next.QueueWaitIdle(queue); });
}
VKAPI_ATTR VkResult VKAPI_CALL DeviceWaitIdle(VkDevice handle) {
  Device& device = DeviceOf(handle);
  return Wait(device, true, true, [&] { return device.next.DeviceWaitIdle(handle); });
}
VKAPI_ATTR VkResult VKAPI_CALL WaitForFences(VkDevice handle, std::uint32_t count, const VkFence* fences, VkBool32 all,
                                             std::uint64_t timeout) {
  Device& device = DeviceOf(handle);
  return Wait(device, timeout != 0, true,
              [&] { return device.next.WaitForFences(handle, count, fences, all, timeout); });
}
VKAPI_ATTR VkResult VKAPI_CALL WaitSemaphores(VkDevice handle, const VkSemaphoreWaitInfo* info, std::uint64_t timeout) {
  Device& device = DeviceOf(handle);
  return Wait(device, timeout != 0, timeout != 0 && device.signals.Signal(*info),
              [&] { return device.next.WaitSemaphores(handle, info, timeout); });
}
VKAPI_ATTR VkResult VKAPI_CALL WaitSemaphoresKHR(VkDevice handle, const VkSemaphoreWaitInfo* info,
                                                 std::uint64_t timeout) {
  Device& device = DeviceOf(handle);
  return Wait(device, timeout != 0, timeout != 0 && device.signals.Signal(*info),
              [&] { return device.next.WaitSemaphoresKHR(handle, info, timeout); });
}

VKAPI_ATTR void VKAPI_CALL DestroySemaphore(VkDevice handle, VkSemaphore semaphore,
                                            const VkAllocationCallbacks* allocator) {
  Device& device = DeviceOf(handle);
  device.signals.Forget(semaphore);
  device.next.DestroySemaphore(handle, semaphore, allocator);
}

}  // namespace

const PFN_vkGetDeviceQueue kOurGetDeviceQueue = &GetDeviceQueue;
const PFN_vkGetDeviceQueue2 kOurGetDeviceQueue2 = &GetDeviceQueue2;
const PFN_vkQueueSubmit kOurQueueSubmit = &QueueSubmit;
const PFN_vkQueueSubmit2 kOurQueueSubmit2 = &QueueSubmit2;
const PFN_vkQueueSubmit2KHR kOurQueueSubmit2KHR = &QueueSubmit2KHR;
const PFN_vkQueueBindSparse kOurQueueBindSparse = &QueueBindSparse;
const PFN_vkQueueWaitIdle kOurQueueWaitIdle = &QueueWaitIdle;
const PFN_vkDeviceWaitIdle kOurDeviceWaitIdle = &DeviceWaitIdle;
const PFN_vkWaitForFences kOurWaitForFences = &WaitForFences;
const PFN_vkWaitSemaphores kOurWaitSemaphores = &WaitSemaphores;
const PFN_vkDestroySemaphore kOurDestroySemaphore = &DestroySemaphore;
const PFN_vkWaitSemaphoresKHR kOurWaitSemaphoresKHR = &WaitSemaphoresKHR;

}  // namespace weir::shim
