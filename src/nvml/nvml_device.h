// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's driver tells of a GPU: the memory in use, and how much of the time each process used it. The library is
// opened at run time; nothing of it is linked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weir::nvml {

inline constexpr const char* kLibrary = "libnvidia-ml.so.1";

struct DeviceMemory {
  Bytes total{}, used{};  // `used`: allocated by processes, and what the driver keeps for itself
};

/// Empty where the library does not tell.
struct DeviceIdentity {
  std::string uuid;  // as GPU-…
  std::string pci;   // as 0000:65:00.0
  std::string model;
};

/// How much of the last sampling period, up to `time_us` on NVML's clock, kernels of a process ran.
struct ProcessSample {
  std::uint32_t pid = 0;
  std::uint64_t time_us = 0;
  std::uint32_t percent = 0;
};

class NvmlDevice {
 public:
  /// `which`: an index ("0"), a UUID ("GPU-…", "MIG-…") or a PCI address ("00000000:65:00.0"). kNotFound: there is no
  /// such library or GPU. kUnavailable: the driver is not there, or can't be asked.
  static Result<NvmlDevice> Open(const std::string& library, const std::string& which);
  ~NvmlDevice();
  NvmlDevice(NvmlDevice&&) noexcept;
  NvmlDevice& operator=(NvmlDevice&&) noexcept;

  /// kUnavailable: the driver no longer says.
  [[nodiscard]] Result<DeviceMemory> Memory() const;
  [[nodiscard]] DeviceIdentity Identity() const;
  /// Later than `after_us`; processes that did not use the GPU are not listed. kUnavailable: NVML does not tell.
  [[nodiscard]] Result<std::vector<ProcessSample>> ProcessSamples(std::uint64_t after_us) const;

 private:
  struct Opened;
  explicit NvmlDevice(std::unique_ptr<Opened> opened);
  std::unique_ptr<Opened> opened_;
};

}  // namespace weir::nvml
