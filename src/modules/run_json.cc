// SPDX-License-Identifier: Apache-2.0
#include "modules/run_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "http/fields.h"
#include "http/json_api.h"
#include "modules/sha256.h"

namespace weir::modules {
namespace {

using nlohmann::ordered_json;

constexpr double kSecondsMax = 24 * 3600;

struct LoadField {
  const char* name;
  core::LoadKind kind;
};
constexpr std::array kLoadFields{
    LoadField{"local_memory", core::LoadKind::kLocal}, LoadField{"traffic", core::LoadKind::kTraffic},
    LoadField{"threads", core::LoadKind::kThreads}, LoadField{"blocks", core::LoadKind::kBlocks}};

Error BadField(std::string_view field, std::string_view wants) {
  return Fail(Errc::kInvalidArgument, fmt::format("'{}' is {}", field, wants));
}

Result<std::string> TextField(const nlohmann::json& object, const char* field, std::size_t max) {
  std::string text;
  WEIR_TRY_STATUS(http::ReadString(object, field, text, max));
  return text;
}

Result<double> NumberField(const nlohmann::json& object, const char* field, double fallback, double max) {
  double number = fallback;
  WEIR_TRY_STATUS(http::ReadNumber(object, field, number, 0, max));
  return number;
}

}  // namespace

Result<core::Loads> LoadsIn(const nlohmann::json& object) {
  core::Loads loads{};
  for (const LoadField& load : kLoadFields) {
    WEIR_TRY(const double value, NumberField(object, load.name, 0, static_cast<double>(core::kLoadMax)));
    loads[static_cast<std::size_t>(load.kind)] = static_cast<std::uint64_t>(value);
  }
  return loads;
}

std::uint64_t WholeMilliseconds(double seconds) {
  if (!(seconds > 0)) return 0;
  // 2.007 * 1e3 is slightly more than 2007, which must not become 2008.
  const double ms = seconds * 1e3, nearest = std::round(ms);
  return static_cast<std::uint64_t>(std::max(1.0, std::abs(ms - nearest) < 1e-6 ? nearest : std::ceil(ms)));
}

Result<core::RunNeed> NeedFrom(const nlohmann::json& object) {
  if (!object.is_object()) return BadField("need", "an object");
  for (const auto& [field, value] : object.items())
    if (field != "memory_bytes" && field != "alone_s" &&
        std::ranges::none_of(kLoadFields, [&field = field](const LoadField& load) { return field == load.name; }))
      return Fail(Errc::kInvalidArgument, "'need' has no '" + field + "'");
  core::RunNeed need;
  WEIR_TRY(const double memory, NumberField(object, "memory_bytes", 0, 0x1.0p62));
  need.memory.count = static_cast<std::uint64_t>(memory);
  WEIR_TRY(need.loads, LoadsIn(object));
  WEIR_TRY(const double alone, NumberField(object, "alone_s", 1, static_cast<double>(core::kAloneMaxMs) / 1e3));
  need.alone_ms = WholeMilliseconds(alone);
  WEIR_TRY_STATUS(core::CheckNeed(need));
  return need;
}

ordered_json NeedJson(const core::RunNeed& need) {
  ordered_json object{{"memory_bytes", need.memory.count}};
  for (const LoadField& load : kLoadFields) object[load.name] = need.loads[static_cast<std::size_t>(load.kind)];
  object["alone_s"] = static_cast<double>(need.alone_ms) / 1e3;
  return object;
}

Result<core::DeviceCapacity> CapacityFrom(const nlohmann::json& device) {
  core::DeviceCapacity capacity;
  WEIR_TRY(const double memory, NumberField(device, "memory_bytes", 0, 0x1.0p62));
  WEIR_TRY(const double runs, NumberField(device, "concurrent_max", 16, core::kRunsAtOnceMax));
  capacity.memory.count = static_cast<std::uint64_t>(memory);
  capacity.runs_max = static_cast<std::uint32_t>(runs);
  for (const LoadField& load : kLoadFields) {
    WEIR_TRY(const double value, NumberField(device, load.name, 1, static_cast<double>(core::kLoadMax)));
    capacity.loads[static_cast<std::size_t>(load.kind)] = static_cast<std::uint64_t>(value);
  }
  WEIR_TRY_STATUS(core::CheckDevice(capacity));
  return capacity;
}

ordered_json CapacityJson(const core::DeviceCapacity& capacity) {
  ordered_json object{{"memory_bytes", capacity.memory.count}, {"concurrent_max", capacity.runs_max}};
  for (const LoadField& load : kLoadFields) object[load.name] = capacity.loads[static_cast<std::size_t>(load.kind)];
  return object;
}

Result<nlohmann::json> ObjectFrom(const std::string& body, std::initializer_list<std::string_view> known) {
  WEIR_TRY(nlohmann::json object, http::ParseObject(body));
  WEIR_TRY_STATUS(http::ExpectOnly(object, known));
  return object;
}

Result<RunRequest> RunRequestFrom(const std::string& body) {
  WEIR_TRY(const nlohmann::json object, ObjectFrom(body, {"module", "blob", "kernel", "arguments", "input", "device",
                                                          "need", "measure", "seconds_max"}));
  RunRequest request;
  RunSpec& spec = request.spec;
  spec.request = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  WEIR_TRY(spec.module, TextField(object, "module", kKernelNameMax));
  WEIR_TRY(spec.kernel, TextField(object, "kernel", kKernelNameMax));
  WEIR_TRY(spec.arguments, TextField(object, "arguments", kTextBytesMax));
  WEIR_TRY(spec.blob, TextField(object, "blob", 64));
  WEIR_TRY(spec.input, TextField(object, "input", 64));
  WEIR_TRY(spec.device, TextField(object, "device", kKernelNameMax));
  if (!IsPlainName(spec.module)) return BadField("module", "the name of a module");
  if (!IsPlainName(spec.kernel)) return BadField("kernel", "the name of one of the module's kernels");
  if (spec.arguments.find('\0') != std::string::npos) return BadField("arguments", "a text without zeros");
  for (const std::string* blob : {&spec.blob, &spec.input})
    if (!blob->empty() && !IsSha256(*blob)) return BadField("blob' and 'input", "the SHA-256 of a blob");
  WEIR_TRY(const double limit, NumberField(object, "seconds_max", 60, kSecondsMax));
  if (limit <= 0) return BadField("seconds_max", "more than 0");
  spec.time_max = FromSeconds(limit);
  if (object.contains("measure")) {
    if (!object["measure"].is_boolean()) return BadField("measure", "true or false");
    spec.measure = object["measure"].get<bool>();
  }
  request.has_need = object.contains("need");
  if (request.has_need) {
    WEIR_TRY(spec.need, NeedFrom(object["need"]));
    spec.measured = object["need"].contains("alone_s");
  }
  return request;
}

ordered_json ToJson(const Run& run, Instant now) {
  ordered_json object{{"id", run.id},
                      {"module", run.spec.module},
                      {"blob", run.spec.blob},
                      {"kernel", run.spec.kernel},
                      {"state", NameOf(run.stage)},
                      {"attempt", run.attempt}};
  if (!run.device_name.empty()) object["device"] = run.device_name;
  if (!run.output.empty()) object["output"] = run.output;
  if (!run.text.empty()) object["text"] = run.text;
  if (run.error) object["error"] = {{"code", NameOf(run.error->code)}, {"message", run.error->message}};
  if (run.attempt > 0 && run.stage != RunStage::kWaiting)
    object["seconds"] = SecondsOf((run.over() ? run.ended : now) - run.started);
  if (run.over()) object["ran_beside"] = run.ran_beside;
  if (run.measured) {
    ordered_json measured;
    for (const LoadField& load : kLoadFields)
      measured[load.name] = run.measured->loads[static_cast<std::size_t>(load.kind)];
    measured["launches"] = run.measured->launches;
    measured["device_ns"] = run.measured->device_ns;
    object["measured"] = std::move(measured);
  }
  return object;
}

ordered_json ToJson(const std::string& name, const RegisteredModule& module) {
  auto kernels = ordered_json::array();
  for (const KernelLine& line : module.kernels)
    kernels.push_back({{"name", line.name}, {"summary", line.summary}, {"need", NeedJson(line.need)}});
  return {{"module", name}, {"blob", module.blob}, {"kernels", std::move(kernels)}};
}

ordered_json ToJson(const RunBook::DeviceView& device, const std::string& model) {
  ordered_json object{{"name", device.name}, {"model", model}};
  object.update(CapacityJson(device.capacity));
  object["running"] = device.running;
  object["waiting"] = device.waiting;
  return object;
}

ordered_json ToJson(const core::InterferenceModel& model) {
  ordered_json object;
  for (const LoadField& load : kLoadFields) object[load.name] = model.weights()[static_cast<std::size_t>(load.kind)];
  object["company"] = model.weights().back();
  object["observations"] = model.observations();
  object["error_rms"] = model.ErrorRms();
  return object;
}

std::string SavedModules(const std::map<std::string, RegisteredModule>& modules) {
  auto list = ordered_json::array();
  for (const auto& [name, module] : modules) list.push_back(ToJson(name, module));
  return ordered_json{{"modules", std::move(list)}}.dump(1, ' ', false, ordered_json::error_handler_t::replace);
}

Result<std::map<std::string, RegisteredModule>> ModulesFrom(const std::string& text) {
  WEIR_TRY(const nlohmann::json object, ObjectFrom(text, {"modules"}));
  std::map<std::string, RegisteredModule> modules;
  if (!object.contains("modules") || !object["modules"].is_array()) return BadField("modules", "a list");
  for (const auto& entry : object["modules"]) {
    if (!entry.is_object() || !entry.contains("kernels") || !entry["kernels"].is_array())
      return BadField("kernels", "a list");
    WEIR_TRY(const std::string name, TextField(entry, "module", kKernelNameMax));
    RegisteredModule& module = modules[name];
    WEIR_TRY(module.blob, TextField(entry, "blob", 64));
    if (!IsPlainName(name) || !IsSha256(module.blob)) return BadField("module", "a name, and 'blob' a SHA-256");
    for (const auto& line : entry["kernels"]) {
      if (!line.is_object()) return BadField("kernels", "a list of objects");
      KernelLine kernel;
      WEIR_TRY(kernel.name, TextField(line, "name", kKernelNameMax));
      WEIR_TRY(kernel.summary, TextField(line, "summary", kSummaryMax));
      if (line.contains("need")) {
        WEIR_TRY(kernel.need, NeedFrom(line["need"]));
      }
      module.kernels.push_back(std::move(kernel));
    }
  }
  return modules;
}

}  // namespace weir::modules
