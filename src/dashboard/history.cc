// SPDX-License-Identifier: Apache-2.0
#include "dashboard/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

namespace weir::dashboard {
namespace {

// The indexes in kDeviceFields and kVgpuFields of the fields that are kept as means and of those kept as last values.
constexpr std::array<std::size_t, 4> kDeviceMeans{0, 1, 2, 3};
constexpr std::array<std::size_t, 2> kDeviceLasts{4, 5};
constexpr std::array<std::size_t, 9> kVgpuMeans{0, 1, 2, 3, 4, 5, 6, 9, 10};
constexpr std::array<std::size_t, 2> kVgpuLasts{7, 8};
constexpr std::size_t kGpuUse = 0;  // in both kinds of row

static_assert(std::string_view(kDeviceFields[4]) == "revenue" && std::string_view(kDeviceFields[5]) == "penalty");
static_assert(std::string_view(kVgpuFields[7]) == "frames" && std::string_view(kVgpuFields[8]) == "late");
static_assert(std::string_view(kDeviceFields[kGpuUse]) == "gpu_use" &&
              std::string_view(kVgpuFields[kGpuUse]) == "gpu_use");

constexpr std::size_t kNameBytesMost = 256;
constexpr std::size_t kEventBytesMost = sizeof(DecisionEvent) + DecisionEvent::kTextBytesMax +
                                        3 * DecisionEvent::kWordBytesMax + 64;  // with the ends of cut texts
constexpr std::size_t kRowsOfSeries = kFineRowsMax + kCoarseRowsMax;
static_assert(kHistoryVgpusMax * (kRowsOfSeries * sizeof(HistoryRow<9, 2>) + sizeof(HistorySeries<9, 2>) +
                                  2 * kNameBytesMost) +
                      kHistoryDevicesMax *
                          (kRowsOfSeries * sizeof(HistoryRow<4, 2>) + sizeof(HistorySeries<4, 2>) + kNameBytesMost) +
                      kHistoryEventsMax * kEventBytesMost <=
                  kHistoryBytesMax,
              "the history is bounded (docs/dashboard.md, Laws)");

template <std::size_t kCount, std::size_t kFigures>
std::array<double, kCount> Pick(const std::array<double, kFigures>& figures,
                                const std::array<std::size_t, kCount>& places) {
  std::array<double, kCount> picked{};
  for (std::size_t i = 0; i < kCount; ++i) picked[i] = figures[places[i]];
  return picked;
}

std::string Quoted(const std::string& text) { return CompactText(nlohmann::json(text)); }

template <typename Names>
std::string QuotedList(const Names& names) {
  std::string text = "[";
  for (const auto& name : names) text += (text.size() > 1 ? ", " : "") + Quoted(name);
  return text + "]";
}

void AddFigure(std::string& text, double figure) {
  if (std::isfinite(figure))
    fmt::format_to(std::back_inserter(text), ", {:.9g}", figure);
  else
    text += ", null";
}

/// Appends [at_ms, …] with the figures in the order of the fields.
template <std::size_t kMeans, std::size_t kLasts>
void AddRow(std::string& text, const HistoryRow<kMeans, kLasts>& row, const std::array<std::size_t, kMeans>& means,
            const std::array<std::size_t, kLasts>& lasts) {
  std::array<double, kMeans + kLasts> figures{};
  for (std::size_t i = 0; i < kMeans; ++i) figures[means[i]] = static_cast<double>(row.means[i]);
  for (std::size_t i = 0; i < kLasts; ++i) figures[lasts[i]] = row.lasts[i];
  fmt::format_to(std::back_inserter(text), "[{}000", row.at_s);
  for (const double figure : figures) AddFigure(text, figure);
  text += "]";
}

template <typename Rows, typename Means, typename Lasts>
std::string SeriesText(const std::string& name, std::string_view kind, const Rows& rows, const Means& means,
                       const Lasts& lasts) {
  std::string text = fmt::format("{{\"name\": {}, \"kind\": \"{}\", \"rows\": [", Quoted(name), kind);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i > 0) text += ", ";
    AddRow(text, rows[i], means, lasts);
  }
  return text + "]}";
}

