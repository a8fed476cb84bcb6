// SPDX-License-Identifier: Apache-2.0
// NVIDIA's driver as a source of a GPU's memory in use and of each process's share of time. The library is opened at
// run time; nothing is linked.
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
  Bytes total{}, used{};  // `used`: allocated by processes or reserved by the driver
};

/// A field is empty if the library does not report it.
struct DeviceIdentity {
  std::string uuid;  // as GPU-…
  std::string pci;   // as 0000:65:00.0
  std::string model;
};

/// The fraction of the last sampling period, which ended at `time_us` on NVML's clock, in which a process's kernels
/// ran.
struct ProcessSample {
  std::uint32_t pid = 0;
  std::uint64_t time_us = 0;
  std::uint32_t percent = 0;
};

class NvmlDevice {
 public:
  /// `which`: an index ("0"), a UUID ("GPU-…", "MIG-…") or a PCI address ("00000000:65:00.0"). kNotFound: there is no
  /// such library or GPU. kUnavailable: the driver is not loaded or does not answer.
  static Result<NvmlDevice> Open(const std::string& library, const std::string& which);
  ~NvmlDevice();
  NvmlDevice(NvmlDevice&&) noexcept;
  NvmlDevice& operator=(NvmlDevice&&) noexcept;

  /// kUnavailable: the driver no longer answers.
  [[nodiscard]] Result<DeviceMemory> Memory() const;
  [[nodiscard]] DeviceIdentity Identity() const;
  /// Samples later than `after_us`; processes that did not use the GPU have none. kUnavailable: NVML does not report
  /// them.
  [[nodiscard]] Result<std::vector<ProcessSample>> ProcessSamples(std::uint64_t after_us) const;

 private:
  struct Opened;
  explicit NvmlDevice(std::unique_ptr<Opened> opened);
  std::unique_ptr<Opened> opened_;
};

}  // namespace weir::nvml
