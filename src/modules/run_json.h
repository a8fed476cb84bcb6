// SPDX-License-Identifier: Apache-2.0
// Runs, modules and devices in the JSON of the service API (docs/protocol/modules-api.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "modules/module_frames.h"
#include "modules/run_book.h"

namespace weir::modules {

/// A registered module.
struct RegisteredModule {
  std::string blob;
  std::vector<KernelLine> kernels;
};

/// The body of `PUT /v1/runs/ID`. `has_need`: the request has its own needs. kInvalidArgument, also for unknown fields.
struct RunRequest {
  RunSpec spec;
  bool has_need = false;
};
Result<RunRequest> RunRequestFrom(const std::string& body);

/// Rounded up. A value that was written as milliseconds / 1000 gives exactly these milliseconds.
std::uint64_t WholeMilliseconds(double seconds);
/// What a run needs of a device; its time alone is in whole milliseconds. kInvalidArgument.
Result<core::RunNeed> NeedFrom(const nlohmann::json& object);
nlohmann::ordered_json NeedJson(const core::RunNeed& need);
/// The four loads of an object that may have other fields; an absent load is 0. kInvalidArgument.
Result<core::Loads> LoadsIn(const nlohmann::json& object);
/// A device's capacity, from an object that may have other fields.
Result<core::DeviceCapacity> CapacityFrom(const nlohmann::json& device);
nlohmann::ordered_json CapacityJson(const core::DeviceCapacity& capacity);

nlohmann::ordered_json ToJson(const Run& run, Instant now);
nlohmann::ordered_json ToJson(const std::string& name, const RegisteredModule& module);
nlohmann::ordered_json ToJson(const RunBook::DeviceView& device, const std::string& model);
nlohmann::ordered_json ToJson(const core::InterferenceModel& model);

/// The registered modules with their kernels' needs, as they survive a restart.
std::string SavedModules(const std::map<std::string, RegisteredModule>& modules);
Result<std::map<std::string, RegisteredModule>> ModulesFrom(const std::string& text);

/// Parses an object that has no other fields than these. kInvalidArgument names the wrong one.
Result<nlohmann::json> ObjectFrom(const std::string& body, std::initializer_list<std::string_view> known);

}  // namespace weir::modules
