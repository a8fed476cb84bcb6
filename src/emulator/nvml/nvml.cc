// SPDX-License-Identifier: Apache-2.0
// libnvidia-ml.so.1 of emulated GPUs: those of NVML's functions that report memory and use, with their names and
// signatures (NVIDIA, NVML API Reference Guide). $WEIR_EMULATOR_SOCKET names the emulator.
//
// Any thread may call these functions. One lock is held during each call.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "emulator/account_reader.h"
#include "emulator/nvml/utilization_sampler.h"
#include "platform/clock.h"

namespace {

using namespace weir;

enum Return {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kGpuIsLost = 15
};
struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
struct ProcessUtilization {
  unsigned pid;
  unsigned long long time_us;
  unsigned sm, memory, encoder, decoder;
};

struct Device {
  std::uint32_t index = 0;
  emulator::UtilizationSampler sampler;
  std::uint64_t sampled_us = 0;
};

std::mutex mutex;
std::optional<emulator::AccountReader> reader;
std::vector<Device> devices;  // handles point to its elements
int users = 0;

Device* DeviceOf(void* handle) {
  for (Device& device : devices)
    if (&device == handle) return &device;
  return nullptr;
}

int Give(std::size_t index, void** handle) {
  if (!reader) return kUninitialized;
  if (handle == nullptr || index >= devices.size()) return kInvalidArgument;
  *handle = &devices[index];
  return kSuccess;
}

int GiveText(const std::string& text, char* into, unsigned room) {
  if (into == nullptr) return kInvalidArgument;
  if (room <= text.size()) return kInsufficientSize;
  std::memcpy(into, text.c_str(), text.size() + 1);
  return kSuccess;
}

/// NVML's clock: microseconds since 1970.
std::uint64_t WallUs() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(time.tv_nsec) / 1000;
}

int Sample(Device& device) {
  const Instant now = platform::Now();
  if (!device.sampler.Due(now)) return kSuccess;
  const auto use = reader->Read(device.index);
  if (!use) return kGpuIsLost;
  device.sampler.Take(now, *use);
  device.sampled_us = WallUs();
  return kSuccess;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's.
extern "C" {

[[gnu::visibility("default")]] int nvmlInit_v2() {
  const std::lock_guard lock(mutex);
  if (!reader) {
    const char* socket = std::getenv("WEIR_EMULATOR_SOCKET");
    if (socket == nullptr) return kDriverNotLoaded;
    auto connected = emulator::AccountReader::Connect(socket, "nvml");
    if (!connected) return kDriverNotLoaded;
    reader.emplace(std::move(*connected));
    devices.resize(reader->devices().size());
    for (std::uint32_t i = 0; i < devices.size(); ++i) devices[i].index = i;
  }
  ++users;
  return kSuccess;
}

[[gnu::visibility("default")]] int nvmlShutdown() {
  const std::lock_guard lock(mutex);
  if (users == 0) return kUninitialized;
  if (--users == 0) {
    reader.reset();
    devices.clear();
  }
  return kSuccess;
}

[[gnu::visibility("default")]] const char* nvmlErrorString(int code) {
  switch (code) {
    case kSuccess: return "Success";
    case kUninitialized: return "Uninitialized";
    case kInvalidArgument: return "Invalid Argument";
    case kNotFound: return "Not Found";
    case kInsufficientSize: return "Insufficient Size";
    case kDriverNotLoaded: return "the emulator at WEIR_EMULATOR_SOCKET does not answer";
    case kGpuIsLost: return "GPU is lost";
    default: return "Unknown Error";
  }
}

[[gnu::visibility("default")]] int nvmlDeviceGetCount_v2(unsigned* count) {
  const std::lock_guard lock(mutex);
  if (!reader) return kUninitialized;
  if (count == nullptr) return kInvalidArgument;
  *count = static_cast<unsigned>(devices.size());
  return kSuccess;
}

[[gnu::visibility("default")]] int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  const std::lock_guard lock(mutex);
  return Give(index, handle);
}

[[gnu::visibility("default")]] int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  const std::lock_guard lock(mutex);
  if (!reader) return kUninitialized;
  if (uuid == nullptr) return kInvalidArgument;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (uuid == "GPU-" + reader->devices()[i].uuid) return Give(i, handle);
  return kNotFound;
}

