// SPDX-License-Identifier: Apache-2.0
// Functions of the API: contexts and each thread's stack of them.
#include "emulator/cuda/driver.h"

using namespace weir::emulator::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

namespace {

/// Runs the body with the lock and the card of a device.
template <typename Body>
Result CallOnCard(Device device, Body body) {
  return Call([&](Driver& driver) {
    if (device < 0 || static_cast<std::size_t>(device) >= driver.cards.size()) return kInvalidDevice;
    auto lock = driver.Lock();
    return body(driver, lock, static_cast<std::uint32_t>(device));
  });
}

/// Requires the lock, and unlocks while it waits.
Result Destroy(Driver& driver, std::unique_lock<std::mutex>& lock, Handle handle) {
  const std::shared_ptr<Context> context = driver.contexts.Find(handle);
  if (context == nullptr || context->primary || context->parent != nullptr) return kInvalidContext;
  ContextStack& stack = ThreadContexts();
  if (stack.depth > 0 && stack.contexts[stack.depth - 1] == handle) --stack.depth;
  driver.DestroyContext(lock, context);
  return kSuccess;
}

Result Push(Handle context) {
  ContextStack& stack = ThreadContexts();
  if (stack.depth == ContextStack::kMost) return kOutOfMemory;
  stack.contexts[stack.depth++] = context;
  return kSuccess;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's
WEIR_EXPORT Result cuDevicePrimaryCtxRetain(Handle* context, Device device) {
  return CallOnCard(device, [&](Driver& driver, auto&, std::uint32_t number) {
    if (context == nullptr) return kInvalidValue;
    std::shared_ptr<Context> primary;
    const Result result = driver.RetainPrimary(number, primary);
    if (result == kSuccess) *context = primary.get();
    return result;
  });
}

WEIR_EXPORT Result cuDevicePrimaryCtxRelease_v2(Device device) {
  return CallOnCard(
      device, [&](Driver& driver, auto& lock, std::uint32_t number) { return driver.ReleasePrimary(lock, number); });
}

WEIR_EXPORT Result cuDevicePrimaryCtxReset_v2(Device device) {
  return CallOnCard(device, [&](Driver& driver, auto& lock, std::uint32_t number) {
    const std::shared_ptr<Context> context = driver.cards[number].primary;
    return context == nullptr ? kSuccess : driver.ResetContext(lock, context);
  });
}

WEIR_EXPORT Result cuDevicePrimaryCtxGetState(Device device, unsigned* flags, int* active) {
  return CallOnCard(device, [&](Driver& driver, auto&, std::uint32_t number) {
    if (flags == nullptr || active == nullptr) return kInvalidValue;
    *flags = 0;
    *active = driver.cards[number].primary != nullptr ? 1 : 0;
    return kSuccess;
  });
}

WEIR_EXPORT Result cuCtxCreate_v2(Handle* context, unsigned /*flags*/, Device device) {
  return CallOnCard(device, [&](Driver& driver, auto&, std::uint32_t number) {
    if (context == nullptr) return kInvalidValue;
    if (ThreadContexts().depth == ContextStack::kMost) return kOutOfMemory;
    std::shared_ptr<Context> made;
    if (const Result error = driver.MakeContext(number, made); error != kSuccess) return error;
    *context = made.get();
    return Push(made.get());
  });
}

WEIR_EXPORT Result cuCtxDestroy_v2(Handle handle) {
  return Call([&](Driver& driver) {
    auto lock = driver.Lock();
    return Destroy(driver, lock, handle);
  });
}

WEIR_EXPORT Result cuCtxAttach(Handle* handle, unsigned flags) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (handle == nullptr || flags != 0) return kInvalidValue;
    const auto lock = driver.Lock();
    ++context->users;
    *handle = context.get();
    return kSuccess;
  });
}

WEIR_EXPORT Result cuCtxDetach(Handle handle) {
  return Call([&](Driver& driver) {
    auto lock = driver.Lock();
    const std::shared_ptr<Context> context = driver.contexts.Find(handle);
    const ContextStack& stack = ThreadContexts();
    if (context == nullptr || context->primary || stack.depth == 0 || stack.contexts[stack.depth - 1] != handle)
      return kInvalidContext;
    return --context->users > 0 ? kSuccess : Destroy(driver, lock, handle);
  });
}

WEIR_EXPORT Result cuCtxPushCurrent_v2(Handle handle) {
  return Call([&](Driver& driver) {
    const auto lock = driver.Lock();
    return driver.contexts.Find(handle) == nullptr ? kInvalidContext : Push(handle);
  });
}

WEIR_EXPORT Result cuCtxPopCurrent_v2(Handle* handle) {
  return Call([&](Driver&) {
    ContextStack& stack = ThreadContexts();
    if (stack.depth == 0) return kInvalidContext;
    --stack.depth;
    if (handle != nullptr) *handle = stack.contexts[stack.depth];
    return kSuccess;
  });
}

WEIR_EXPORT Result cuCtxSetCurrent(Handle handle) {
  return Call([&](Driver& driver) {
    ContextStack& stack = ThreadContexts();
    if (handle == nullptr) {
      if (stack.depth > 0) --stack.depth;
      return kSuccess;
    }
    const auto lock = driver.Lock();
    if (driver.contexts.Find(handle) == nullptr) return kInvalidContext;
    if (stack.depth > 0) --stack.depth;
    return Push(handle);
  });
}

WEIR_EXPORT Result cuCtxGetCurrent(Handle* handle) {
  return Call([&](Driver&) {
    if (handle == nullptr) return kInvalidValue;
    const ContextStack& stack = ThreadContexts();
    *handle = stack.depth == 0 ? nullptr : stack.contexts[stack.depth - 1];
    return kSuccess;
  });
}

WEIR_EXPORT Result cuCtxGetDevice(Device* device) {
  return CallInContext([&](Driver&, const std::shared_ptr<Context>& context) {
    if (device == nullptr) return kInvalidValue;
    *device = static_cast<Device>(context->device);
    return kSuccess;
  });
}

WEIR_EXPORT Result cuCtxSynchronize() {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>& context) {
    auto lock = driver.Lock();
    bool capturing = false;
    for (const auto& stream : context->streams) capturing = capturing || stream->capture.has_value();
    if (capturing) {
      Driver::Invalidate(*context);
      return kCaptureUnsupported;
    }
    return driver.Wait(lock, *context, Driver::AllOf(*context));
  });
}
// NOLINTEND(readability-identifier-naming)
