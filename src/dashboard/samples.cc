// SPDX-License-Identifier: Apache-2.0
#include "dashboard/samples.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "http/fields.h"

namespace weir::dashboard {
namespace {

using nlohmann::json;

constexpr std::size_t kNameMax = 255;

Error Malformed(std::string_view what) {
  return Fail(Errc::kProtocol, fmt::format("the daemon's answer is malformed: {}", what));
}

const json* ListOf(const json& body, const char* name) {
  const auto found = body.is_object() ? body.find(name) : body.end();
  return body.is_object() && found != body.end() && found->is_array() ? &*found : nullptr;
}

/// The index of each field in a row, whose first element is the row's subject.
template <std::size_t kCount>
std::optional<std::array<std::size_t, kCount>> PlacesOf(const json* names, const std::array<const char*, kCount>& of) {
  std::array<std::size_t, kCount> places{};
  if (names == nullptr) return std::nullopt;
  for (std::size_t i = 0; i < kCount; ++i)
    for (std::size_t at = 0; at < names->size(); ++at)
      if ((*names)[at].is_string() && (*names)[at].get_ref<const std::string&>() == of[i]) places[i] = at + 1;
  for (const std::size_t place : places)
    if (place == 0) return std::nullopt;
  return places;
}

/// False: an element is not a figure.
bool ReadFigures(const json& row, std::span<const std::size_t> places, std::span<double> figures) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] >= row.size()) return false;
    const json& value = row[places[i]];
    if (!value.is_number() && !value.is_null()) return false;
    figures[i] = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
    if (std::abs(figures[i]) > kFigureMax) return false;
  }
  return true;
}

std::string Cut(std::string text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a character
  text.resize(end);
  return text + "…";
}

Status ReadWord(const json& body, const char* name, std::string& value, std::size_t bytes_max) {
  WEIR_TRY_STATUS(http::ReadString(body, name, value));
  value = Cut(std::move(value), bytes_max);
  return Ok();
}

Result<DecisionEvent> EventOf(const json& body) {
  if (!body.is_object()) return Malformed("an event is not an object");
  DecisionEvent event;
  std::uint64_t utc_ns = 0;
  WEIR_TRY_STATUS(http::ReadUnsigned(body, "number", event.number));
  WEIR_TRY_STATUS(http::ReadUnsigned(body, "utc_ns", utc_ns, std::numeric_limits<std::int64_t>::max()));
  WEIR_TRY_STATUS(ReadWord(body, "device", event.device, DecisionEvent::kWordBytesMax));
  WEIR_TRY_STATUS(ReadWord(body, "vgpu", event.vgpu, DecisionEvent::kWordBytesMax));
  WEIR_TRY_STATUS(ReadWord(body, "kind", event.kind, DecisionEvent::kWordBytesMax));
  WEIR_TRY_STATUS(ReadWord(body, "text", event.text, DecisionEvent::kTextBytesMax));
  event.time_ms = static_cast<std::int64_t>(utc_ns / 1'000'000);
  return event;
}

}  // namespace

Result<Samples> SamplesFrom(const json& body) {
  const json* const devices = ListOf(body, "devices");
  const json* const vgpus = ListOf(body, "vgpus");
  const auto device_places = PlacesOf(ListOf(body, "device_fields"), kDeviceFields);
  const auto vgpu_places = PlacesOf(ListOf(body, "vgpu_fields"), kVgpuFields);
  if (devices == nullptr || vgpus == nullptr || !device_places || !vgpu_places)
    return Malformed("a list or a field of the samples is missing");
  Samples samples;
  WEIR_TRY_STATUS(http::ReadUnsigned(body, "layout", samples.layout));
  for (const json& row : *devices) {
    if (!row.is_array() || row.empty() || !row[0].is_string() || row[0].get_ref<const std::string&>().size() > kNameMax)
      return Malformed("a device's row has no name");
    DeviceSample& device = samples.devices.emplace_back();
    device.name = row[0].get<std::string>();
    if (!ReadFigures(row, *device_places, device.figures)) return Malformed("a device's row has a wrong figure");
  }
  for (const json& row : *vgpus) {
    if (!row.is_array() || row.empty() || !row[0].is_number_unsigned()) return Malformed("a vGPU's row has no id");
    VgpuSample& vgpu = samples.vgpus.emplace_back();
    vgpu.id = row[0].get<std::uint64_t>();
    if (!ReadFigures(row, *vgpu_places, vgpu.figures)) return Malformed("a vGPU's row has a wrong figure");
  }
  return samples;
}

Result<std::vector<VgpuName>> VgpuNamesFrom(const json& body) {
  const json* const list = ListOf(body, "vgpus");
  if (list == nullptr) return Malformed("it has no list of vGPUs");
  std::vector<VgpuName> names;
  for (const json& one : *list) {
    if (!one.is_object()) return Malformed("a vGPU is not an object");
    VgpuName& vgpu = names.emplace_back();
    WEIR_TRY_STATUS(http::ReadUnsigned(one, "id", vgpu.id));
    WEIR_TRY_STATUS(http::ReadString(one, "name", vgpu.name, kNameMax));
    WEIR_TRY_STATUS(http::ReadString(one, "device", vgpu.device, kNameMax));
  }
  return names;
}

Result<EventPage> EventPageFrom(const json& body) {
  const json* const list = ListOf(body, "events");
  if (list == nullptr) return Malformed("it has no list of events");
  EventPage page;
  std::uint64_t began = 0;
  WEIR_TRY_STATUS(http::ReadUnsigned(body, "began_ns", began, std::numeric_limits<std::int64_t>::max()));
  page.began_ns = static_cast<std::int64_t>(began);
  WEIR_TRY_STATUS(http::ReadUnsigned(body, "next", page.next));
  WEIR_TRY_STATUS(http::ReadUnsigned(body, "lost", page.lost));
  for (const json& one : *list) {
    WEIR_TRY(DecisionEvent event, EventOf(one));
    page.events.push_back(std::move(event));
  }
  return page;
}

nlohmann::ordered_json EventsJson(std::uint64_t lost, const std::vector<const DecisionEvent*>& events) {
  nlohmann::ordered_json out{{"lost", lost}, {"events", nlohmann::ordered_json::array()}};
  for (const DecisionEvent* event : events)
    out["events"].push_back({{"number", event->number},
                             {"time_ms", event->time_ms},
                             {"device", event->device},
                             {"vgpu", event->vgpu},
                             {"kind", event->kind},
                             {"text", event->text}});
  return out;
}

std::string CompactText(const nlohmann::ordered_json& body) {
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}
std::string CompactText(const json& body) { return body.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace weir::dashboard
