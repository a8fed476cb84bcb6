// SPDX-License-Identifier: Apache-2.0
// NVML's functions with their names and signatures (NVIDIA, NVML API Reference Guide).
#include "nvml/nvml_device.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace weir::nvml {
namespace {

using Return = int;    // nvmlReturn_t
using Handle = void*;  // nvmlDevice_t
constexpr Return kSuccess = 0, kErrorInvalidArgument = 2, kErrorNotFound = 6, kErrorInsufficientSize = 7;
constexpr unsigned kSamplesMax = 16'384;

bool IsIndex(std::string_view which) {
  return !which.empty() && which.size() <= 4 &&
         std::ranges::all_of(which, [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool IsUuid(std::string_view which) { return which.starts_with("GPU-") || which.starts_with("MIG-"); }

}  // namespace

struct NvmlDevice::Opened {
  struct MemoryInfo {  // nvmlMemory_t
    unsigned long long total, free, used;
  };
  struct PciInfo {  // nvmlPciInfo_t
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
  };
  struct UtilizationSample {  // nvmlProcessUtilizationSample_t
    unsigned pid;
    unsigned long long time_us;
    unsigned sm, memory, encoder, decoder;
  };
  void* library = nullptr;
  bool begun = false;
  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  const char* (*error_string)(Return) = nullptr;
  Return (*by_index)(unsigned, Handle*) = nullptr;
  Return (*by_uuid)(const char*, Handle*) = nullptr;
  Return (*by_pci)(const char*, Handle*) = nullptr;
  Return (*memory_info)(Handle, MemoryInfo*) = nullptr;
  // Missing in some versions.
  Return (*uuid)(Handle, char*, unsigned) = nullptr;
  Return (*model)(Handle, char*, unsigned) = nullptr;
  Return (*pci_info)(Handle, PciInfo*) = nullptr;
  Return (*process_utilization)(Handle, UtilizationSample*, unsigned*, unsigned long long) = nullptr;
  Handle device = nullptr;

  ~Opened() {
    if (begun) shutdown();
    if (library != nullptr) ::dlclose(library);
  }
  template <typename Function>
  bool Load(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(library, name));
    return function != nullptr;
  }
  [[nodiscard]] std::string Words(Return code) const {
    const char* words = error_string(code);
    return words != nullptr ? words : "error " + std::to_string(code);
  }
  Status Find(const std::string& which) {
    const Return code = IsIndex(which)  ? by_index(static_cast<unsigned>(std::atoi(which.c_str())), &device)
                        : IsUuid(which) ? by_uuid(which.c_str(), &device)
                                        : by_pci(which.c_str(), &device);
    if (code == kSuccess) return Ok();
    const bool none = code == kErrorNotFound || code == kErrorInvalidArgument;
    return Fail(
        none ? Errc::kNotFound : Errc::kUnavailable,
        "no GPU '" + which + "' (an index, a UUID or a PCI address, as printed by nvidia-smi -L): " + Words(code));
  }
};

NvmlDevice::NvmlDevice(std::unique_ptr<Opened> opened) : opened_(std::move(opened)) {}
NvmlDevice::~NvmlDevice() = default;
NvmlDevice::NvmlDevice(NvmlDevice&&) noexcept = default;
NvmlDevice& NvmlDevice::operator=(NvmlDevice&&) noexcept = default;

Result<NvmlDevice> NvmlDevice::Open(const std::string& library, const std::string& which) {
  auto opened = std::make_unique<Opened>();
  opened->library = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened->library == nullptr) {
    const char* why = ::dlerror();
    return Fail(Errc::kNotFound,
                "NVIDIA's driver is not installed here: " + std::string(why != nullptr ? why : library));
  }
  Opened& nvml = *opened;
  if (!nvml.Load(nvml.init, "nvmlInit_v2") || !nvml.Load(nvml.shutdown, "nvmlShutdown") ||
      !nvml.Load(nvml.error_string, "nvmlErrorString") || !nvml.Load(nvml.by_index, "nvmlDeviceGetHandleByIndex_v2") ||
      !nvml.Load(nvml.by_uuid, "nvmlDeviceGetHandleByUUID") ||
      !nvml.Load(nvml.by_pci, "nvmlDeviceGetHandleByPciBusId_v2") ||
      !nvml.Load(nvml.memory_info, "nvmlDeviceGetMemoryInfo"))
    return Fail(Errc::kNotFound, library + " lacks functions of NVML: is it libnvidia-ml?");
  nvml.Load(nvml.uuid, "nvmlDeviceGetUUID");
  nvml.Load(nvml.model, "nvmlDeviceGetName");
  nvml.Load(nvml.pci_info, "nvmlDeviceGetPciInfo_v3");
  nvml.Load(nvml.process_utilization, "nvmlDeviceGetProcessUtilization");
  if (const Return code = nvml.init(); code != kSuccess)
    return Fail(Errc::kUnavailable, "NVIDIA's driver can't be queried: " + nvml.Words(code));
  nvml.begun = true;
  WEIR_TRY_STATUS(nvml.Find(which));
  return NvmlDevice(std::move(opened));
}

Result<DeviceMemory> NvmlDevice::Memory() const {
  Opened::MemoryInfo info{};
  if (const Return code = opened_->memory_info(opened_->device, &info); code != kSuccess)
    return Fail(Errc::kUnavailable, "NVIDIA's driver does not report the GPU's used memory: " + opened_->Words(code));
  return DeviceMemory{Bytes{info.total}, Bytes{info.used}};
}

DeviceIdentity NvmlDevice::Identity() const {
  DeviceIdentity identity;
  char text[96]{};
  if (opened_->uuid != nullptr && opened_->uuid(opened_->device, text, sizeof text - 1) == kSuccess)
    identity.uuid = text;
  if (opened_->model != nullptr && opened_->model(opened_->device, text, sizeof text - 1) == kSuccess)
    identity.model = text;
  Opened::PciInfo info{};
  if (opened_->pci_info != nullptr && opened_->pci_info(opened_->device, &info) == kSuccess) {
    std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", info.domain, info.bus, info.device);
    identity.pci = text;
  }
  return identity;
}

Result<std::vector<ProcessSample>> NvmlDevice::ProcessSamples(std::uint64_t after_us) const {
  constexpr const char* kWhat = "NVIDIA's driver does not tell how much each process uses the GPU: ";
  if (opened_->process_utilization == nullptr) return Fail(Errc::kUnavailable, std::string(kWhat) + "it is too old");
  // The number of processes may grow between the two calls.
  std::vector<Opened::UtilizationSample> read(64);
  for (;;) {
    auto count = static_cast<unsigned>(read.size());
    const Return code = opened_->process_utilization(opened_->device, read.data(), &count, after_us);
    if (code == kErrorNotFound) return std::vector<ProcessSample>{};
    if (code == kErrorInsufficientSize && read.size() < kSamplesMax) {
      read.resize(std::min<std::size_t>(kSamplesMax, read.size() * 4));
      continue;
    }
    if (code != kSuccess) return Fail(Errc::kUnavailable, kWhat + opened_->Words(code));
    std::vector<ProcessSample> samples;
    for (unsigned i = 0; i < std::min<std::size_t>(count, read.size()); ++i)
      if (read[i].time_us > after_us)
        samples.push_back({.pid = read[i].pid, .time_us = read[i].time_us, .percent = read[i].sm});
    return samples;
  }
}

}  // namespace weir::nvml
