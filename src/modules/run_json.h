// SPDX-License-Identifier: Apache-2.0
// Runs, modules and devices as the service API has them (docs/protocol/modules-api.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "modules/module_frames.h"
#include "modules/run_book.h"

namespace weir::modules {

/// A module that is registered.
struct RegisteredModule {
  std::string blob;
  std::vector<KernelLine> kernels;
};

/// Of `PUT /v1/runs/ID`. `has_need`: it brought measurements of its own. kInvalidArgument, also for unknown fields.
struct RunRequest {
  RunSpec spec;
  bool has_need = false;
};
Result<RunRequest> RunRequestFrom(const std::string& body);

/// Rounded up; of what was written as milliseconds / 1000, those milliseconds.
std::uint64_t WholeMilliseconds(double seconds);
/// What a run asks of a device, its time alone in whole milliseconds. kInvalidArgument.
Result<core::RunNeed> NeedFrom(const nlohmann::json& object);
nlohmann::ordered_json NeedJson(const core::RunNeed& need);
/// The four, of an object with more fields; what is absent is 0. kInvalidArgument.
Result<core::Loads> LoadsIn(const nlohmann::json& object);
/// What a device has, of an object with more fields.
Result<core::DeviceCapacity> CapacityFrom(const nlohmann::json& device);
nlohmann::ordered_json CapacityJson(const core::DeviceCapacity& capacity);

nlohmann::ordered_json ToJson(const Run& run, Instant now);
nlohmann::ordered_json ToJson(const std::string& name, const RegisteredModule& module);
nlohmann::ordered_json ToJson(const RunBook::DeviceView& device, const std::string& model);
nlohmann::ordered_json ToJson(const core::InterferenceModel& model);

/// What survives a restart; kernels' needs with it.
std::string SavedModules(const std::map<std::string, RegisteredModule>& modules);
Result<std::map<std::string, RegisteredModule>> ModulesFrom(const std::string& text);

/// An object of exactly these fields. kInvalidArgument says which one is wrong.
Result<nlohmann::json> ObjectFrom(const std::string& body, std::initializer_list<std::string_view> known);

}  // namespace weir::modules
