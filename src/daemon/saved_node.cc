// SPDX-License-Identifier: Apache-2.0
#include "daemon/saved_node.h"

#include <fmt/format.h>

#include <limits>

#include "base/crc32c.h"
#include "daemon/json_fields.h"

namespace weir::daemon {
namespace {

using nlohmann::json;

Result<SavedVgpu> TakeVgpu(json entry) {
  SavedVgpu vgpu;
  std::uint64_t id = 0, uid = 0, pid = 0;
  WEIR_TRY_STATUS(TakeUnsigned(entry, "id", id));
  WEIR_TRY_STATUS(TakeString(entry, "name", vgpu.name));
  WEIR_TRY_STATUS(TakeString(entry, "device", vgpu.device));
  WEIR_TRY_STATUS(TakeUnsigned(entry, "owner_uid", uid));
  WEIR_TRY_STATUS(TakeBool(entry, "ephemeral", vgpu.ephemeral));
  WEIR_TRY_STATUS(TakeUnsigned(entry, "owner_pid", pid));
  WEIR_TRY_STATUS(TakeUnsigned(entry, "owner_started", vgpu.owner_started));
  WEIR_TRY_STATUS(TakeBool(entry, "paused", vgpu.paused));
  std::string sale = core::NameOf(vgpu.sale);
  WEIR_TRY_STATUS(TakeString(entry, "sale", sale));
  WEIR_TRY(vgpu.sale, core::SaleNamed(sale));
  WEIR_TRY_STATUS(TakeSettings(entry, vgpu.settings));
  if (uid >= std::numeric_limits<uid_t>::max() || pid > std::numeric_limits<pid_t>::max())
    return Fail(Errc::kProtocol, fmt::format("vGPU '{}': owner_uid or owner_pid is out of range", vgpu.name));
  vgpu.id = VgpuId{id};
  vgpu.owner_uid = static_cast<uid_t>(uid);
  vgpu.owner_pid = static_cast<pid_t>(pid);
  return vgpu;
}

Result<SavedPolicy> TakePolicy(json entry) {
  SavedPolicy policy;
  WEIR_TRY_STATUS(TakeString(entry, "device", policy.device));
  WEIR_TRY_STATUS(TakeString(entry, "policy", policy.policy));
  WEIR_TRY_STATUS(core::FindPolicy(policy.policy));
  WEIR_TRY_STATUS(TakeParams(entry, "params", policy.policy, policy.params));
  return policy;
}

Result<SavedOversell> TakeOversell(json entry) {
  SavedOversell oversell;
  WEIR_TRY_STATUS(TakeString(entry, "device", oversell.device));
  WEIR_TRY_STATUS(TakeString(entry, "mode", oversell.mode));
  WEIR_TRY_STATUS(TakeNumbers(entry, "params", oversell.params));
  return oversell;
}

Result<SavedMemory> TakeMemory(json entry) {
  SavedMemory memory;
  WEIR_TRY_STATUS(TakeString(entry, "device", memory.device));
  WEIR_TRY_STATUS(TakeUnsigned(entry, "size_bytes", memory.size_bytes));
  WEIR_TRY_STATUS(TakeNumbers(entry, "params", memory.params));
  WEIR_TRY_STATUS(TakeNumber(entry, "copy_bytes_per_s", memory.copy_bytes_per_s));
  return memory;
}

/// Eight hexadecimal digits follow this text. The checksum covers the whole file, with these digits replaced by zeros.
constexpr std::string_view kChecksumField = "\"crc32c\": \"";
constexpr std::string_view kNoChecksum = "00000000";

std::string WithChecksum(std::string text) {
  const std::size_t at = text.find(kChecksumField) + kChecksumField.size();
  text.replace(at, kCrc32cDigits, Crc32cText(Crc32c(text)));
  return text;
}

/// Files of minor version 0 have no checksum.
Status CheckChecksum(const std::string& text, const json& root) {
  const bool has = root.contains("crc32c");
  if (!has && !root.contains("minor")) return Ok();
  const std::size_t field = text.find(kChecksumField);
  if (!has || field == std::string::npos || text.size() - field < kChecksumField.size() + kCrc32cDigits)
    return Fail(Errc::kProtocol, "its checksum is missing");
  std::string without = text;
  without.replace(field + kChecksumField.size(), kCrc32cDigits, kNoChecksum);
  if (WithChecksum(std::move(without)) == text) return Ok();
  return Fail(Errc::kProtocol, "its checksum doesn't match its content");
}

Result<json> ArrayIn(const json& root, const char* name) {
  const auto found = root.find(name);
  if (found == root.end() || !found->is_array()) return Fail(Errc::kProtocol, fmt::format("no list '{}' in it", name));
  for (const json& entry : *found)
    if (!entry.is_object()) return Fail(Errc::kProtocol, fmt::format("an entry of '{}' is not an object", name));
  return *found;
}

}  // namespace

std::string ToText(const SavedNode& node) {
  nlohmann::ordered_json root{{"weir_saved_node", kSavedVersion}, {"minor", kSavedMinor}, {"crc32c", kNoChecksum}};
  root["policies"] = json::array();
  for (const SavedPolicy& policy : node.policies)
    root["policies"].push_back({{"device", policy.device}, {"policy", policy.policy}, {"params", policy.params}});
  root["oversell"] = json::array();
  for (const SavedOversell& oversell : node.oversell)
    root["oversell"].push_back({{"device", oversell.device}, {"mode", oversell.mode}, {"params", oversell.params}});
  root["memory"] = json::array();
  for (const SavedMemory& memory : node.memory)
    root["memory"].push_back({{"device", memory.device},
                              {"size_bytes", memory.size_bytes},
                              {"params", memory.params},
                              {"copy_bytes_per_s", memory.copy_bytes_per_s}});
  root["vgpus"] = json::array();
  for (const SavedVgpu& vgpu : node.vgpus) {
    nlohmann::ordered_json entry{{"id", vgpu.id.value},
                                 {"name", vgpu.name},
                                 {"device", vgpu.device},
                                 {"owner_uid", vgpu.owner_uid},
                                 {"ephemeral", vgpu.ephemeral},
                                 {"owner_pid", vgpu.owner_pid},
                                 {"owner_started", vgpu.owner_started},
                                 {"paused", vgpu.paused},
                                 {"sale", core::NameOf(vgpu.sale)}};
    entry.update(SettingsToJson(vgpu.settings));
    root["vgpus"].push_back(std::move(entry));
  }
  return WithChecksum(root.dump(1) + "\n");
}

Result<SavedNode> FromText(const std::string& text) {
  const auto parsed = ParseObject(text);
  if (!parsed) return Fail(Errc::kProtocol, "it is not a JSON object");
  const json& root = *parsed;
  const auto version = root.find("weir_saved_node");
  if (version == root.end() || !version->is_number_integer()) return Fail(Errc::kProtocol, "not a saved node");
  if (version->get<std::int64_t>() != kSavedVersion)
    return Fail(Errc::kVersionMismatch,
                fmt::format("a saved node of version {}; this daemon reads {}", version->dump(), kSavedVersion));
  WEIR_TRY_STATUS(CheckChecksum(text, root));
  SavedNode node;
  WEIR_TRY(const json policies, ArrayIn(root, "policies"));
  for (const json& entry : policies) {
    WEIR_TRY(SavedPolicy policy, TakePolicy(entry));
    node.policies.push_back(std::move(policy));
  }
  if (root.contains("oversell")) {
    WEIR_TRY(const json oversell, ArrayIn(root, "oversell"));
    for (const json& entry : oversell) {
      WEIR_TRY(SavedOversell sold, TakeOversell(entry));
      node.oversell.push_back(std::move(sold));
    }
  }
  if (root.contains("memory")) {
    WEIR_TRY(const json memory, ArrayIn(root, "memory"));
    for (const json& entry : memory) {
      WEIR_TRY(SavedMemory elastic, TakeMemory(entry));
      node.memory.push_back(std::move(elastic));
    }
  }
  WEIR_TRY(const json vgpus, ArrayIn(root, "vgpus"));
  for (const json& entry : vgpus) {
    WEIR_TRY(SavedVgpu vgpu, TakeVgpu(entry));
    node.vgpus.push_back(std::move(vgpu));
  }
  return node;
}

}  // namespace weir::daemon
