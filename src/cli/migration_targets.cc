// SPDX-License-Identifier: Apache-2.0
#include "cli/migration_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/partition/known_nodes.h"

namespace weir::cli {
namespace {

using nlohmann::json;

struct Offering {
  std::string node, address, vgpu;
  bool plain = false;
  core::KnownNode known;
};

std::vector<Offering> OfferingIn(const json& nodes) {
  std::vector<Offering> all;
  const json list = nodes.value("nodes", json::array());
  for (const json& node : list) {
    const json parts = node.is_object() ? node.value("parts", json()) : json();
    if (!parts.is_object() || parts.value("address", "").empty()) continue;
    all.push_back({.node = node.value("name", ""),
                   .address = parts.value("address", ""),
                   .vgpu = parts.value("vgpu", ""),
                   .plain = parts.value("plain", false),
                   .known = {.id = NodeId{all.size() + 1},
                             .room = Bytes{parts.value("room_bytes", std::uint64_t{0})},
                             .threads = parts.value("threads", std::uint64_t{0})}});
  }
  return all;
}

/// The token file for the node; empty: the file does not exist.
std::string TokenOf(const MigrationOptions& options, const std::string& node) {
  std::error_code none;
  const std::filesystem::path token(options.token);
  const std::filesystem::path file = std::filesystem::is_directory(token, none) ? token / (node + ".token") : token;
  return std::filesystem::exists(file, none) ? std::filesystem::absolute(file).string() : std::string();
}

Result<MigrationTarget> TargetAt(const Offering& node, const MigrationOptions& options) {
  MigrationTarget target{.node = node.node, .request = {.node = node.address}};
  if (options.plain != node.plain)
    return Fail(Errc::kNotFound,
                fmt::format("node {} {}", node.node,
                            node.plain ? "accepts connections without a token: confirm with --plain"
                                       : "requires a token: give --token FILE, or a folder of tokens"));
  if (options.plain) {
    target.request.vgpu = options.vgpu.empty() ? node.vgpu : options.vgpu;
    return target;
  }
  target.request.token = TokenOf(options, node.node);
  if (target.request.token.empty())
    return Fail(Errc::kNotFound, fmt::format("no token for node {} in {}", node.node, options.token));
  return target;
}

}  // namespace

Result<std::vector<MigrationTarget>> TargetsIn(const json& nodes, const MigrationOptions& options) {
  const std::vector<Offering> all = OfferingIn(nodes);
  std::vector<MigrationTarget> targets;
  if (options.to != kAnyNode) {
    for (const Offering& node : all) {
      if (node.node != options.to) continue;
      WEIR_TRY(MigrationTarget target, TargetAt(node, options));
      targets.push_back(std::move(target));
      return targets;
    }
    return Fail(Errc::kNotFound, fmt::format("the manager knows no node '{}' that accepts programs ('weir serve "
                                             "--offer-parts'); 'weir nodes' shows which do",
                                             options.to));
  }
  const Bytes need{std::max<std::uint64_t>(options.room.count, 1)};
  std::string why = "no other node accepts programs ('weir serve --offer-parts')";
  std::vector<core::KnownNode> known;
  std::vector<NodeId> ids;
  for (const Offering& node : all) {
    if (node.address == options.away_from) continue;
    if (node.known.room < need) {
      why = fmt::format("node {} has {} MiB free, but {} MiB are needed", node.node, node.known.room->count >> 20,
                        need.count >> 20);
      continue;
    }
    if (const auto target = TargetAt(node, options); !target) {
      why = target.error().message;
      continue;
    }
    known.push_back(node.known);
    ids.push_back(node.known.id);
  }
  core::NodeChoice choice;
  choice.SetNodes(ids);
  for (const NodeId id : core::ChooseKnown(choice, Instant{}, known, need, known.size(), [](NodeId) { return true; })) {
    WEIR_TRY(MigrationTarget target, TargetAt(all[id.value - 1], options));
    targets.push_back(std::move(target));
  }
  if (targets.empty()) return Fail(Errc::kNotFound, why);
  return targets;
}

}  // namespace weir::cli
