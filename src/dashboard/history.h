// SPDX-License-Identifier: Apache-2.0
// The node's last hour: means over spans, for each device and vGPU, and the last events. Bounded. Pure: `now` is UTC in
// milliseconds and an argument.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "dashboard/samples.h"

namespace weir::dashboard {

inline constexpr std::int64_t kHistorySeconds = 3600;
inline constexpr std::int64_t kFineSeconds = 1;
inline constexpr std::int64_t kCoarseSeconds = 10;
inline constexpr std::size_t kFineRowsMax = 600;    // ten minutes
inline constexpr std::size_t kCoarseRowsMax = 360;  // an hour
inline constexpr std::size_t kHistoryVgpusMax = 512;
inline constexpr std::size_t kHistoryDevicesMax = 64;
inline constexpr std::size_t kHistoryEventsMax = 1000;
inline constexpr std::size_t kHistoryBytesMax = std::size_t{32} << 20;
/// A device's use is listed for at most this many vGPUs; that of the others is summed.
inline constexpr std::size_t kUseSeriesMax = 16;

/// A row of means, and of last values for counts and amounts that only grow and whose mean is meaningless.
template <std::size_t kMeans, std::size_t kLasts>
struct HistoryRow {
  std::uint32_t at_s = 0;  // the beginning of the row's span, in seconds since 1970
  std::array<float, kMeans> means{};
  std::array<double, kLasts> lasts{};
};

/// The last `kMax` rows of one resolution, oldest first.
template <typename Row, std::size_t kMax>
class RowRing {
 public:
  void Add(const Row& row) {
    if (rows_.size() < kMax) {
      // Grows in steps, because a vector that doubles its capacity would exceed the bound.
      if (rows_.size() == rows_.capacity()) rows_.reserve(std::min(kMax, rows_.size() + kMax / 10));
      rows_.push_back(row);
      return;
    }
    rows_[first_] = row;
    first_ = (first_ + 1) % kMax;
  }
  void Clear() {
    rows_.clear();
    first_ = 0;
  }
  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  [[nodiscard]] const Row& operator[](std::size_t i) const { return rows_[(first_ + i) % rows_.size()]; }
  [[nodiscard]] std::size_t bytes() const { return rows_.capacity() * sizeof(Row); }

 private:
  std::vector<Row> rows_;
  std::size_t first_ = 0;
};

/// Sums the samples of a span that is not over yet.
template <std::size_t kMeans, std::size_t kLasts>
class OpenSpan {
 public:
  using Row = HistoryRow<kMeans, kLasts>;
  void Add(std::int64_t at_s, const std::array<double, kMeans>& means, const std::array<double, kLasts>& lasts) {
    at_s_ = at_s;
    for (std::size_t i = 0; i < kMeans; ++i) {
      if (std::isnan(means[i])) continue;
      sums_[i] += means[i];
      ++counts_[i];
    }
    lasts_ = lasts;
    any_ = true;
  }
  [[nodiscard]] bool any() const { return any_; }
  [[nodiscard]] std::int64_t at_s() const { return at_s_; }
  /// Returns the row of the span and resets the sums.
  Row Take() {
    Row row{.at_s = static_cast<std::uint32_t>(at_s_), .means = {}, .lasts = lasts_};
    for (std::size_t i = 0; i < kMeans; ++i)
      row.means[i] = counts_[i] == 0 ? NAN : static_cast<float>(sums_[i] / counts_[i]);
    *this = {};
    return row;
  }

 private:
  std::array<double, kMeans> sums_{};
  std::array<std::uint32_t, kMeans> counts_{};
  std::array<double, kLasts> lasts_{};
  std::int64_t at_s_ = 0;
  bool any_ = false;
};

template <std::size_t kMeans, std::size_t kLasts>
class HistorySeries {
 public:
  using Row = HistoryRow<kMeans, kLasts>;
  using Means = std::array<double, kMeans>;
  using Lasts = std::array<double, kLasts>;

