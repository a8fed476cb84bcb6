// SPDX-License-Identifier: Apache-2.0
// The routes of the control API: what a request asks of the node, and its reply.
#include "daemon/control.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/json_fields.h"
#include "daemon/metrics.h"
#include "daemon/samples_json.h"
#include "daemon/status_json.h"
#include "http/json_api.h"
#include "http/route.h"
#include "platform/clock.h"

namespace weir::daemon {
namespace {

using http::ErrorReply;
using http::JsonReply;
using http::QueryFlag;
using http::QueryNumber;
using http::Reply;
using http::Request;
using nlohmann::ordered_json;

/// Only a driver's account of many processes is longer than http::kLargeBody: 16,384 of them take 1.3 MiB.
constexpr std::size_t kAccountBytesMax = std::size_t{2} << 20;
/// A device whose account was not reported for longer is without one.
constexpr Duration kAccountAwaited = seconds(10);

Result<Reply> CreateVgpu(Node& node, const Request& request) {
  WEIR_TRY(nlohmann::json body, ParseObject(request.body));
  CreateRequest create;
  create.owner_pid = request.peer_pid;
  std::uint64_t owner_uid = request.peer_uid;
  WEIR_TRY_STATUS(TakeString(body, "name", create.name));
  WEIR_TRY_STATUS(TakeString(body, "device", create.device));
  WEIR_TRY_STATUS(TakeBool(body, "best_effort", create.best_effort));
  WEIR_TRY_STATUS(TakeBool(body, "ephemeral", create.ephemeral));
  WEIR_TRY_STATUS(TakeUnsigned(body, "owner_uid", owner_uid));
  WEIR_TRY_STATUS(TakeSettings(body, create.settings));
  WEIR_TRY_STATUS(ExpectNothingLeft(body));
  if (owner_uid != request.peer_uid && request.peer_uid != 0)
    return Fail(Errc::kPermissionDenied, "only root may make a vGPU for another user");
  create.owner_uid = static_cast<uid_t>(owner_uid);
  WEIR_TRY(const VgpuReport made, node.Create(create));
  return JsonReply(ToJson(made), 201);
}

Result<Reply> PatchVgpu(Node& node, const std::string& name, const Request& request) {
  WEIR_TRY(nlohmann::json body, ParseObject(request.body));
  WEIR_TRY(const VgpuReport before, node.Vgpu(name));
  engine::VgpuSettings settings = before.status.settings;
  WEIR_TRY_STATUS(TakeSettings(body, settings));
  WEIR_TRY_STATUS(ExpectNothingLeft(body));
  WEIR_TRY(const VgpuReport after, node.Set(name, settings));
  return JsonReply(ToJson(after));
}

Result<Reply> DeviceReply(Node& node, const std::string& device) {
  for (const engine::DeviceStatus& status : node.Devices())
    if (status.spec.name == device) return JsonReply(ToJson(status));
  return Fail(Errc::kInternal, "the device is lost");
}

Result<Reply> PutPolicy(Node& node, const std::string& device, const Request& request) {
  WEIR_TRY(nlohmann::json body, ParseObject(request.body));
  std::string policy;
  core::PolicyParams params;
  WEIR_TRY_STATUS(TakeString(body, "policy", policy));
  WEIR_TRY_STATUS(TakeParams(body, "params", policy, params));
  WEIR_TRY_STATUS(ExpectNothingLeft(body));
  WEIR_TRY_STATUS(node.SetPolicy(device, policy, params));
  return DeviceReply(node, device);
}

Result<Reply> PutOversell(Node& node, const std::string& device, const Request& request) {
  WEIR_TRY(nlohmann::json body, ParseObject(request.body));
  std::string name;
  core::PolicyParams params;
  WEIR_TRY_STATUS(TakeString(body, "mode", name));
  WEIR_TRY_STATUS(TakeNumbers(body, "params", params));
  WEIR_TRY_STATUS(ExpectNothingLeft(body));
  WEIR_TRY(const core::OversellMode mode, core::ModeNamed(name));
  WEIR_TRY_STATUS(node.SetOversell(device, mode, params));
  return DeviceReply(node, device);
}

Result<Reply> ForgetDevice(Node& node, const std::string& device) {
  WEIR_TRY(const std::vector<std::string> forgotten, node.ForgetDevice(device));
  return JsonReply({{"forgotten", forgotten}});
}

Result<Reply> MemoryReply(Node& node, const std::string& device) {
  for (const engine::DeviceStatus& status : node.Devices()) {
    if (status.spec.name != device) continue;
    WEIR_TRY(const engine::MemoryMap map, node.Memory(device));
    ordered_json out{{"device", device}};
    out.update(MemoryJson(status.memory));
    out["copy_bytes_per_s"] = node.copy_bytes_per_s(device);
    out.update(MapJson(map));
    return JsonReply(out);
  }
  return node.Memory(device).error();  // kNotFound: no device has this name
}

Result<Reply> PutMemory(Node& node, const std::string& device, const Request& request) {
  WEIR_TRY(nlohmann::json body, ParseObject(request.body));
  std::uint64_t size = 0;
  double copy_bytes_per_s = 0;
  core::PolicyParams params;
  WEIR_TRY_STATUS(TakeUnsigned(body, "size_bytes", size));
  WEIR_TRY_STATUS(TakeNumber(body, "copy_bytes_per_s", copy_bytes_per_s));
  WEIR_TRY_STATUS(TakeParams(body, "params", core::kBalloonEntry, params));
  WEIR_TRY_STATUS(ExpectNothingLeft(body));
  WEIR_TRY_STATUS(node.SetMemory(device, Bytes{size}, params, copy_bytes_per_s));
  return MemoryReply(node, device);
}

Result<Reply> PutMemoryUsed(Node& node, const std::string& device, const Request& request) {
  WEIR_TRY(nlohmann::json body, ParseObject(request.body));
  if (!body.contains("used_bytes")) return Fail(Errc::kInvalidArgument, "used_bytes is missing");
  std::uint64_t used = 0;
  WEIR_TRY_STATUS(TakeUnsigned(body, "used_bytes", used));
  WEIR_TRY_STATUS(ExpectNothingLeft(body));
  WEIR_TRY_STATUS(node.SeeDeviceMemory(device, Bytes{used}));
  for (const engine::DeviceStatus& status : node.Devices())
    if (status.spec.name == device)
      return JsonReply({{"device", device}, {"slots", status.memory.slots}, {"others_slots", status.memory.others}});
  return Fail(Errc::kNotFound, "no device named '" + device + "'");
}

/// Billing is computed from these values, so only root and the daemon's own user may report them.
Result<Reply> PutUse(Node& node, const Request& request) {
  if (request.peer_uid != 0 && request.peer_uid != ::geteuid())
    return Fail(Errc::kPermissionDenied, "only root and the daemon's own user may tell the use of devices");
  WEIR_TRY(const std::vector<DeviceUse> uses, DeviceUsesFrom(request.body));
  for (const DeviceUse& use : uses) WEIR_TRY_STATUS(node.SeeDeviceUse(use));
  return JsonReply({{"taken", uses.size()}});
}

constexpr std::array kFrameColumns{"pid",          "surface",     "begin_ns",       "present_ns",     "submit_ns",
                                   "end_ns",       "gpu_ns",      "sync_ns",        "pace_ns",        "wait_ns",
                                   "predicted_ns", "interval_ns", "start_delay_ns", "present_follows"};

Result<Reply> Frames(Node& node, const std::string& name, const Request& request) {
  WEIR_TRY(const std::uint64_t after, QueryNumber(request.query, "after", 0));
  WEIR_TRY(const std::uint64_t limit, QueryNumber(request.query, "limit", FrameLog::kFramesMax));
  WEIR_TRY(const FrameLog::Slice slice, node.Frames(name, after, limit));
  ordered_json out{{"next", slice.next}, {"lost", slice.lost}, {"columns", kFrameColumns}};
  out["frames"] = ordered_json::array();
  for (const gate::HostFrame& f : slice.frames)
    out["frames"].push_back({f.pid, f.surface, f.begin_ns, f.present_ns, f.submit_ns, f.end_ns, f.gpu_ns, f.sync_ns,
                             f.pace_ns, f.wait_ns, f.predicted_ns, f.interval_ns, f.start_delay_ns, f.present_follows});
  return JsonReply(out);
}

Result<Reply> Events(Node& node, const Request& request) {
  WEIR_TRY(const std::uint64_t after, QueryNumber(request.query, "after", 0));
  WEIR_TRY(const std::uint64_t limit, QueryNumber(request.query, "limit", EventLog::kEventsMax));
  const EventLog::Slice slice = node.events().After(after, limit);
  ordered_json out{{"began_ns", NsOf(node.began())}, {"next", slice.next}, {"lost", slice.lost}};
  out["events"] = ordered_json::array();
  for (const NodeEvent& event : slice.events)
    out["events"].push_back({{"number", event.number},
                             {"time_ns", NsOf(event.at)},
                             {"utc_ns", event.utc_ns},
                             {"device", event.note.device},
                             {"kind", event.note.kind},
                             {"vgpu", event.note.vgpu},
                             {"text", event.note.text}});
  return JsonReply(out);
}

Result<Reply> Vgpus(Node& node, const Request& request) {
  if (request.method == "POST") return CreateVgpu(node, request);
  ordered_json out{{"vgpus", ordered_json::array()}};
  for (const VgpuReport& vgpu : node.Vgpus()) out["vgpus"].push_back(ToJson(vgpu));
  return JsonReply(out);
}

Result<Reply> OneVgpu(Node& node, const std::string& name, const Request& request) {
  if (request.method == "PATCH") return PatchVgpu(node, name, request);
  if (request.method == "DELETE") {
    WEIR_TRY(const Removed removed, node.Remove(name, QueryFlag(request.query, "force")));
    return JsonReply({{"removed", name}, {"not_restored", removed == Removed::kNotRestored}});
  }
  WEIR_TRY(const VgpuReport vgpu, node.Vgpu(name));
  return JsonReply(ToJson(vgpu));
}

Result<Reply> PauseVgpu(Node& node, const std::string& name, bool paused) {
  WEIR_TRY(const VgpuReport vgpu, node.Pause(name, paused));
  return JsonReply(ToJson(vgpu));
}

}  // namespace

Result<std::vector<OfferedNode>> OfferedNodesFrom(std::string_view text) {
  WEIR_TRY(nlohmann::json body, ParseObject(text));
  const nlohmann::json list = body.value("nodes", nlohmann::json());
  body.erase("nodes");
  WEIR_TRY_STATUS(ExpectNothingLeft(body));
  if (!list.is_array()) return Fail(Errc::kInvalidArgument, "'nodes' must be a list");
  std::vector<OfferedNode> nodes;
  for (nlohmann::json one : list) {
    if (!one.is_object()) return Fail(Errc::kInvalidArgument, "'nodes' must be a list of objects");
    OfferedNode& node = nodes.emplace_back();
    WEIR_TRY_STATUS(TakeString(one, "node", node.node));
    WEIR_TRY_STATUS(TakeString(one, "address", node.address));
    WEIR_TRY_STATUS(TakeString(one, "vgpu", node.vgpu));
    WEIR_TRY_STATUS(TakeBool(one, "plain", node.plain));
    WEIR_TRY_STATUS(TakeUnsigned(one, "room_bytes", node.room_bytes));
    WEIR_TRY_STATUS(TakeUnsigned(one, "threads", node.threads));
    WEIR_TRY_STATUS(ExpectNothingLeft(one));
  }
  return nodes;
}

namespace {

Result<Reply> PutPeers(const ControlContext& context, const Request& request) {
  if (context.peers == nullptr)
    return Fail(Errc::kNotFound, "this daemon accepts no nodes from a cluster: start it with --peers-token");
  WEIR_TRY(const std::vector<OfferedNode> nodes, OfferedNodesFrom(request.body));
  WEIR_TRY_STATUS(context.peers->Set(nodes));
  return JsonReply({{"taken", nodes.size()}});
}

Reply PeersReply(const ControlContext& context) {
  ordered_json out{{"nodes", ordered_json::array()}};
  if (context.peers == nullptr) return JsonReply(out);
  for (const PeerRelayStatus& peer : context.peers->List())
    out["nodes"].push_back({{"node", peer.offered.node},
                            {"address", peer.offered.address},
                            {"vgpu", peer.offered.vgpu},
                            {"plain", peer.offered.plain},
                            {"room_bytes", peer.offered.room_bytes},
                            {"threads", peer.offered.threads},
                            {"socket", peer.socket},
                            {"why_not", peer.why_not}});
  return JsonReply(out);
}

ordered_json HelpersJson(const ControlContext& context) {
  ordered_json helpers = ordered_json::array();
  if (context.kept == nullptr) return helpers;
  for (const auto& process : *context.kept)
    helpers.push_back({{"name", process->name()}, {"pid", process->pid()}, {"problem", process->problem()}});
  return helpers;
}

/// The devices whose use has been charged as programs report it for a while, although their driver has an account.
std::vector<std::string> WithoutAccount(const Node& node, const ControlContext& context, Instant now) {
  std::vector<std::string> devices = context.with_account;
  std::erase_if(devices, [&](const std::string& device) {
    return now - std::max(node.AccountSeen(device), context.started) <= kAccountAwaited;
  });
  return devices;
}

ordered_json NotRestoredJson(const Node& node) {
  ordered_json list = ordered_json::array();
  for (const auto& [what, why] : node.not_restored()) list.push_back({{"what", what}, {"why", why}});
  return list;
}

Reply StatusReply(Node& node, const ControlContext& context) {
  const Instant now = platform::Now();
  return JsonReply(
      {{"version", WEIR_VERSION},
       {"pid", ::getpid()},
       {"uptime_ns", (now - context.started).count()},
       {"run_dir", context.run_dir},
       {"state_dir", context.state_dir},
       {"keys_dir", context.keys_dir},
       {"private", context.is_private},
       {"isolation", {{"executor_users", node.executor_users().Whose()}, {"missing", node.executor_users().Missing()}}},
       {"now_ns", NsOf(now)},
       {"devices", node.Devices().size()},
       {"vgpus", node.Vgpus().size()},
       {"processes", node.processes()},
       {"looks", node.looks()},
       {"helpers", HelpersJson(context)},
       {"without_account", WithoutAccount(node, context, now)},
       {"not_restored", NotRestoredJson(node)},
       {"not_saved", context.saver == nullptr ? std::string() : context.saver->problem()}});
}

Reply DevicesReply(Node& node) {
  ordered_json out{{"devices", ordered_json::array()}};
  for (const engine::DeviceStatus& device : node.Devices()) out["devices"].push_back(ToJson(device));
  return JsonReply(out);
}

Reply MetricsReply(Node& node, const ControlContext& context) {
  const bool saved = context.saver == nullptr || context.saver->problem().empty();
  return {200, "text/plain; version=0.0.4",
          MetricsText({.vgpus = node.Vgpus(),
                       .devices = node.Devices(),
                       .events = node.events().counts(),
                       .looks = node.looks(),
                       .started_utc_ms = context.started_utc_ms,
                       .saved = saved})};
}

Result<Reply> ReplyTo(Node& node, const ControlContext& context, const Request& request) {
  const http::Route route(request);
  const std::string third = route.Part(2);
  const bool is_account = route.Is("PUT", "/v1/use");
  if (request.body.size() > http::kLargeBody && !is_account)
    return Fail(Errc::kInvalidArgument,
                fmt::format("the body has {} bytes; at most {} are allowed", request.body.size(), http::kLargeBody));
  if (route.Is("GET", "/metrics")) return MetricsReply(node, context);
  if (route.Is("GET", "/v1/status")) return StatusReply(node, context);
  if (route.Is("GET", "/v1/samples")) return Reply{200, "application/json", SamplesJson(node.Samples())};
  if (route.Is("GET", "/v1/devices")) return DevicesReply(node);
  if (route.Is("GET", "/v1/policies")) return JsonReply(PoliciesJson());
  if (route.Is("PUT", "/v1/devices/*/policy")) return PutPolicy(node, third, request);
  if (route.Is("PUT", "/v1/devices/*/oversell")) return PutOversell(node, third, request);
  if (route.Is("GET", "/v1/devices/*/memory")) return MemoryReply(node, third);
  if (route.Is("PUT", "/v1/devices/*/memory")) return PutMemory(node, third, request);
  if (route.Is("PUT", "/v1/devices/*/memory/used")) return PutMemoryUsed(node, third, request);
  if (route.Is("DELETE", "/v1/devices/*/not_restored")) return ForgetDevice(node, third);
  if (is_account) return PutUse(node, request);
  if (route.Is("GET", "/v1/memory/params")) return JsonReply({{"params", ToJson(core::kBalloonParams)}});
  if (route.Is("GET", "/v1/oversell/params")) return JsonReply({{"params", ToJson(core::kOversellParams)}});
  if (route.Is("GET", "/v1/events")) return Events(node, request);
  if (route.Is("GET", "/v1/peers")) return PeersReply(context);
  if (route.Is("PUT", "/v1/peers")) return PutPeers(context, request);
  if (route.Is("GET POST", "/v1/vgpus")) return Vgpus(node, request);
  if (route.Is("GET PATCH DELETE", "/v1/vgpus/*")) return OneVgpu(node, third, request);
  if (route.Is("POST", "/v1/vgpus/*/pause")) return PauseVgpu(node, third, true);
  if (route.Is("POST", "/v1/vgpus/*/resume")) return PauseVgpu(node, third, false);
  if (route.Is("GET", "/v1/vgpus/*/frames")) return Frames(node, third, request);
  if (route.Is("POST", "/v1/shutdown")) {
    context.stop();
    return JsonReply({{"stopping", true}});
  }
  return route.NotFound("docs/protocol/control-api.md");
}

}  // namespace

http::Limits ControlLimits() {
  return {.request_bytes = kAccountBytesMax,
          .large_bytes = 4 * kAccountBytesMax,
          .large_bytes_of_one = 2 * kAccountBytesMax};
}

Control::Control(Node& node, ControlContext context) : node_(node), context_(std::move(context)) {
  const auto started = std::chrono::system_clock::now() - (platform::Now() - context_.started);
  context_.started_utc_ms = std::chrono::duration_cast<milliseconds>(started.time_since_epoch()).count();
}

Reply Control::Handle(const Request& request) noexcept {
  try {
    auto reply = ReplyTo(node_, context_, request);
    return reply ? std::move(*reply) : ErrorReply(reply.error());
  } catch (const std::exception&) {
    return {500, "application/json",
            "{\"error\": {\"code\": \"internal\", \"message\": \"the request could not be carried out\"}}\n"};
  }
}

void Control::Answer(const Request& request, const http::Respond& respond) {
  if (context_.saver == nullptr) return respond(Handle(request));
  if (request.method != "GET" && !context_.saver->MayWait())
    return respond(ErrorReply(Fail(Errc::kUnavailable, "too many changes wait for the disk; try again")));
  const std::uint64_t saves = context_.saver->saves();
  Reply reply = Handle(request);
  if (context_.saver->saves() == saves) return respond(std::move(reply));
  // A disk that does not answer would otherwise let clients that have given up take all places of the control socket.
  const auto held = std::make_shared<http::Respond>(respond);
  if (request.when_gone)
    request.when_gone([waiting = std::weak_ptr(held)] {
      if (const auto gone = waiting.lock()) static_cast<void>(std::exchange(*gone, nullptr));
    });
  context_.saver->WhenSaved([held, reply = std::move(reply)](const Status& saved) mutable {
    const http::Respond to = std::exchange(*held, nullptr);
    if (!to) return;
    if (saved) return to(std::move(reply));
    to(ErrorReply(
        Fail(saved.error().code, "the change takes effect, but it could not be saved and would be lost by a restart: " +
                                     saved.error().message)));
  });
}

}  // namespace weir::daemon