[[gnu::visibility("default")]] int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** handle) {
  const std::lock_guard lock(mutex);
  if (!reader) return kUninitialized;
  if (address == nullptr) return kInvalidArgument;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::string& pci = reader->devices()[i].pci;
    if (address == pci || address == "0000" + pci) return Give(i, handle);
  }
  return kNotFound;
}

[[gnu::visibility("default")]] int nvmlDeviceGetMemoryInfo(void* handle, Memory* memory) {
  const std::lock_guard lock(mutex);
  if (!reader) return kUninitialized;
  const Device* device = DeviceOf(handle);
  if (device == nullptr || memory == nullptr) return kInvalidArgument;
  const auto use = reader->Read(device->index);
  if (!use) return kGpuIsLost;
  const std::uint64_t total = reader->devices()[device->index].memory.count;
  *memory = {.total = total, .free = total - std::min(total, use->memory_used.count), .used = use->memory_used.count};
  return kSuccess;
}

[[gnu::visibility("default")]] int nvmlDeviceGetUUID(void* handle, char* text, unsigned room) {
  const std::lock_guard lock(mutex);
  const Device* device = DeviceOf(handle);
  return device == nullptr ? kInvalidArgument : GiveText("GPU-" + reader->devices()[device->index].uuid, text, room);
}

[[gnu::visibility("default")]] int nvmlDeviceGetName(void* handle, char* text, unsigned room) {
  const std::lock_guard lock(mutex);
  const Device* device = DeviceOf(handle);
  return device == nullptr ? kInvalidArgument : GiveText(reader->devices()[device->index].name, text, room);
}

[[gnu::visibility("default")]] int nvmlDeviceGetPciInfo_v3(void* handle, PciInfo* info) {
  const std::lock_guard lock(mutex);
  const Device* device = DeviceOf(handle);
  if (device == nullptr || info == nullptr) return kInvalidArgument;
  *info = {};
  const std::string& pci = reader->devices()[device->index].pci;
  if (std::sscanf(pci.c_str(), "%x:%x:%x", &info->domain, &info->bus, &info->device) != 3) return kNotFound;
  std::snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%.15s", pci.c_str());
  std::snprintf(info->bus_id, sizeof info->bus_id, "0000%.24s", pci.c_str());
  return kSuccess;
}

[[gnu::visibility("default")]] int nvmlDeviceGetUtilizationRates(void* handle, Utilization* utilization) {
  const std::lock_guard lock(mutex);
  Device* device = DeviceOf(handle);
  if (device == nullptr || utilization == nullptr) return kInvalidArgument;
  if (const int code = Sample(*device); code != kSuccess) return code;
  *utilization = {.gpu = device->sampler.percent(), .memory = 0};
  return kSuccess;
}

[[gnu::visibility("default")]] int nvmlDeviceGetProcessUtilization(void* handle, ProcessUtilization* into,
                                                                   unsigned* count, unsigned long long after_us) {
  const std::lock_guard lock(mutex);
  Device* device = DeviceOf(handle);
  if (device == nullptr || count == nullptr) return kInvalidArgument;
  if (const int code = Sample(*device); code != kSuccess) return code;
  const auto& samples = device->sampler.samples();
  if (samples.empty() || device->sampled_us <= after_us) return kNotFound;
  const auto needed = static_cast<unsigned>(samples.size());
  const bool fits = into != nullptr && *count >= needed;
  *count = needed;
  if (!fits) return kInsufficientSize;
  for (unsigned i = 0; i < needed; ++i)
    into[i] = {.pid = static_cast<unsigned>(samples[i].pid),
               .time_us = device->sampled_us,
               .sm = samples[i].percent,
               .memory = 0,
               .encoder = 0,
               .decoder = 0};
  return kSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