  /// `now_s` never decreases.
  void Add(std::int64_t now_s, const Means& means, const Lasts& lasts) {
    Close(now_s);
    fine_open_.Add(now_s - now_s % kFineSeconds, means, lasts);
    coarse_open_.Add(now_s - now_s % kCoarseSeconds, means, lasts);
    last_s_ = now_s;
  }
  /// Converts spans that are over into rows.
  void Close(std::int64_t now_s) {
    if (fine_open_.any() && now_s >= fine_open_.at_s() + kFineSeconds) fine_.Add(fine_open_.Take());
    if (coarse_open_.any() && now_s >= coarse_open_.at_s() + kCoarseSeconds) coarse_.Add(coarse_open_.Take());
  }
  /// The rows that began within the last hour, oldest first: fine ones of the last ten minutes, coarse ones before.
  [[nodiscard]] std::vector<Row> Rows(std::int64_t now_s) const {
    // The beginning of the first coarse span that the fine rows cover completely.
    const std::int64_t oldest_fine = now_s - kFineSeconds * static_cast<std::int64_t>(kFineRowsMax);
    const std::int64_t fine_from = (oldest_fine + kCoarseSeconds - 1) / kCoarseSeconds * kCoarseSeconds;
    std::vector<Row> rows;
    for (std::size_t i = 0; i < coarse_.size(); ++i)
      if (coarse_[i].at_s >= now_s - kHistorySeconds && coarse_[i].at_s < fine_from) rows.push_back(coarse_[i]);
    for (std::size_t i = 0; i < fine_.size(); ++i)
      if (fine_[i].at_s >= fine_from) rows.push_back(fine_[i]);
    return rows;
  }
  /// The time of the last sample; 0: none yet.
  [[nodiscard]] std::int64_t last_s() const { return last_s_; }
  [[nodiscard]] std::size_t rows() const { return fine_.size() + coarse_.size(); }
  [[nodiscard]] std::size_t bytes() const { return sizeof *this + fine_.bytes() + coarse_.bytes(); }

 private:
  RowRing<Row, kFineRowsMax> fine_;
  RowRing<Row, kCoarseRowsMax> coarse_;
  OpenSpan<kMeans, kLasts> fine_open_, coarse_open_;
  std::int64_t last_s_ = 0;
};

class History {
 public:
  /// Adds samples of the daemon. If the clock was set back, the history is cleared, because times would be ambiguous.
  void Add(std::int64_t now_ms, const Samples& samples);
  /// Sets the names of vGPUs by id. An id with another name than before is another vGPU.
  void SeeNames(const std::vector<VgpuName>& names);
  void AddEvents(std::uint64_t lost, std::vector<DecisionEvent> events);

  // Answers of `GET /api/history`, as text. kNotFound: nothing is known of this name.

  [[nodiscard]] std::string OfDevices(std::int64_t now_ms) const;
  [[nodiscard]] Result<std::string> OfDevice(std::int64_t now_ms, const std::string& name) const;
  [[nodiscard]] Result<std::string> OfVgpu(std::int64_t now_ms, const std::string& name) const;

  // For tests of the bounds.

  [[nodiscard]] std::size_t devices() const { return devices_.size(); }
  [[nodiscard]] std::size_t vgpus() const { return vgpus_.size(); }
  [[nodiscard]] std::size_t events() const { return events_.size(); }
  [[nodiscard]] std::size_t rows_most() const;
  [[nodiscard]] std::size_t bytes() const;

 private:
  using DeviceSeries = HistorySeries<4, 2>;
  using VgpuSeries = HistorySeries<9, 2>;
  struct Vgpu {
    std::string name, device;  // empty: not known yet
    VgpuSeries series;
  };

  Vgpu* PlaceFor(std::uint64_t id, std::int64_t now_s);
  void Forget(std::int64_t now_s);
  [[nodiscard]] const Vgpu* Newest(const std::string& name) const;
  [[nodiscard]] std::string UseSeries(std::int64_t now_s, const std::string& device,
                                      const std::vector<DeviceSeries::Row>& spans) const;
  [[nodiscard]] std::string Text(const std::string& fields, const std::string& series, const std::string& device,
                                 const std::string& vgpu) const;

  std::map<std::string, DeviceSeries> devices_;
  std::map<std::uint64_t, Vgpu> vgpus_;
  std::deque<DecisionEvent> events_;
  std::uint64_t events_lost_ = 0;
  std::int64_t last_s_ = 0;
};

}  // namespace weir::dashboard
