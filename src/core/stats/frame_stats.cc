// SPDX-License-Identifier: Apache-2.0
#include "core/stats/frame_stats.h"

namespace weir::core {

void FrameStats::Add(const FrameDone& frame, const FramePromise& promise) {
  const Duration latency = frame.Latency();
  const Duration late_after = promise.LateAfter();
  ++totals_.frames;
  totals_.late_frames += late_after > Duration{0} && latency > late_after ? 1 : 0;
  totals_.gpu += frame.gpu;
  totals_.wait += frame.wait;

  const std::int64_t index = NsOf(frame.end) / kBucket.count();
  Bucket& bucket = buckets_[static_cast<std::size_t>(index % kBuckets)];
  if (bucket.index != index) bucket = Bucket{.index = index};
  ++bucket.frames;
  bucket.latency += latency;
  bucket.wait += frame.wait;

  if (!histograms_)
    histograms_ = std::make_unique<Histograms>(Histograms{.since = frame.end, .current = {}, .previous = {}});
  if (frame.end - histograms_->since >= kHistogramSpan) {
    const bool stale = frame.end - histograms_->since >= 2 * kHistogramSpan;
    histograms_->previous = stale ? LogHistogram{} : histograms_->current;
    histograms_->current.Clear();
    histograms_->since = frame.end;
  }
  histograms_->current.Add(latency);
}

FrameWindow FrameStats::Window(Instant now) const {
  FrameWindow window{.span = seconds(1)};
  const std::int64_t index = NsOf(now) / kBucket.count();
  Duration latency{};
  Duration wait{};
  for (const Bucket& bucket : buckets_) {
    if (bucket.index < index - 10 || bucket.index >= index) continue;
    window.frames += bucket.frames;
    latency += bucket.latency;
    wait += bucket.wait;
  }
  window.fps = static_cast<double>(window.frames) / SecondsOf(window.span);
  window.wait_share = SecondsOf(wait) / SecondsOf(window.span);
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
