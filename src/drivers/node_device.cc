// SPDX-License-Identifier: Apache-2.0
#include "drivers/node_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "http/client.h"
#include "http/json_api.h"

namespace weir::drivers {
namespace {

constexpr int kSightsMax = 3;

Result<nlohmann::json> AskNode(const NodeDevice::Ask& ask, const http::Call& call) {
  WEIR_TRY(const http::Answer answer, ask(call));
  return http::ObjectOf(answer, fmt::format("asked the node's daemon for {} {}", call.method, call.target));
}

Error NotADaemons(const char* what) {
  return Fail(Errc::kProtocol,
              fmt::format("cannot read {} in the reply of the node's daemon; it may have another version", what));
}

/// The list `key` in the reply to a GET.
Result<nlohmann::json> ListOf(const NodeDevice::Ask& ask, const std::string& target, const char* key) {
  WEIR_TRY(nlohmann::json body, AskNode(ask, {.method = "GET", .target = target}));
  const auto list = body.find(key);
  if (list == body.end() || !list->is_array()) return NotADaemons(key);
  for (const nlohmann::json& entry : *list)
    if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string()) return NotADaemons("a name");
  return std::move(*list);
}

/// The number at a path of keys.
Result<double> NumberAt(const nlohmann::json& object, std::initializer_list<const char*> keys) {
  const nlohmann::json* at = &object;
  for (const char* key : keys) {
    if (!at->is_object() || !at->contains(key)) return NotADaemons(key);
    at = &(*at)[key];
  }
  if (!at->is_number()) return NotADaemons(*keys.begin());
  const double value = at->get<double>();
  if (!std::isfinite(value)) return NotADaemons(*keys.begin());
  return value;
}

/// The sale of one device at one moment.
struct Selling {
  bool sells = false;
  double sold = 0;
  double offer = 0;
};

Result<Selling> SellingOf(const NodeDevice::Ask& ask, const std::string& device) {
  WEIR_TRY(const nlohmann::json devices, ListOf(ask, "/v1/devices", "devices"));
  const auto found = std::ranges::find_if(devices, [&](const nlohmann::json& d) { return d["name"] == device; });
  if (found == devices.end()) return Fail(Errc::kNotFound, fmt::format("the node has no device '{}' any more", device));
  if (!found->contains("oversell") || !(*found)["oversell"].contains("mode")) return NotADaemons("oversell");
  Selling selling{.sells = (*found)["oversell"]["mode"] != "off"};
  WEIR_TRY(selling.sold, NumberAt(*found, {"oversell", "sold"}));
  WEIR_TRY(const double guaranteed, NumberAt(*found, {"oversell", "offer", "guaranteed"}));
  WEIR_TRY(const double oversold, NumberAt(*found, {"oversell", "offer", "oversold"}));
  selling.offer = std::max(guaranteed, oversold);  // two alternative ways to sell the same capacity
  return selling;
}

}  // namespace

Result<NodeDevice> NodeDevice::Find(Ask ask, std::string device, std::string prefix) {
  WEIR_TRY(const nlohmann::json devices, ListOf(ask, "/v1/devices", "devices"));
  std::string names;
  for (const nlohmann::json& entry : devices) names += (names.empty() ? "" : ", ") + entry["name"].get<std::string>();
  if (device.empty()) {
    if (devices.size() != 1)
      return Fail(Errc::kInvalidArgument,
                  fmt::format("the node has {} devices ({}): give --device", devices.size(), names));
    device = devices[0]["name"].get<std::string>();
  } else if (std::ranges::none_of(devices, [&](const nlohmann::json& entry) { return entry["name"] == device; })) {
    return Fail(Errc::kNotFound, fmt::format("the node has no device named '{}'; it has: {}", device, names));
  }
  return NodeDevice(std::move(ask), std::move(device), std::move(prefix));
}

Result<NodeView> NodeDevice::See() const {
  WEIR_TRY(Selling before, SellingOf(ask_, device_));
  for (int sight = 0; sight < kSightsMax; ++sight) {
    WEIR_TRY(const nlohmann::json vgpus, ListOf(ask_, "/v1/vgpus", "vgpus"));
    WEIR_TRY(const Selling after, SellingOf(ask_, device_));
    // A vGPU that is made in between would count twice: as sold and as offered.
    if (before.sold != after.sold) {
      before = after;
      continue;
    }
    NodeView view{.sells = after.sells, .offer = std::min(before.offer, after.offer), .vgpus = {}};
    for (const nlohmann::json& entry : vgpus) {
      const auto on = entry.find("device");
      if (!IsConsumersVgpu(prefix_, entry["name"]) || on == entry.end() || *on != device_) continue;
      ConsumerVgpu vgpu{.name = entry["name"].get<std::string>()};
      WEIR_TRY(vgpu.cap, NumberAt(entry, {"settings", "cap"}));
      WEIR_TRY(vgpu.weight, NumberAt(entry, {"settings", "weight"}));
      const auto processes = entry.find("processes");
      vgpu.attached = processes != entry.end() && processes->is_array() && !processes->empty();
      view.vgpus.push_back(std::move(vgpu));
    }
    return view;
  }
  return Fail(Errc::kBusy, fmt::format("the sold part of '{}' changed at each of {} checks", device_, kSightsMax));
}

Status NodeDevice::Do(const Action& action) const {
  const std::string target = "/v1/vgpus/" + http::PercentEncode(action.vgpu);
  http::Call call;
  switch (action.kind) {
    case ActionKind::kMakeVgpu: {
      nlohmann::json body{
          {"name", action.vgpu}, {"device", device_}, {"cap", action.cap}, {"weight", WeightOf(action.shares)}};
      if (action.uid) body["owner_uid"] = *action.uid;
      call = {.method = "POST", .target = "/v1/vgpus", .body = body.dump()};
      break;
    }
    case ActionKind::kResize:
    case ActionKind::kSqueeze: {
      nlohmann::json body{{"cap", action.cap}};
      if (action.kind == ActionKind::kResize) body["weight"] = WeightOf(action.shares);
      call = {.method = "PATCH", .target = target, .body = body.dump()};
      break;
    }
    case ActionKind::kRemoveVgpu: call = {.method = "DELETE", .target = target}; break;
    default: return Fail(Errc::kInternal, "not an action on a node");
  }
  const auto done = AskNode(ask_, call);
  if (done) return Ok();
  const bool there = action.kind == ActionKind::kMakeVgpu && done.error().code == Errc::kAlreadyExists;
  const bool gone = action.kind == ActionKind::kRemoveVgpu && done.error().code == Errc::kNotFound;
  if (there || gone) return Ok();
  return done.error();
}

}  // namespace weir::drivers
