// SPDX-License-Identifier: Apache-2.0
#include "cluster/parts_room.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace weir::cluster {
namespace {

using nlohmann::json;

std::uint64_t CountIn(const json& body, const char* group, const char* name) {
  const auto at = body.find(group);
  if (at == body.end() || !at->is_object()) return 0;
  const auto field = at->find(name);
  return field != at->end() && field->is_number_unsigned() ? field->get<std::uint64_t>() : 0;
}

/// Whether the vGPU's memory is elastic; what exceeds its slots is in host memory.
bool IsElastic(const json& vgpu) {
  const json memory = vgpu.value("memory", json::object());
  return memory.is_object() && memory.value("elastic", json(false)) == true;
}

std::uint64_t OnDevice(const json& vgpu) {
  return IsElastic(vgpu) ? CountIn(vgpu, "memory", "resident_slots") * kSlotBytes.count
                         : CountIn(vgpu, "use", "memory_bytes");
}

/// The vGPU's memory limit; 0: none.
std::uint64_t LimitOf(const json& vgpu) {
  return IsElastic(vgpu) ? CountIn(vgpu, "memory", "max_slots") * kSlotBytes.count
                         : CountIn(vgpu, "settings", "memory_max_bytes");
}

std::uint64_t Less(std::uint64_t from, std::uint64_t taken) { return from > taken ? from - taken : 0; }

}  // namespace

Result<PartsDevice> DeviceOfLine(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == '\n') break;
    if (c == '\t')
      fields.emplace_back();
    else
      fields.back() += c >= 0x20 && c < 0x7F ? c : '?';
  }
  const Error bad = Fail(Errc::kProtocol, "'" + line + "' is not a device in the format of 'weir-executor --list'");
  if (fields.size() < 7 || fields[3].empty() || fields[6].empty()) return bad;
  PartsDevice device{.name = fields[3], .driver = fields[6]};
  const char* const end = fields[5].data() + fields[5].size();
  const auto [stopped, error] = std::from_chars(fields[5].data(), end, device.memory.count);
  if (error != std::errc() || stopped != end) return bad;
  return device;
}

Result<PartsRoom> RoomOf(const json& vgpus, const std::string& vgpu, Bytes memory) {
  PartsRoom room;
  std::uint64_t used = 0, own = 0, limit = 0;
  bool there = false;
  const json list = vgpus.value("vgpus", json::array());
  for (const json& one : list) {
    if (!one.is_object()) continue;
    room.threads += CountIn(one, "use", "work_items");
    used += OnDevice(one);
    if (one.value("name", json()) != vgpu) continue;
    there = true;
    own = OnDevice(one);
    limit = LimitOf(one);
  }
  if (!there)
    return Fail(Errc::kNotFound, "this node has no vGPU '" + vgpu + "' to offer: 'weir vgpu create " + vgpu + "'");
  room.room.count = Less(memory.count, used);
  if (limit > 0) room.room.count = std::min(room.room.count, Less(limit, own));
  return room;
}

}  // namespace weir::cluster
