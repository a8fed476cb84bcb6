// SPDX-License-Identifier: Apache-2.0
// Parses and checks the daemon's answers about its node: samples, names of vGPUs, events. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir::dashboard {

// The fields that are kept. The daemon may send others.
inline constexpr std::array kDeviceFields{"gpu_use", "load", "sold", "held_slots", "revenue", "penalty"};
inline constexpr std::array kVgpuFields{"gpu_use",    "cap",    "fps",  "p50_ms",    "p99_ms",    "wait_share",
                                        "pace_share", "frames", "late", "processes", "held_slots"};
// The absolute value of a figure is at most this large. A figure that the daemon does not have is NaN.
inline constexpr double kFigureMax = 1e18;

struct DeviceSample {
  std::string name;
  std::array<double, kDeviceFields.size()> figures{};  // in the order of kDeviceFields
};
struct VgpuSample {
  std::uint64_t id = 0;
  std::array<double, kVgpuFields.size()> figures{};
};
struct Samples {
  std::uint64_t layout = 0;
  std::vector<DeviceSample> devices;
  std::vector<VgpuSample> vgpus;
};
/// `GET /v1/samples`. kProtocol: it is malformed, or a field is missing.
Result<Samples> SamplesFrom(const nlohmann::json& body);

struct VgpuName {
  std::uint64_t id = 0;
  std::string name;
  std::string device;
};
/// `GET /v1/vgpus`.
Result<std::vector<VgpuName>> VgpuNamesFrom(const nlohmann::json& body);

/// A decision of the daemon. Texts are cut at kTextBytesMax and kWordBytesMax.
struct DecisionEvent {
  static constexpr std::size_t kTextBytesMax = 1000;
  static constexpr std::size_t kWordBytesMax = 128;
  std::uint64_t number = 0;
  std::int64_t time_ms = 0;  // since 1970
  std::string device, vgpu, kind, text;
};
struct EventPage {
  std::int64_t began_ns = 0;  // identifies the daemon that numbers the events
  std::uint64_t next = 0;
  std::uint64_t lost = 0;
  std::vector<DecisionEvent> events;
};
/// `GET /v1/events`.
Result<EventPage> EventPageFrom(const nlohmann::json& body);

/// {"lost": N, "events": [...]}
nlohmann::ordered_json EventsJson(std::uint64_t lost, const std::vector<const DecisionEvent*>& events);
/// Compact JSON in valid UTF-8.
std::string CompactText(const nlohmann::ordered_json& json);
std::string CompactText(const nlohmann::json& json);

}  // namespace weir::dashboard
