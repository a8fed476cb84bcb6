// SPDX-License-Identifier: Apache-2.0
// The control API's objects as the command line shows them. Missing fields, or fields of another type, read as 0 or "",
// so that a table also works with an older or newer daemon. Only the name is required.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/vgpu_settings.h"
#include "proto/executor_statistics.h"

namespace weir::cli {

struct ProcessView {
  std::int64_t pid = 0;
  std::string program, api, renderer, meter;
  bool presents = true;            // false: it computes, or renders off screen, and its rate counts tasks
  std::uint64_t memory_bytes = 0;  // device memory that a CUDA program holds
};

struct VgpuView {
  std::string name, device, state, attach, opencl;
  std::vector<std::string> environment{};  // NAME=VALUE, for programs that use the vGPU's device
  std::string sale;                        // "guaranteed", "oversold", "best-effort"
  double cap_now = 0;                      // at most the cap in the settings
  std::string promise;                     // what the promise needs, and whether it fits; "": nothing is promised
  bool promise_ignored = false;            // the device's policy ignores the promise
  std::vector<std::string> warnings{};     // about the promises, including memory
  bool ephemeral = false;
  engine::VgpuSettings settings;  // default values for settings that the daemon does not report
  std::vector<ProcessView> processes;
  struct {
    std::int64_t frames = 0, late_frames = 0, gpu_ns = 0, wait_ns = 0, records_lost = 0, fail_opens = 0;
    std::int64_t settled_ns = 0, settled_at_ns = 0;  // charged by the driver's account, and the time of its reading
    std::int64_t broken_frames = 0;                  // late because they waited for other vGPUs
  } totals;
  struct {
    bool elastic = false, waits = false;
    std::uint64_t min_slots = 0, max_slots = 0, held_slots = 0, here_slots = 0;
    proto::ExecutorStatistics stats{};
    std::uint64_t objects_bytes = 0;  // of all OpenCL objects, elastic or not
    std::uint64_t program_bytes = 0;  // that programs of CUDA and Vulkan hold
  } memory;
  struct {
    double fps = 0, frame_ms_mean = 0, frame_ms_p99 = 0, gpu_use = 0, gpu_share = 0, wait_share = 0;
    double frame_ms_p50 = 0, pace_share = 0;
  } window;
};

struct DeviceView {
  std::string name, kind, policy, policy_params;  // the parameters as "period_ms=1 …"
  std::string cpus;                               // "0-1"
  std::int64_t vgpus = 0;
  double gpu_use = 0;
  std::vector<std::pair<std::string, double>> params{};
  std::string model{}, uuid{}, pci{};  // empty: unknown
  std::uint32_t cpu_count = 0;
  std::uint64_t memory_bytes = 0;       // 0: unknown to the daemon
  std::uint64_t memory_slots = 0;       // 0: the memory is not elastic
  std::vector<std::string> warnings{};  // promises that are not kept
  struct {
    std::string mode;  // "off", "strict", "static", "adaptive"; "": the daemon does not support selling
    std::vector<std::pair<std::string, double>> params{};
    double sold = 0, load = 0;
    double guaranteed = 0, oversold = 0;  // what can be sold now
    std::string reason;                   // why no more can be sold
    double revenue = 0, penalty = 0, cost = 0, net = 0, sold_s = 0, broken_s = 0;
    [[nodiscard]] bool on() const { return !mode.empty() && mode != "off"; }
  } oversell{};
};

struct ParamView {
  std::string name, unit, summary;
  double default_value = 0, min = 0, max = 0;
  std::vector<std::string> choices;  // names of the values 0, 1, …
};
struct EventView {
  std::int64_t utc_ns = 0;
  std::string device, kind, vgpu, text;
};
struct PolicyView {
  std::string name, summary;
  bool keeps_rates = false;
  std::vector<ParamView> params;
};

Result<VgpuView> VgpuFromJson(const nlohmann::json& json);
Result<DeviceView> DeviceFromJson(const nlohmann::json& json);
EventView EventFromJson(const nlohmann::json& json);
/// The replies of GET /v1/vgpus, /v1/devices, /v1/policies and /v1/oversell/params.
Result<std::vector<VgpuView>> VgpusFromJson(const nlohmann::json& reply);
Result<std::vector<DeviceView>> DevicesFromJson(const nlohmann::json& reply);
Result<std::vector<PolicyView>> PoliciesFromJson(const nlohmann::json& reply);
std::vector<ParamView> ParamsFromJson(const nlohmann::json& reply);

/// A field of an object; "" or 0 if it is missing or has another type.
std::string TextField(const nlohmann::json& object, const char* key);
double NumberField(const nlohmann::json& object, const char* key);
std::int64_t WholeField(const nlohmann::json& object, const char* key);

/// The promise as short text: "60 fps", "200 tasks/s", "20 ms", "60 fps, 20 ms" or "".
std::string PromiseText(const VgpuView& vgpu);
/// The promised frames or tasks a second; 0: no rate is promised.
double PromisedRate(const VgpuView& vgpu);
/// The unit of the rate: "fps", or "tasks/s" if the programs only compute or render off screen.
const char* RateUnit(const VgpuView& vgpu);
/// "gl" or "vulkan", with ", off screen" for a program that presents nothing.
std::string ApiText(const ProcessView& process);
/// "64M:1G", "1G" or "" when there is no limit.
std::string MemoryText(const VgpuView& vgpu);
/// A parameter's range, "0 to 1 devices" or its choices, and its default.
std::string RangeText(const ParamView& param);
std::string DefaultText(const ParamView& param);

}  // namespace weir::cli
