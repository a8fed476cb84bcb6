// SPDX-License-Identifier: Apache-2.0
// Functions of the API: start, errors, devices.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "emulator/cuda/driver.h"

using namespace weir::emulator::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

namespace {

struct ErrorText {
  Result error;
  const char *name, *text;
};
constexpr ErrorText kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kFileNotFound, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kIllegalState, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kContextDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {kCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {kCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"}};

Result GiveError(Result error, const char* ErrorText::*part, const char** out) {
  if (out == nullptr) return kInvalidValue;
  const auto* found = std::ranges::find(kErrors, error, &ErrorText::error);
  *out = found == std::end(kErrors) ? nullptr : found->*part;
  return *out == nullptr ? kInvalidValue : kSuccess;
}

template <typename Body>
Result CallOnDevice(Device device, Body body) {
  return Call([&](Driver& driver) {
    if (device < 0 || static_cast<std::size_t>(device) >= driver.cards.size()) return kInvalidDevice;
    return body(driver.cards[static_cast<std::size_t>(device)].model);
  });
}

Result GiveUuid(unsigned char* uuid, Device device) {
  constexpr std::size_t kBytes = 16;
  return CallOnDevice(device, [&](const weir::emulator::ClientDevice& model) {
    if (uuid == nullptr) return kInvalidValue;
    std::size_t digits = 0;
    std::memset(uuid, 0, kBytes);
    for (const char c : model.uuid) {
      const char* const all = "0123456789abcdef";
      const char* const digit = c == '\0' ? nullptr : std::strchr(all, c);
      if (digit == nullptr || digits >= 2 * kBytes) continue;
      uuid[digits / 2] = static_cast<unsigned char>(uuid[digits / 2] * 16 + (digit - all));
      ++digits;
    }
    return kSuccess;
  });
}

Result GiveText(const std::string& text, char* into, int room) {
  if (into == nullptr || room <= 0) return kInvalidValue;
  std::snprintf(into, static_cast<std::size_t>(room), "%s", text.c_str());
  return kSuccess;
}

/// CUdevice_attribute. Zero for those that the double does not know.
int AttributeOf(const weir::emulator::ClientDevice& model, int attribute) {
  unsigned domain = 0, bus = 0, number = 0;
  std::sscanf(model.pci.c_str(), "%x:%x:%x", &domain, &bus, &number);
  switch (attribute) {
    case 1:                                                       // threads of a block
    case 2:                                                       // its width
    case 3: return 1024;                                          // its height
    case 4: return 64;                                            // its depth
    case 5: return 0x7fffffff;                                    // width of a grid
    case 6:                                                       // its height
    case 7: return 65'535;                                        // its depth
    case 10: return 32;                                           // threads of a warp
    case 16: return static_cast<int>(std::max(model.units, 1u));  // multiprocessors
    case 33: return static_cast<int>(bus);
    case 34: return static_cast<int>(number);
    case 50: return static_cast<int>(domain);
    case 75: return 8;  // compute capability
    default: return 0;
  }
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's
WEIR_EXPORT Result cuInit(unsigned flags) { return flags == 0 ? Driver::Start() : kInvalidValue; }

WEIR_EXPORT Result cuDriverGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  *version = 12080;
  return kSuccess;
}

WEIR_EXPORT Result cuGetErrorName(Result error, const char** name) { return GiveError(error, &ErrorText::name, name); }

WEIR_EXPORT Result cuGetErrorString(Result error, const char** text) {
  return GiveError(error, &ErrorText::text, text);
}

WEIR_EXPORT Result cuDeviceGetCount(int* count) {
  return Call([&](const Driver& driver) {
    if (count == nullptr) return kInvalidValue;
    *count = static_cast<int>(driver.cards.size());
    return kSuccess;
  });
}

WEIR_EXPORT Result cuDeviceGet(Device* device, int number) {
  return CallOnDevice(number, [&](const auto&) {
    if (device == nullptr) return kInvalidValue;
    *device = number;
    return kSuccess;
  });
}

WEIR_EXPORT Result cuDeviceGetName(char* name, int room, Device device) {
  return CallOnDevice(device, [&](const auto& model) { return GiveText(model.name, name, room); });
}

WEIR_EXPORT Result cuDeviceGetUuid(unsigned char* uuid, Device device) { return GiveUuid(uuid, device); }
WEIR_EXPORT Result cuDeviceGetUuid_v2(unsigned char* uuid, Device device) { return GiveUuid(uuid, device); }

WEIR_EXPORT Result cuDeviceGetPCIBusId(char* address, int room, Device device) {
  return CallOnDevice(device, [&](const auto& model) { return GiveText(model.pci, address, room); });
}

WEIR_EXPORT Result cuDeviceGetAttribute(int* value, int attribute, Device device) {
  return CallOnDevice(device, [&](const auto& model) {
    if (value == nullptr) return kInvalidValue;
    *value = AttributeOf(model, attribute);
    return kSuccess;
  });
}

WEIR_EXPORT Result cuDeviceTotalMem_v2(std::size_t* bytes, Device device) {
  return CallOnDevice(device, [&](const auto& model) {
    if (bytes == nullptr) return kInvalidValue;
    *bytes = model.memory.count;
    return kSuccess;
  });
}
// NOLINTEND(readability-identifier-naming)
