// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's driver says is in use of a GPU's memory, by whoever. The library is opened when it is asked for;
// nothing of it is linked.
#pragma once

#include <memory>
#include <string>

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

 private:
  struct Opened;
  explicit NvmlDevice(std::unique_ptr<Opened> opened);
  std::unique_ptr<Opened> opened_;
};

}  // namespace weir::nvml
