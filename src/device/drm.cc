// SPDX-License-Identifier: Apache-2.0
// GPUs with a DRM driver of Linux. Mesa selects a GPU by DRI_PRIME, and an executor selects the OpenCL device by its
// PCI address.
#include <algorithm>

#include "device/drm_device.h"
#include "device/kinds.h"

namespace weir::device {

Status AddDrm(const std::string& what, const Sources& sources, Devices& devices) {
  auto found = FindDrmDevice(what, sources.drm);
  if (!found) return Fail(found.error().code, "--device drm:" + what + ": " + found.error().message);
  WEIR_TRY_STATUS(RefuseTwice("drm:" + what, {}, found->pci, devices));
  Device device;
  device.spec = {
      .name = NextGpuName(devices), .kind = kGpu, .cpus = {}, .model = found->model, .uuid = {}, .pci = found->pci};
  device.driver.device = found->pci;
  std::string address = found->pci;
  std::ranges::replace(address, ':', '_');
  std::ranges::replace(address, '.', '_');
  device.environment = {"DRI_PRIME=pci-" + address};
  WEIR_TRY_STATUS(AddAccount({"--drm", found->pci}, device.spec.name, sources, devices));
  devices.devices.push_back(std::move(device));
  return Ok();
}

}  // namespace weir::device
