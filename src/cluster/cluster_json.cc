// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_json.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "http/fields.h"
#include "modules/run_json.h"

namespace weir::cluster {
namespace {

using engine::ClusterRun;
using engine::RunState;
using http::ReadNumber;
using http::ReadString;
using http::ReadUnsigned;
using http::WrongField;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::array<const char*, core::kLoadKinds> kLoadFields{"local_memory", "traffic", "threads", "blocks"};
constexpr std::array kRecordKinds{"run/", "node/", "module/"};  // indexed by RecordWrite::Kind
constexpr std::array kRunStates{RunState::kWaiting, RunState::kRunning, RunState::kDone, RunState::kFailed};

Status ReadAttempt(const json& body, std::uint32_t& value) {
  // A truncated number could equal another attempt's number.
  std::uint64_t count = value;
  WEIR_TRY_STATUS(ReadUnsigned(body, "attempt", count, std::numeric_limits<std::uint32_t>::max()));
  value = static_cast<std::uint32_t>(count);
  return Ok();
}

Result<RunState> StateOf(const std::string& name) {
  for (const RunState state : kRunStates)
    if (NameOf(state) == name) return state;
  return WrongField("state", "waiting, running, done or failed", json(name));
}

ordered_json JsonOfNeed(const core::RunNeed& need, bool alone) {
  ordered_json body{{"memory_bytes", need.memory.count}};
  for (std::size_t i = 0; i < core::kLoadKinds; ++i) body[kLoadFields[i]] = need.loads[i];
  if (alone) body["alone_s"] = static_cast<double>(need.alone_ms) / 1e3;
  return body;
}

/// Reads the fields of a need. True: they include the run's time alone.
Result<bool> TakeNeed(const json& body, core::RunNeed& need) {
  if (!body.is_object()) return WrongField("need", "an object", body);
  WEIR_TRY_STATUS(ReadUnsigned(body, "memory_bytes", need.memory.count));
  for (std::size_t i = 0; i < core::kLoadKinds; ++i) WEIR_TRY_STATUS(ReadUnsigned(body, kLoadFields[i], need.loads[i]));
  if (!body.contains("alone_s")) return false;
  double alone = 0;
  WEIR_TRY_STATUS(ReadNumber(body, "alone_s", alone));
  if (!(alone > 0) || alone > static_cast<double>(core::kAloneMaxMs) / 1e3)
    return WrongField("alone_s", "a number over 0 and at most 16777", body["alone_s"]);
  need.alone_ms = modules::WholeMilliseconds(alone);
  return true;
}

Result<ClusterRun> RunOf(const std::string& id, const json& body) {
  ClusterRun run;
  run.id = id;
  std::string state;
  WEIR_TRY_STATUS(ReadUnsigned(body, "number", run.number));
  WEIR_TRY_STATUS(ReadAttempt(body, run.attempt));
  WEIR_TRY_STATUS(ReadString(body, "state", state));
  WEIR_TRY(run.state, StateOf(state));
  WEIR_TRY_STATUS(ReadString(body, "node", run.node));
  WEIR_TRY_STATUS(ReadString(body, "device", run.device));
  WEIR_TRY_STATUS(ReadString(body, "tenant", run.tenant));
  WEIR_TRY(run.request, RequestOf(body.value("request", json::object())));
  if (body.contains("result")) {
    WEIR_TRY(run.result, ResultOf(body["result"]));
  }
  if (run.number == 0) return WrongField("number", "a whole number of 1 or more", body.value("number", json()));
  return run;
}

ordered_json RecordOf(const ClusterRun& run) {
  ordered_json body{{"number", run.number}, {"attempt", run.attempt}, {"state", NameOf(run.state)},
                    {"node", run.node},     {"device", run.device},   {"request", JsonOf(run.request)}};
  if (!run.tenant.empty()) body["tenant"] = run.tenant;
  if (run.ended()) body["result"] = JsonOf(run.result);
  return body;
}
ordered_json RecordOf(const engine::ClusterNode& node) {
  ordered_json body{{"identity", node.identity}, {"devices", ordered_json::array()}};
  for (const engine::NodeDevice& device : node.devices) body["devices"].push_back(JsonOf(device));
  return body;
}
ordered_json RecordOf(const engine::ClusterModule& module) {
  ordered_json body = JsonOf(module);
  body.erase("module");
  return body;
}

}  // namespace

Result<engine::RunRequest> RequestOf(const json& body) {
  WEIR_TRY_STATUS(
      http::ExpectOnly(body, {"module", "blob", "kernel", "arguments", "input", "device", "need", "seconds_max"}));
  if (body.contains("device"))
    return Fail(Errc::kInvalidArgument,
                "the manager chooses the device; omit 'device', or send the run to the node itself");
  engine::RunRequest request;
  WEIR_TRY_STATUS(ReadString(body, "module", request.module));
  WEIR_TRY_STATUS(ReadString(body, "blob", request.blob));
  WEIR_TRY_STATUS(ReadString(body, "kernel", request.kernel));
  WEIR_TRY_STATUS(ReadString(body, "arguments", request.arguments));
  WEIR_TRY_STATUS(ReadString(body, "input", request.input));
  WEIR_TRY_STATUS(ReadNumber(body, "seconds_max", request.seconds_max));
  if (body.contains("need")) {
    WEIR_TRY(request.need_alone, TakeNeed(body["need"], request.need));
  }
  if (request.module.empty()) return Fail(Errc::kInvalidArgument, "'module' is needed: the name of a module");
  return request;
}

ordered_json JsonOf(const engine::RunRequest& request) {
  ordered_json body{{"module", request.module}, {"blob", request.blob}, {"kernel", request.kernel}};
  if (!request.arguments.empty()) body["arguments"] = request.arguments;
  if (!request.input.empty()) body["input"] = request.input;
  if (request.need != core::RunNeed{} || request.need_alone)
    body["need"] = JsonOfNeed(request.need, request.need_alone);
  body["seconds_max"] = request.seconds_max;
  return body;
}

ordered_json ShownRun(const ClusterRun& run) {
  ordered_json body{{"id", run.id},
                    {"module", run.request.module},
                    {"blob", run.request.blob},
                    {"kernel", run.request.kernel},
                    {"state", NameOf(run.state)},
                    {"attempt", run.attempt}};
  if (!run.tenant.empty()) body["tenant"] = run.tenant;
  if (!run.node.empty()) {
    body["node"] = run.node;
    body["device"] = run.device;
  }
  if (!run.ended()) return body;
  if (!run.result.output.empty()) body["output"] = run.result.output;
  if (!run.result.text.empty()) body["text"] = run.result.text;
  if (run.result.failed) body["error"] = {{"code", run.result.error_code}, {"message", run.result.error_message}};
  body["seconds"] = run.result.seconds;
  body["ran_beside"] = run.result.ran_beside;
  return body;
}

ordered_json JsonOf(engine::RunAttempt attempt) { return {{"number", attempt.number}, {"attempt", attempt.attempt}}; }

Result<engine::RunAttempt> AttemptOf(const json& body) {
  if (!body.is_object()) return WrongField("runs", "objects of 'number' and 'attempt'", body);
  engine::RunAttempt attempt;
  WEIR_TRY_STATUS(ReadUnsigned(body, "number", attempt.number));
  WEIR_TRY_STATUS(ReadAttempt(body, attempt.attempt));
  return attempt;
}

Result<engine::RunResult> ResultOf(const json& body) {
  if (!body.is_object()) return WrongField("result", "an object", body);
  engine::RunResult result;
  std::string state;
  WEIR_TRY_STATUS(ReadString(body, "state", state));
  if (state != "done" && state != "failed") return WrongField("state", "done or failed", json(state));
  result.failed = state == "failed";
  WEIR_TRY_STATUS(ReadString(body, "output", result.output));
  WEIR_TRY_STATUS(ReadString(body, "text", result.text));
  WEIR_TRY_STATUS(ReadNumber(body, "seconds", result.seconds));
  WEIR_TRY_STATUS(ReadNumber(body, "ran_beside", result.ran_beside));
  const json error = body.value("error", json::object());
  if (!error.is_object()) return WrongField("error", "an object", error);
  WEIR_TRY_STATUS(ReadString(error, "code", result.error_code));
  WEIR_TRY_STATUS(ReadString(error, "message", result.error_message));
  return result;
}

ordered_json JsonOf(const engine::RunResult& result) {
  ordered_json body{{"state", result.failed ? "failed" : "done"}};
  if (!result.output.empty()) body["output"] = result.output;
  if (!result.text.empty()) body["text"] = result.text;
  if (result.failed) body["error"] = {{"code", result.error_code}, {"message", result.error_message}};
  body["seconds"] = result.seconds;
  body["ran_beside"] = result.ran_beside;
  return body;
}

ordered_json JsonOf(const engine::ClusterModule& module) {
  ordered_json kernels = ordered_json::array();
  for (const engine::ModuleKernel& kernel : module.kernels)
    kernels.push_back(
        {{"name", kernel.name}, {"summary", kernel.summary}, {"need", JsonOfNeed(kernel.need, /*alone=*/true)}});
  return {{"module", module.name}, {"blob", module.blob}, {"kernels", std::move(kernels)}};
}

Result<std::vector<engine::ModuleKernel>> KernelsOf(const json& list) {
  if (!list.is_array()) return WrongField("kernels", "a list", list);
  std::vector<engine::ModuleKernel> kernels;
  for (const json& body : list) {
    if (!body.is_object()) return WrongField("kernels", "a list of objects", body);
    engine::ModuleKernel kernel;
    WEIR_TRY_STATUS(ReadString(body, "name", kernel.name));
    WEIR_TRY_STATUS(ReadString(body, "summary", kernel.summary));
    if (body.contains("need")) WEIR_TRY_STATUS(TakeNeed(body["need"], kernel.need));
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

Result<std::vector<engine::NodeDevice>> DevicesOf(const json& list) {
  if (!list.is_array()) return WrongField("devices", "a list", list);
  std::vector<engine::NodeDevice> devices;
  for (const json& body : list) {
    if (!body.is_object()) return WrongField("devices", "a list of objects", body);
    engine::NodeDevice device;
    std::uint64_t runs_max = device.capacity.runs_max;
    WEIR_TRY_STATUS(ReadString(body, "name", device.name));
    WEIR_TRY_STATUS(ReadUnsigned(body, "memory_bytes", device.capacity.memory.count));
    WEIR_TRY_STATUS(ReadUnsigned(body, "concurrent_max", runs_max));
    for (std::size_t i = 0; i < core::kLoadKinds; ++i)
      WEIR_TRY_STATUS(ReadUnsigned(body, kLoadFields[i], device.capacity.loads[i]));
    device.capacity.runs_max = static_cast<std::uint32_t>(std::min<std::uint64_t>(runs_max, core::kRunsAtOnceMax + 1));
    devices.push_back(std::move(device));
  }
  return devices;
}

ordered_json JsonOf(const engine::NodeDevice& device) {
  ordered_json body{{"name", device.name},
                    {"memory_bytes", device.capacity.memory.count},
                    {"concurrent_max", device.capacity.runs_max}};
  for (std::size_t i = 0; i < core::kLoadKinds; ++i) body[kLoadFields[i]] = device.capacity.loads[i];
  return body;
}

Result<engine::PartsOffer> OfferOf(const json& body) {
  if (!body.is_object()) return WrongField("offer", "an object", body);
  engine::PartsOffer offer;
  WEIR_TRY_STATUS(ReadString(body, "vgpu", offer.vgpu));
  WEIR_TRY_STATUS(ReadString(body, "address", offer.address));
  WEIR_TRY_STATUS(ReadString(body, "device", offer.device));
  WEIR_TRY_STATUS(ReadString(body, "driver", offer.driver));
  WEIR_TRY_STATUS(ReadUnsigned(body, "room_bytes", offer.room.count));
  WEIR_TRY_STATUS(ReadUnsigned(body, "threads", offer.threads));
  WEIR_TRY_STATUS(http::ReadBool(body, "plain", offer.plain));
  return offer;
}

ordered_json JsonOf(const engine::PartsOffer& offer) {
  return {{"vgpu", offer.vgpu},      {"address", offer.address}, {"plain", offer.plain},
          {"device", offer.device},  {"driver", offer.driver},   {"room_bytes", offer.room.count},
          {"threads", offer.threads}};
}

Change ChangeOf(const engine::RecordWrite& write) {
  Change change{std::string(kRecordPrefix) + kRecordKinds[static_cast<std::size_t>(write.kind)] + write.name, {}};
  if (write.record)
    change.value = std::visit([](const auto& record) { return RecordOf(record); }, *write.record)
                       .dump(-1, ' ', false, json::error_handler_t::replace);
  return change;
}

Result<engine::ClusterRecords> RecordsOf(const std::vector<Entry>& entries) {
  engine::ClusterRecords records;
  for (const Entry& entry : entries) {
    const Error bad = Fail(Errc::kProtocol, "the record " + entry.key + " cannot be read by this manager");
    if (!entry.key.starts_with(kRecordPrefix)) return bad;
    const std::string_view rest = std::string_view(entry.key).substr(kRecordPrefix.size());
    const std::size_t slash = rest.find('/');
    if (slash == std::string_view::npos) return bad;
    const std::string_view kind = rest.substr(0, slash + 1);
    const std::string name(rest.substr(slash + 1));
    const auto body = http::ParseObject(entry.value);
    if (!body) return bad;
    if (kind == kRecordKinds[0]) {
      auto run = RunOf(name, *body);
      if (!run) return Fail(Errc::kProtocol, bad.message + ": " + run.error().message);
      records.runs.push_back(std::move(*run));
    } else if (kind == kRecordKinds[1]) {
      engine::ClusterNode node{.name = name, .identity = {}, .devices = {}};
      WEIR_TRY_STATUS(ReadString(*body, "identity", node.identity));
      WEIR_TRY(node.devices, DevicesOf(body->value("devices", json::array())));
      records.nodes.push_back(std::move(node));
    } else if (kind == kRecordKinds[2]) {
      engine::ClusterModule module{.name = name, .blob = {}};
      WEIR_TRY_STATUS(ReadString(*body, "blob", module.blob));
      WEIR_TRY(module.kernels, KernelsOf(body->value("kernels", json::array())));
      records.modules.push_back(std::move(module));
    } else {
      return bad;
    }
  }
  return records;
}

}  // namespace weir::cluster
