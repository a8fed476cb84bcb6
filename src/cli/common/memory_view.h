// SPDX-License-Identifier: Apache-2.0
// A text view of a device's elastic memory: the holders and the assignment of its slots.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/common/table.h"
#include "cli/common/views.h"

namespace weir::cli {

struct MemoryMapView {
  struct Holder {
    std::string name;
    std::int64_t id = 0;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;  // first slot, count
  };
  std::string device, layout, pressure;
  std::uint64_t slots = 0;             // slots that are divided among vGPUs; 0: the memory is not elastic
  std::uint64_t size = 0, others = 0;  // bytes of the device, and those that other programs use
  std::uint64_t slot_bytes = 0, held = 0, guaranteed = 0, switches = 0;
  double overhead = 0, steal_percent = 0, copying_percent = 0, copy_bytes_per_s = 0;
  std::vector<std::pair<std::string, std::string>> params;
  std::vector<std::int64_t> owners;  // per slot, vGPU ids; 0: not assigned
  std::vector<bool> leaving;         // per slot
  std::vector<Holder> holders;
};

/// Parses the reply of GET or PUT /v1/devices/{device}/memory. Missing fields read as empty.
MemoryMapView MemoryMapFromJson(const nlohmann::json& reply);

/// The device's line, the map with a line for each vGPU, and each vGPU's figures. `width`: columns for the map.
std::string MemoryMapText(const MemoryMapView& map, const std::vector<VgpuView>& vgpus, std::size_t width, bool color,
                          Glyphs glyphs);

/// For a live view: a line for the device, and one for each of its vGPUs with its slots and the map.
std::string MemoryLines(const MemoryMapView& map, const std::vector<VgpuView>& vgpus, std::size_t width, bool color,
                        Glyphs glyphs);

/// The parameters with their present values.
std::string MemoryParamsText(const std::vector<ParamView>& params, const MemoryMapView& map, bool color);

/// One vGPU's slots in at most `width` cells, each for the same number of slots. A cell shows whether its slots are
/// assigned to the vGPU, held but not assigned to it, being revoked, or neither.
std::string SlotRow(const MemoryMapView& map, const MemoryMapView::Holder& holder, std::size_t width, Glyphs glyphs);

}  // namespace weir::cli
