// SPDX-License-Identifier: Apache-2.0
// Functions of the API: green contexts. One has streams of its own, and the memory, modules and events of its device's
// primary context, which it retains. What part of the device it has makes no difference to the model.
#include "emulator/cuda/driver.h"

using namespace weir::emulator::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

namespace {

/// CUdevResource.
struct Resource {
  int type;
  unsigned char others[92];
  unsigned units, least_units, aligned_units;
  unsigned char more[36];
};
constexpr int kUnits = 1;  // CU_DEV_RESOURCE_TYPE_SM

Result AddStreamTo(Driver& driver, const std::shared_ptr<Context>& context, Handle* handle) {
  const std::shared_ptr<Stream> stream = driver.AddStream(context, false);
  if (stream == nullptr) return kOutOfMemory;
  *handle = driver.streams.Add(stream);
  return kSuccess;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's
WEIR_EXPORT Result cuDeviceGetDevResource(Device device, Resource* resource, int type) {
  return Call([&](Driver& driver) {
    if (resource == nullptr || type != kUnits) return kInvalidValue;
    if (device < 0 || static_cast<std::size_t>(device) >= driver.cards.size()) return kInvalidDevice;
    *resource = {};
    resource->type = kUnits;
    const auto lock = driver.Lock();
    resource->units = driver.cards[static_cast<std::size_t>(device)].model.units;
    return kSuccess;
  });
}

/// All descriptions are the same.
WEIR_EXPORT Result cuDevResourceGenerateDesc(Handle* description, const Resource* resources, unsigned count) {
  static char only = 0;
  if (description == nullptr || resources == nullptr || count != 1 || resources->type != kUnits) return kInvalidValue;
  *description = &only;
  return kSuccess;
}

WEIR_EXPORT Result cuGreenCtxCreate(Handle* green, Handle description, Device device, unsigned flags) {
  constexpr unsigned kDefaultStream = 1;
  return Call([&](Driver& driver) {
    if (green == nullptr || description == nullptr || flags != kDefaultStream) return kInvalidValue;
    if (device < 0 || static_cast<std::size_t>(device) >= driver.cards.size()) return kInvalidDevice;
    const auto card = static_cast<std::uint32_t>(device);
    auto lock = driver.Lock();
    std::shared_ptr<Context> primary;
    if (const Result error = driver.RetainPrimary(card, primary); error != kSuccess) return error;
    auto made = std::make_shared<GreenContext>();
    Result result = driver.MakeContext(card, made->context);
    if (result == kSuccess) {
      made->context->parent = primary;
      *green = driver.greens.Add(made);
      if (*green == nullptr) result = kOutOfMemory;
    }
    if (result != kSuccess) static_cast<void>(driver.ReleasePrimary(lock, card));
    return result;
  });
}

WEIR_EXPORT Result cuGreenCtxDestroy(Handle handle) {
  return Call([&](Driver& driver) {
    auto lock = driver.Lock();
    const std::shared_ptr<GreenContext> green = driver.greens.Remove(handle);
    if (green == nullptr) return kInvalidContext;
    driver.DestroyContext(lock, green->context);
    return driver.ReleasePrimary(lock, green->context->device);
  });
}

WEIR_EXPORT Result cuCtxFromGreenCtx(Handle* context, Handle handle) {
  return Call([&](Driver& driver) {
    if (context == nullptr) return kInvalidValue;
    const auto lock = driver.Lock();
    const std::shared_ptr<GreenContext> green = driver.greens.Find(handle);
    if (green == nullptr) return kInvalidContext;
    *context = green->context.get();
    return kSuccess;
  });
}

WEIR_EXPORT Result cuGreenCtxStreamCreate(Handle* stream, Handle handle, unsigned flags, int /*priority*/) {
  constexpr unsigned kNonBlocking = 1;
  return Call([&](Driver& driver) {
    if (stream == nullptr || flags != kNonBlocking) return kInvalidValue;
    const auto lock = driver.Lock();
    const std::shared_ptr<GreenContext> green = driver.greens.Find(handle);
    return green == nullptr ? kInvalidContext : AddStreamTo(driver, green->context, stream);
  });
}
// NOLINTEND(readability-identifier-naming)