/// The use of one vGPU, or of several with the same name, by the beginning of the span.
using UseBySpan = std::map<std::uint32_t, double>;

double SumOf(const UseBySpan& use) {
  double sum = 0;
  for (const auto& [at, part] : use) sum += part;
  return sum;
}

}  // namespace

void History::Add(std::int64_t now_ms, const Samples& samples) {
  const std::int64_t now_s = now_ms / 1000;
  if (now_s < last_s_) {
    devices_.clear();
    vgpus_.clear();
  }
  last_s_ = now_s;
  for (auto& [name, series] : devices_) series.Close(now_s);
  for (auto& [id, vgpu] : vgpus_) vgpu.series.Close(now_s);
  Forget(now_s);
  for (const DeviceSample& device : samples.devices) {
    if (!devices_.contains(device.name) && devices_.size() >= kHistoryDevicesMax) continue;
    devices_[device.name].Add(now_s, Pick(device.figures, kDeviceMeans), Pick(device.figures, kDeviceLasts));
  }
  for (const VgpuSample& sample : samples.vgpus)
    if (Vgpu* const vgpu = PlaceFor(sample.id, now_s))
      vgpu->series.Add(now_s, Pick(sample.figures, kVgpuMeans), Pick(sample.figures, kVgpuLasts));
}

void History::Forget(std::int64_t now_s) {
  const auto is_old = [now_s](const auto& series) { return series.last_s() + kHistorySeconds < now_s; };
  std::erase_if(devices_, [&](const auto& entry) { return is_old(entry.second); });
  std::erase_if(vgpus_, [&](const auto& entry) { return is_old(entry.second.series); });
}

/// The entry of a vGPU. If there are kHistoryVgpusMax entries, a new vGPU replaces the one without samples for longest.
/// Null: all vGPUs with entries still exist.
History::Vgpu* History::PlaceFor(std::uint64_t id, std::int64_t now_s) {
  if (const auto found = vgpus_.find(id); found != vgpus_.end()) return &found->second;
  if (vgpus_.size() >= kHistoryVgpusMax) {
    // A vGPU that still exists may not have a sample in this span yet.
    const auto oldest =
        std::ranges::min_element(vgpus_, {}, [](const auto& entry) { return entry.second.series.last_s(); });
    if (oldest->second.series.last_s() + kCoarseSeconds > now_s) return nullptr;
    vgpus_.erase(oldest);
  }
  return &vgpus_[id];
}

void History::SeeNames(const std::vector<VgpuName>& names) {
  for (const VgpuName& name : names) {
    const auto found = vgpus_.find(name.id);
    if (found == vgpus_.end()) continue;
    Vgpu& vgpu = found->second;
    if (!vgpu.name.empty() && (vgpu.name != name.name || vgpu.device != name.device)) vgpu.series = {};
    vgpu.name = name.name;
    vgpu.device = name.device;
  }
}

void History::AddEvents(std::uint64_t lost, std::vector<DecisionEvent> events) {
  events_lost_ += lost;
  for (DecisionEvent& event : events) {
    if (events_.size() == kHistoryEventsMax) {
      events_.pop_front();
      ++events_lost_;
    }
    events_.push_back(std::move(event));
  }
}

std::string History::Text(const std::string& fields, const std::string& series, const std::string& device,
                          const std::string& vgpu) const {
  std::vector<const DecisionEvent*> events;
  for (const DecisionEvent& event : events_)
    if ((device.empty() || event.device == device) && (vgpu.empty() || event.vgpu == vgpu)) events.push_back(&event);
  return fmt::format("{{\"format\": 1, \"seconds\": {}, \"fields\": {}, \"series\": [{}], \"events\": {}}}\n",
                     kHistorySeconds, fields, series, CompactText(EventsJson(events_lost_, events)));
}

std::string History::OfDevices(std::int64_t now_ms) const {
  std::string series;
  for (const auto& [name, device] : devices_)
    series += (series.empty() ? "" : ", ") +
              SeriesText(name, "device", device.Rows(now_ms / 1000), kDeviceMeans, kDeviceLasts);
  return Text(QuotedList(kDeviceFields), series, "", "");
}

