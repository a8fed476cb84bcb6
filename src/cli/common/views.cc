// SPDX-License-Identifier: Apache-2.0
#include "cli/common/views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/common/text_units.h"

namespace weir::cli {
namespace {

using nlohmann::json;

const json& Field(const json& object, const char* key) {
  static const json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

/// The field if it is a list, otherwise an empty list.
const json& ListField(const json& object, const char* key) {
  static const json kEmpty = json::array();
  const json& field = Field(object, key);
  return field.is_array() ? field : kEmpty;
}

std::vector<std::string> TextsField(const json& object, const char* key) {
  std::vector<std::string> texts;
  for (const json& text : ListField(object, key))
    if (text.is_string()) texts.push_back(text.get<std::string>());
  return texts;
}

bool BoolField(const json& object, const char* key) {
  const json& field = Field(object, key);
  return field.is_boolean() && field.get<bool>();
}

std::uint64_t CountField(const json& object, const char* key) {
  const json& field = Field(object, key);
  return field.is_number_unsigned() ? field.get<std::uint64_t>() : 0;
}

Result<std::string> NameOf(const json& object, const char* what) {
  std::string name = TextField(object, "name");
  if (name.empty()) return Fail(Errc::kProtocol, fmt::format("the daemon's reply contains a {} without a name", what));
  return name;
}

/// CPUs 0,1,2,5 as "0-2,5".
std::string CpuText(const json& cpus) {
  std::string text;
  std::int64_t first = -2, last = -2;
  auto finish = [&] {
    if (first >= 0)
      text += fmt::format("{}{}", text.empty() ? "" : ",",
                          first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  };
  for (const json& cpu : cpus) {
    if (!cpu.is_number_integer()) continue;
    const auto number = cpu.get<std::int64_t>();
    if (number != last + 1) {
      finish();
      first = number;
    }
    last = number;
  }
  finish();
  return text;
}

ProcessView ProcessFromJson(const json& object) {
  const json& presents = Field(object, "presents");  // absent from older daemons
  return {WholeField(object, "pid"),
          TextField(object, "program"),
          TextField(object, "api"),
          TextField(object, "renderer"),
          TextField(object, "meter"),
          presents.is_boolean() ? presents.get<bool>() : TextField(object, "api") != "opencl",
          CountField(object, "memory_bytes")};
}

template <typename T>
Result<std::vector<T>> ListFromJson(const json& reply, const char* key, Result<T> (*read)(const json&)) {
  const json& list = Field(reply, key);
  if (!list.is_array()) return Fail(Errc::kProtocol, fmt::format("the daemon's reply has no list '{}'", key));
  std::vector<T> out;
  for (const json& element : list) {
    WEIR_TRY(T view, read(element));
    out.push_back(std::move(view));
  }
  return out;
}

Result<PolicyView> PolicyFromJson(const json& object) {
  PolicyView policy;
  WEIR_TRY(policy.name, NameOf(object, "policy"));
  policy.summary = TextField(object, "summary");
  policy.keeps_rates = BoolField(object, "keeps_rates");
  policy.params = ParamsFromJson(object);
  return policy;
}

std::vector<std::pair<std::string, double>> NumbersOf(const json& object) {
  std::vector<std::pair<std::string, double>> numbers;
  if (object.is_object())
    for (const auto& [name, value] : object.items())
      if (value.is_number()) numbers.emplace_back(name, value.get<double>());
  return numbers;
}

}  // namespace

std::string TextField(const json& object, const char* key) {
  const json& field = Field(object, key);
  return field.is_string() ? field.get<std::string>() : std::string();
}

double NumberField(const json& object, const char* key) {
  const json& field = Field(object, key);
  return field.is_number() ? field.get<double>() : 0;
}

std::int64_t WholeField(const json& object, const char* key) {
  const json& field = Field(object, key);
  return field.is_number_integer() ? field.get<std::int64_t>() : 0;
}

Result<VgpuView> VgpuFromJson(const json& object) {
  VgpuView v;
  WEIR_TRY(v.name, NameOf(object, "vGPU"));
  v.device = TextField(object, "device");
  v.state = TextField(object, "state");
  v.attach = TextField(object, "attach");
  v.opencl = TextField(object, "opencl");
  v.environment = TextsField(object, "environment");
  v.promise = TextField(Field(object, "promise"), "text");
  const json& kept = Field(Field(object, "promise"), "kept_by_policy");
  v.promise_ignored = kept.is_boolean() && !kept.get<bool>();
  v.warnings = TextsField(Field(object, "promise"), "warnings");
  for (const char* about : {"rounding", "beyond"})
    if (std::string text = TextField(Field(object, "memory"), about); !text.empty())
      v.warnings.push_back(std::move(text));
  v.sale = TextField(object, "sale");
  v.cap_now = NumberField(object, "cap_now");
  v.ephemeral = BoolField(object, "ephemeral");
  const json& s = Field(object, "settings");
  engine::VgpuSettings::Fields([&](const engine::SettingInfo& info, auto member) {
    using Value = std::remove_reference_t<decltype(v.settings.*member)>;
    if constexpr (engine::kIsChoice<Value>) {
      static_cast<void>(engine::SetChoice(v.settings.*member, TextField(s, info.name)));
    } else if (const json& field = Field(s, info.name); field.is_number()) {
      const double number = std::clamp(field.get<double>(), 0.0, engine::kSettingNumberMax<Value>);
      engine::SetSettingNumber(v.settings.*member, number);
    }
  });
  for (const json& process : ListField(object, "processes")) v.processes.push_back(ProcessFromJson(process));
  const json& t = Field(object, "totals");
  v.totals = {WholeField(t, "frames"),     WholeField(t, "late_frames"),   WholeField(t, "gpu_ns"),
              WholeField(t, "wait_ns"),    WholeField(t, "records_lost"),  WholeField(t, "fail_opens"),
              WholeField(t, "settled_ns"), WholeField(t, "settled_at_ns"), WholeField(t, "broken_frames")};
  const json& m = Field(object, "memory");
  v.memory = {BoolField(m, "elastic"),    BoolField(m, "waits"),       CountField(m, "min_slots"),
              CountField(m, "max_slots"), CountField(m, "held_slots"), CountField(m, "here_slots")};
  proto::ExecutorStatistics::Fields([&](const proto::StatisticInfo& info, auto member, auto) {
    if (info.name != nullptr) proto::SetNumber(v.memory.stats.*member, CountField(m, info.name));
  });
  v.memory.objects_bytes = CountField(Field(object, "use"), "memory_bytes");
  v.memory.program_bytes = CountField(Field(object, "use"), "program_memory_bytes");
  const json& w = Field(object, "window");
  v.window = {NumberField(w, "fps"),          NumberField(w, "frame_ms_mean"), NumberField(w, "frame_ms_p99"),
              NumberField(w, "gpu_use"),      NumberField(w, "gpu_share"),     NumberField(w, "wait_share"),
              NumberField(w, "frame_ms_p50"), NumberField(w, "pace_share")};
  return v;
}

Result<DeviceView> DeviceFromJson(const json& object) {
  DeviceView d;
  WEIR_TRY(d.name, NameOf(object, "device"));
  d.kind = TextField(object, "kind");
  d.model = TextField(object, "model");
  d.uuid = TextField(object, "uuid");
  d.pci = TextField(object, "pci");
  d.memory_bytes = CountField(object, "memory_bytes");
  d.policy = TextField(object, "policy");
  d.warnings = TextsField(object, "warnings");
  const json& params = Field(object, "policy_params");
  d.params = NumbersOf(params);
  if (params.is_object())
    for (const auto& [name, value] : params.items()) {
      d.policy_params += fmt::format("{}{}={}", d.policy_params.empty() ? "" : " ", name,
                                     value.is_number()   ? fmt::format("{:g}", value.get<double>())
                                     : value.is_string() ? value.get<std::string>()
                                                         : value.dump());
    }
  d.memory_slots = CountField(Field(object, "memory"), "slots");
  d.cpus = CpuText(ListField(object, "cpus"));
  d.cpu_count = static_cast<std::uint32_t>(ListField(object, "cpus").size());
  d.vgpus = WholeField(object, "vgpus");
  d.gpu_use = NumberField(object, "gpu_use");
  const json& oversell = Field(object, "oversell");
  const json& offer = Field(oversell, "offer");
  const json& account = Field(oversell, "account");
  d.oversell = {TextField(oversell, "mode"),     NumbersOf(Field(oversell, "params")), NumberField(oversell, "sold"),
                NumberField(oversell, "load"),   NumberField(offer, "guaranteed"),     NumberField(offer, "oversold"),
                TextField(offer, "reason"),      NumberField(account, "revenue"),      NumberField(account, "penalty"),
                NumberField(account, "cost"),    NumberField(account, "net"),          NumberField(account, "sold_s"),
                NumberField(account, "broken_s")};
  return d;
}

EventView EventFromJson(const json& object) {
  return {WholeField(object, "utc_ns"), TextField(object, "device"), TextField(object, "kind"),
          TextField(object, "vgpu"), TextField(object, "text")};
}

std::vector<ParamView> ParamsFromJson(const json& reply) {
  std::vector<ParamView> params;
  for (const json& param : ListField(reply, "params")) {
    params.push_back({TextField(param, "name"),
                      TextField(param, "unit"),
                      TextField(param, "summary"),
                      NumberField(param, "default"),
                      NumberField(param, "min"),
                      NumberField(param, "max"),
                      {}});
    for (const json& choice : ListField(param, "choices"))
      if (choice.is_string()) params.back().choices.push_back(choice.get<std::string>());
  }
  return params;
}

Result<std::vector<VgpuView>> VgpusFromJson(const json& reply) { return ListFromJson(reply, "vgpus", VgpuFromJson); }
Result<std::vector<DeviceView>> DevicesFromJson(const json& reply) {
  return ListFromJson(reply, "devices", DeviceFromJson);
}
Result<std::vector<PolicyView>> PoliciesFromJson(const json& reply) {
  return ListFromJson(reply, "policies", PolicyFromJson);
}

double PromisedRate(const VgpuView& vgpu) { return vgpu.settings.promised_rate(); }

const char* RateUnit(const VgpuView& vgpu) {
  const bool computes =
      !vgpu.processes.empty() && std::ranges::all_of(vgpu.processes, [](const ProcessView& p) { return !p.presents; });
  return vgpu.settings.tasks_per_s > 0 || (computes && vgpu.settings.fps <= 0) ? "tasks/s" : "fps";
}

std::string ApiText(const ProcessView& process) {
  return process.api + ((process.api == "gl" || process.api == "vulkan") && !process.presents ? ", off screen" : "");
}

std::string PromiseText(const VgpuView& vgpu) {
  std::string text;
  if (vgpu.settings.fps > 0) text = fmt::format("{:g} fps", vgpu.settings.fps);
  if (vgpu.settings.tasks_per_s > 0) text = fmt::format("{:g} tasks/s", vgpu.settings.tasks_per_s);
  if (vgpu.settings.latency > Duration{})
    text += fmt::format("{}{:g} ms", text.empty() ? "" : ", ", MillisecondsOf(vgpu.settings.latency));
  return text;
}

std::string MemoryText(const VgpuView& vgpu) {
  const engine::VgpuSettings& s = vgpu.settings;
  if (s.memory_min.count == 0 && s.memory_max.count == 0) return "";
  const std::string max = s.memory_max.count == 0 ? "any" : FormatBytes(s.memory_max);
  return s.memory_min.count == 0 ? max : FormatBytes(s.memory_min) + ":" + max;
}

std::string RangeText(const ParamView& p) {
  return p.choices.empty() ? fmt::format("{:g} to {:g} {}", p.min, p.max, p.unit)
                           : fmt::format("{}", fmt::join(p.choices, ", "));
}
std::string DefaultText(const ParamView& p) {
  const auto choice = static_cast<std::size_t>(p.default_value);
  return choice < p.choices.size() ? p.choices[choice] : fmt::format("{:g}", p.default_value);
}

}  // namespace weir::cli
