// SPDX-License-Identifier: Apache-2.0
#include "daemon/status_json.h"

#include <algorithm>

#include "daemon/json_fields.h"

namespace weir::daemon {
namespace {

using nlohmann::ordered_json;

ordered_json ToJson(const gate::ProcessInfo& process) {
  return {{"id", process.id.value},
          {"pid", process.pid},
          {"program", process.program},
          {"api", proto::NameOf(process.api)},
          {"renderer", process.renderer},
          {"meter", proto::NameOf(process.meter)},
          {"presents", proto::Draws(process.api) && !process.off_screen},
          {"memory_bytes", process.memory.count}};
}

ordered_json ToJson(const core::FrameWindow& window, const engine::VgpuStatus& status) {
  return {{"span_ns", window.span.count()},
          {"frames", window.frames},
          {"fps", window.fps},
          {"frame_ms_mean", MillisecondsOf(window.mean)},
          {"frame_ms_p50", MillisecondsOf(window.p50)},
          {"frame_ms_p95", MillisecondsOf(window.p95)},
          {"frame_ms_p99", MillisecondsOf(window.p99)},
          {"frame_ms_max", MillisecondsOf(window.max)},
          {"gpu_use", status.gpu_use},
          {"gpu_share", status.gpu_share},
          {"wait_share", window.wait_share},
          {"pace_share", window.pace_share}};
}

ordered_json MemoryJson(const engine::VgpuStatus& status) {
  ordered_json out{{"elastic", status.memory.elastic},
                   {"min_slots", status.memory_min},
                   {"max_slots", status.memory.max},
                   {"held_slots", status.memory.elastic ? status.memory.limit : 0},
                   {"here_slots", status.memory.here},
                   {"waits", status.memory_waits},
                   {"rounding", engine::MemoryRoundingText(status.settings)},
                   {"beyond", status.memory_beyond}};
  proto::ExecutorStatistics::Fields([&](const proto::StatisticInfo& info, auto member, auto) {
    if (info.name != nullptr) out[info.name] = proto::NumberOf(status.memory_sample.stats.*member);
  });
  return out;
}

/// Null where no rate and no latency is promised.
ordered_json ToJson(const engine::PromiseStatus& promise) {
  if (!promise.given) return nullptr;
  ordered_json out{{"kept_by_policy", promise.kept_by_policy},
                   {"fits", engine::NameOf(promise.fit)},
                   {"frame_gpu_ns", promise.cost.each.count()},
                   {"loops", promise.cost.loops},
                   {"need", promise.need},
                   {"others_need", promise.others},
                   {"others_unknown", promise.others_unknown},
                   {"text", promise.text},
                   {"warnings", promise.warnings}};
  if (promise.cost.loops == 0) out["need"] = nullptr;
  return out;
}

/// Parameters that have named choices are written as those names.
ordered_json ParamsJson(const std::string& policy, const core::PolicyParams& params) {
  ordered_json out = ordered_json::object();
  for (const auto& [name, value] : params) {
    const std::string_view choice = core::NameOfChoice(policy, name, value);
    if (choice.empty())
      out[name] = value;
    else
      out[name] = choice;
  }
  return out;
}

ordered_json OversellJson(const engine::DeviceStatus& device) {
  const core::Account& account = device.account;
  return {{"mode", core::NameOf(device.oversell)},
          {"params", device.oversell_params},
          {"sold", device.sold},
          {"load", device.load},
          {"offer",
           {{"guaranteed", device.offer.guaranteed},
            {"oversold", device.offer.oversold},
            {"reason", core::Words(device.offer)}}},
          {"account",
           {{"revenue", account.revenue},
            {"penalty", account.penalty},
            {"cost", account.cost},
            {"net", account.Net()},
            {"sold_s", account.sold_s},
            {"broken_s", account.broken_s}}}};
}

}  // namespace

ordered_json ToJson(const VgpuReport& vgpu) {
  const engine::VgpuStatus& status = vgpu.status;
  ordered_json out{{"name", status.name},
                   {"id", status.id.value},
                   {"device", status.device},
                   {"state", engine::NameOf(status.state)},
                   {"ephemeral", vgpu.ephemeral},
                   {"owner_uid", vgpu.owner_uid},
                   {"settings", SettingsToJson(status.settings)},
                   {"sale", core::NameOf(status.sale)},
                   {"cap_now", status.cap_now.Fraction()},
                   {"promise", ToJson(vgpu.promise)},
                   {"attach", vgpu.attach},
                   {"opencl", vgpu.opencl},
                   {"environment", vgpu.environment}};
  out["processes"] = ordered_json::array();
  for (const gate::ProcessInfo& process : vgpu.processes) out["processes"].push_back(ToJson(process));
  out["totals"] = {{"frames", status.totals.frames},
                   {"tasks", status.totals.tasks},
                   {"late_frames", status.totals.late_frames},
                   {"broken_frames", status.totals.broken_frames},
                   {"gpu_ns", status.gpu_total.count()},
                   {"wait_ns", status.totals.wait.count()},
                   {"pace_ns", status.totals.pace.count()},
                   {"predicted", status.totals.predicted},
                   {"mispredicted", status.totals.mispredicted},
                   {"records_lost", status.records_lost},
                   {"records_bad", status.records_bad},
                   {"samples_bad", status.samples_bad},
                   {"fail_opens", vgpu.fail_opens},
                   {"settled_ns", status.settled.count()},
                   {"settled_at_ns", NsOf(status.settled_at)}};
  out["memory"] = MemoryJson(status);
  out["use"] = {{"work_items", vgpu.use.work_items},
                {"memory_bytes", vgpu.use.memory.count},
                {"program_memory_bytes", vgpu.program_memory.count}};
  out["window"] = ToJson(status.window, status);
  return out;
}

ordered_json MemoryJson(const engine::MemoryStatus& memory) {
  ordered_json params = ordered_json::object();
  for (const auto& [name, value] : memory.params) {
    const auto* param = std::ranges::find(core::kBalloonParams, name, &core::PolicyParam::name);
    if (param->choices.empty())
      params[name] = value;
    else
      params[name] = param->choices[static_cast<std::size_t>(value)];
  }
  return {{"slots", memory.slots},
          {"slot_bytes", kSlotBytes.count},
          {"size_slots", memory.size},
          {"others_slots", memory.others},
          {"held_slots", memory.held},
          {"guaranteed_slots", memory.guaranteed},
          {"overhead", memory.overhead},
          {"steal_percent", memory.steal},
          {"copying_percent", memory.copying},
          {"pressure", core::NameOf(memory.pressure)},
          {"switches", memory.switches},
          {"params", std::move(params)}};
}

ordered_json MapJson(const engine::MemoryMap& map) {
  ordered_json out{{"sharers", ordered_json::array()},
                   {"owners", ordered_json::array()},
                   {"leaving", ordered_json::array()},
                   {"holders", ordered_json::array()}};
  for (const engine::SlotStatus& slot : map.slots) {
    out["sharers"].push_back(slot.sharers);
    out["owners"].push_back(slot.owner.value);
    out["leaving"].push_back(slot.leaving);
  }
  for (const engine::MemoryHolder& holder : map.holders) {
    ordered_json ranges = ordered_json::array();
    for (const core::SlotRange& range : holder.holds) ranges.push_back({range.first, range.count});
    out["holders"].push_back({{"name", holder.name}, {"id", holder.id.value}, {"ranges", std::move(ranges)}});
  }
  return out;
}

ordered_json ToJson(const engine::DeviceStatus& device) {
  return {
      {"name", device.spec.name},
      {"kind", device.spec.kind},
      {"cpus", device.spec.cpus},
      {"model", device.spec.model},
      {"uuid", device.spec.uuid},
      {"pci", device.spec.pci},
      {"memory_bytes", device.spec.memory.count},
      {"policy", device.policy},
      {"policy_params", ParamsJson(device.policy, device.params)},
      {"keeps_rates", device.keeps_rates},
      {"promised", {{"need", device.promised}, {"unknown", device.promised_unknown}, {"fits", device.promises_fit}}},
      {"warnings", device.warnings},
      {"vgpus", device.vgpus},
      {"gpu_use", device.gpu_use},
      {"gpu_ns_total", device.gpu_total.count()},
      {"oversell", OversellJson(device)},
      {"memory", MemoryJson(device.memory)}};
}

ordered_json ToJson(std::span<const core::PolicyParam> params) {
  ordered_json out = ordered_json::array();
  for (const core::PolicyParam& param : params) {
    out.push_back({{"name", param.name},
                   {"unit", param.unit},
                   {"default", param.preset},
                   {"min", param.min},
                   {"max", param.max},
                   {"summary", param.summary}});
    if (!param.choices.empty()) out.back()["choices"] = param.choices;
  }
  return out;
}

ordered_json PoliciesJson() {
  ordered_json out{{"policies", ordered_json::array()}};
  for (const core::PolicyEntry& entry : core::PolicyTable())
    out["policies"].push_back({{"name", entry.name},
                               {"summary", entry.summary},
                               {"keeps_rates", entry.rates.keeps},
                               {"keeps_rates_unless_zero", entry.rates.off_at_zero},
                               {"params", ToJson(entry.params)}});
  return out;
}

}  // namespace weir::daemon