Result<std::string> History::OfDevice(std::int64_t now_ms, const std::string& name) const {
  const auto found = devices_.find(name);
  if (found == devices_.end()) return Fail(Errc::kNotFound, fmt::format("no device named '{}'", name));
  const auto rows = found->second.Rows(now_ms / 1000);
  return Text(
      QuotedList(kDeviceFields),
      SeriesText(name, "device", rows, kDeviceMeans, kDeviceLasts) + ", " + UseSeries(now_ms / 1000, name, rows), name,
      "");
}

/// The use of a device by its vGPUs, in the spans in which the device has rows. A vGPU that is absent used nothing.
std::string History::UseSeries(std::int64_t now_s, const std::string& device,
                               const std::vector<DeviceSeries::Row>& spans) const {
  std::map<std::string, UseBySpan> by_name;
  for (const auto& [id, vgpu] : vgpus_) {
    if (vgpu.device != device) continue;
    UseBySpan& use = by_name[vgpu.name];
    for (const VgpuSeries::Row& row : vgpu.series.Rows(now_s))
      if (row.means[kGpuUse] > 0) use[row.at_s] += static_cast<double>(row.means[kGpuUse]);
  }
  std::vector<std::pair<std::string, UseBySpan>> largest;
  for (auto& [name, use] : by_name)
    if (!use.empty()) largest.emplace_back(name, std::move(use));
  std::ranges::stable_sort(largest, std::greater{}, [](const auto& one) { return SumOf(one.second); });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(largest.size(), kUseSeriesMax); ++i) names.push_back(largest[i].first);
  const bool others = largest.size() > kUseSeriesMax;
  if (others) names.emplace_back("others");
  std::string text =
      fmt::format("{{\"name\": {}, \"kind\": \"use\", \"fields\": {}, \"rows\": [", Quoted(device), QuotedList(names));
  for (std::size_t i = 0; i < spans.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "{}[{}000", i > 0 ? ", " : "", spans[i].at_s);
    double rest = 0;
    for (std::size_t v = 0; v < largest.size(); ++v) {
      const auto at = largest[v].second.find(spans[i].at_s);
      const double use = at == largest[v].second.end() ? 0 : at->second;
      if (v < kUseSeriesMax)
        AddFigure(text, use);
      else
        rest += use;
    }
    if (others) AddFigure(text, rest);
    text += "]";
  }
  return text + "]}";
}

/// The vGPU with this name; if several had the name one after another, the last one.
const History::Vgpu* History::Newest(const std::string& name) const {
  const Vgpu* newest = nullptr;
  for (const auto& [id, vgpu] : vgpus_)
    if (vgpu.name == name && (newest == nullptr || vgpu.series.last_s() >= newest->series.last_s())) newest = &vgpu;
  return newest;
}

Result<std::string> History::OfVgpu(std::int64_t now_ms, const std::string& name) const {
  const Vgpu* const vgpu = name.empty() ? nullptr : Newest(name);
  if (vgpu == nullptr) return Fail(Errc::kNotFound, fmt::format("no vGPU named '{}' in the last hour", name));
  return Text(QuotedList(kVgpuFields),
              SeriesText(name, "vgpu", vgpu->series.Rows(now_ms / 1000), kVgpuMeans, kVgpuLasts), "", name);
}

std::size_t History::rows_most() const {
  std::size_t most = 0;
  for (const auto& [name, series] : devices_) most = std::max(most, series.rows());
  for (const auto& [id, vgpu] : vgpus_) most = std::max(most, vgpu.series.rows());
  return most;
}

std::size_t History::bytes() const {
  std::size_t all = 0;
  for (const auto& [name, series] : devices_) all += series.bytes() + name.capacity();
  for (const auto& [id, vgpu] : vgpus_) all += vgpu.series.bytes() + vgpu.name.capacity() + vgpu.device.capacity();
  for (const DecisionEvent& event : events_)
    all +=
        sizeof event + event.device.capacity() + event.vgpu.capacity() + event.kind.capacity() + event.text.capacity();
  return all;
}

}  // namespace weir::dashboard
