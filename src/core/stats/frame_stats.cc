// SPDX-License-Identifier: Apache-2.0
#include "core/stats/frame_stats.h"

#include <algorithm>
#include <utility>

namespace weir::core {

void FrameStats::Add(const FrameDone& frame, const FramePromise& promise, std::optional<Duration> others) {
  const Duration latency = frame.Latency();
  const Duration late_after = frame.count > 0 ? promise.LateAfter(frame.count) : Duration{0};
  ++totals_.frames;
  totals_.tasks += frame.count;
  totals_.late_frames += late_after > Duration{0} && latency > late_after ? 1 : 0;
  totals_.broken_frames += others && promise.BrokenBy(frame, *others) ? 1 : 0;
  totals_.gpu += frame.gpu;
  totals_.wait += frame.wait;
  totals_.pace += frame.pace;
  if (frame.predicted > Duration{0}) {
    ++totals_.predicted;
    const Duration error = frame.took - frame.predicted;
    totals_.mispredicted += error > kPredictionFailed || error < -kPredictionFailed ? 1 : 0;
  }

  const std::int64_t index = NsOf(frame.end) / kBucket.count();
  Bucket& bucket = buckets_[static_cast<std::size_t>(index % kBuckets)];
  if (bucket.index != index) bucket = Bucket{.index = index};
  ++bucket.frames;
  bucket.latency += latency;
  bucket.wait += frame.wait;
  bucket.pace += frame.pace;
  Count(frame.loop, index, frame.count);

  if (!histograms_)
    histograms_ =
        std::make_unique<Histograms>(Histograms{.all = {}, .since = frame.end, .current = {}, .previous = {}});
  if (frame.end - histograms_->since >= kHistogramSpan) {
    const bool stale = frame.end - histograms_->since >= 2 * kHistogramSpan;
    std::swap(histograms_->previous, histograms_->current);
    histograms_->current.Clear();
    if (stale) histograms_->previous.Clear();
    histograms_->since = frame.end;
  }
  histograms_->current.Add(latency);
  histograms_->all.latency.Add(latency);
  histograms_->all.wait.Add(frame.wait);
}

void FrameStats::Count(std::uint64_t key, std::int64_t index, std::uint32_t count) {
  Loop* place = &loops_[0];
  for (Loop& loop : loops_) {
    if (loop.last >= 0 && loop.key == key) {
      place = &loop;
      break;
    }
    if (loop.last < place->last) place = &loop;
  }
  if (place->last < 0 || place->key != key) *place = Loop{.key = key, .last = index - kBuckets};
  if (index <= place->last - kBuckets)
    return;  // out of order, so a false record of the tenant; it affects only the tenant's own figures
  for (std::int64_t i = std::max(place->last + 1, index - kBuckets + 1); i <= index; ++i)
    place->sum -= std::exchange(place->frames[static_cast<std::size_t>(i % kBuckets)], 0);
  place->last = std::max(place->last, index);
  place->frames[static_cast<std::size_t>(index % kBuckets)] += count;
  place->sum += count;
}

double FrameStats::Rate(Instant now) const {
  const std::int64_t index = NsOf(now) / kBucket.count();
  std::uint32_t most = 0;
  for (const Loop& loop : loops_) {
    if (loop.last < 0) break;  // entries are used in order and stay in use
    // Sum over the loop's buckets up to `last`, minus those outside of the window.
    std::uint32_t frames = loop.sum;
    const auto leave_out = [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = std::max<std::int64_t>(from, 0); i < to; ++i)
        frames -= loop.frames[static_cast<std::size_t>(i % kBuckets)];
    };
    leave_out(loop.last - kBuckets + 1, std::min(index - 10, loop.last + 1));
    leave_out(std::max(index, loop.last - kBuckets + 1), loop.last + 1);
    most = std::max(most, frames);
  }
  return most;
}

FrameWindow FrameStats::Window(Instant now) const {
  FrameWindow window{.span = seconds(1)};
  const std::int64_t index = NsOf(now) / kBucket.count();
  Duration latency{};
  Duration wait{};
  Duration pace{};
  for (const Bucket& bucket : buckets_) {
    if (!Inside(bucket.index, index)) continue;
    pace += bucket.pace;
    window.frames += bucket.frames;
    latency += bucket.latency;
    wait += bucket.wait;
  }
  window.fps = Rate(now);
  window.wait_share = SecondsOf(wait) / SecondsOf(window.span);
  window.pace_share = SecondsOf(pace) / SecondsOf(window.span);
  if (window.frames > 0) window.mean = latency / static_cast<std::int64_t>(window.frames);
  if (histograms_ && now - histograms_->since < 2 * kHistogramSpan) {
    LogHistogram both = histograms_->current;
    both.Merge(histograms_->previous);
    window.p50 = both.Percentile(0.50);
    window.p95 = both.Percentile(0.95);
    window.p99 = both.Percentile(0.99);
    window.max = both.max();
  }
  return window;
}

}  // namespace weir::core
