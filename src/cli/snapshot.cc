// SPDX-License-Identifier: Apache-2.0
#include "cli/snapshot.h"

namespace weir::cli {

Result<Snapshot> TakeSnapshot(const ControlClient& client) {
  Snapshot snapshot;
  WEIR_TRY(const auto devices, client.Get("/v1/devices"));
  WEIR_TRY(snapshot.devices, DevicesFromJson(devices));
  WEIR_TRY(const auto vgpus, client.Get("/v1/vgpus"));
  WEIR_TRY(snapshot.vgpus, VgpusFromJson(vgpus));
  return snapshot;
}

}  // namespace weir::cli
