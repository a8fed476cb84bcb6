// SPDX-License-Identifier: Apache-2.0
// A device's elastic memory, for people: who holds which slots, and whose they are now.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/table.h"
#include "cli/views.h"

namespace weir::cli {

struct MemoryMapView {
  struct Holder {
    std::string name;
    std::int64_t id = 0;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;  // first slot, count
  };
  std::string device, layout, pressure;
  std::uint64_t slots = 0;             // that are shared out; 0: not elastic
  std::uint64_t size = 0, others = 0;  // of the device, and of these other programs'
  std::uint64_t slot_bytes = 0, held = 0, guaranteed = 0, switches = 0;
  double overhead = 0, steal_percent = 0, copying_percent = 0, copy_bytes_per_s = 0;
  std::vector<std::pair<std::string, std::string>> params;
  std::vector<std::int64_t> owners;  // per slot, vGPU ids; 0: nobody's
  std::vector<bool> leaving;         // per slot
  std::vector<Holder> holders;
};

/// The reply of GET or PUT /v1/devices/{device}/memory. What is missing reads as nothing.
MemoryMapView MemoryMapFromJson(const nlohmann::json& reply);

/// The device's line, the map with a line for each vGPU, and what each has. `width`: columns that the map may take.
std::string MemoryMapText(const MemoryMapView& map, const std::vector<VgpuView>& vgpus, std::size_t width, bool color,
                          Glyphs glyphs);

/// A line for the device, and one for each of its vGPUs: what it holds and the map. For a live view.
std::string MemoryLines(const MemoryMapView& map, const std::vector<VgpuView>& vgpus, std::size_t width, bool color,
                        Glyphs glyphs);

/// The parameters, with what is in force.
std::string MemoryParamsText(const std::vector<ParamView>& params, const MemoryMapView& map, bool color);

/// One vGPU's slots in `width` cells at most, each of them as many slots: its own now, its own but another's now (or
/// nobody's), leaving, none.
std::string SlotRow(const MemoryMapView& map, const MemoryMapView::Holder& holder, std::size_t width, Glyphs glyphs);

}  // namespace weir::cli
