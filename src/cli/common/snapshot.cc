// SPDX-License-Identifier: Apache-2.0
#include "cli/common/snapshot.h"

#include <fmt/format.h>

namespace weir::cli {

Result<Snapshot> TakeSnapshot(const ControlClient& client) {
  Snapshot snapshot;
  WEIR_TRY(const auto devices, client.Get("/v1/devices"));
  WEIR_TRY(snapshot.devices, DevicesFromJson(devices));
  WEIR_TRY(const auto vgpus, client.Get("/v1/vgpus"));
  WEIR_TRY(snapshot.vgpus, VgpusFromJson(vgpus));
  for (const DeviceView& device : snapshot.devices) {
    if (device.memory_slots == 0) continue;
    WEIR_TRY(const auto memory, client.Get("/v1/devices/" + PercentEncode(device.name) + "/memory"));
    snapshot.memory.push_back(MemoryMapFromJson(memory));
  }
  return snapshot;
}

Result<std::string> DeviceMeant(const ControlClient& client, const std::string& flag) {
  if (!flag.empty()) return flag;
  WEIR_TRY(const auto reply, client.Get("/v1/devices"));
  WEIR_TRY(const auto devices, DevicesFromJson(reply));
  if (devices.size() == 1) return devices[0].name;
  std::string names;
  for (const DeviceView& d : devices) names += (names.empty() ? "" : ", ") + d.name;
  return Fail(Errc::kInvalidArgument,
              fmt::format("more than one device is possible; give --device with one of: {}", names));
}

}  // namespace weir::cli
