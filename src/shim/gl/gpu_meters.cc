// SPDX-License-Identifier: Apache-2.0
// The meter for real GPUs, and the choice among all meters.
#include <array>

#include "platform/clock.h"
#include "shim/gl/gl_meters.h"

namespace weir::shim {
namespace {

constexpr GlFunctions::GlEnum kGlTimestamp = 0x8E28;
constexpr GlFunctions::GlEnum kGlQueryResult = 0x8866;
constexpr GlFunctions::GlEnum kGlQueryResultAvailable = 0x8867;

/// Timestamps at the begin and the end of a frame; the difference is known some frames later.
///
/// Validation: in its first frames the meter drains the GPU at both ends and compares the frame's span with the wall
/// clock. The meter is rejected when
/// - a span is negative, or longer than the time since it began (the query was read in another context),
/// - in those first frames a span is longer than its frame,
/// - most spans are shorter than an eighth of the time that draining took (llvmpipe's timestamps cover only the last
///   tile). Draining includes the wait for other programs' work, so spans may be shorter than draining,
/// - no result has arrived for kSilentNs.
class TimerMeter final : public Meter {
 public:
  explicit TimerMeter(const GlFunctions& gl) : gl_(gl) { gl_.gen_queries(kSlots * 2, queries_.data()); }

  [[nodiscard]] proto::MeterKind kind() const override { return proto::MeterKind::kTimerQuery; }
  [[nodiscard]] bool of_context() const override { return true; }
  [[nodiscard]] bool truthful() const override { return truthful_; }
  [[nodiscard]] int Unknown() override {
    return pending_[next_].waiting ? kSlots : (next_ - oldest_ + kSlots) % kSlots;
  }

  void BeforePresent(std::int64_t now_ns) override {
    if (!open_) return;
    const bool check = checks_left_ > 0;
    std::int64_t drained_ns = 0;
    if (check) {
      gl_.finish();
      drained_ns = platform::NowNs() - now_ns;
    }
    gl_.query_counter(End(next_), kGlTimestamp);
    // Nothing is drawn between the finish and this timestamp. Without the flush, a driver would take the timestamp at
    // its present, after the pace and the gate.
    if (check && gl_.flush != nullptr) gl_.flush();
    pending_[next_] = {.waiting = true,
                       .check = check,
                       .begun_ns = begun_ns_,
                       .ended_ns = now_ns,
                       .wall_ns = check ? platform::NowNs() - begun_ns_ : 0,  // read last: a wait in between is in both
                       .drained_ns = drained_ns};
    next_ = (next_ + 1) % kSlots;
    open_ = false;
    if (check) --checks_left_;
  }

  // Begins no span: the next frame's first timestamp must follow the driver's present, which may wait.
  std::int64_t AfterWork(std::int64_t now_ns, std::int64_t) override {
    std::int64_t used = 0;
    while (pending_[oldest_].waiting && Ready(End(oldest_))) {
      const std::int64_t span = Read(End(oldest_)) - Read(Begin(oldest_));
      Judge(pending_[oldest_], span, now_ns);
      if (span > 0 && truthful_) used += span;  // an impossible span is not charged
      pending_[oldest_].waiting = false;
      oldest_ = (oldest_ + 1) % kSlots;
    }
    // Queries belong to a context: in another context, or after its end, no result ever arrives.
    if (pending_[oldest_].waiting && now_ns - pending_[oldest_].ended_ns > kSilentNs) truthful_ = false;
    return used;
  }

  std::int64_t AfterPresent(std::int64_t now_ns, std::int64_t held_ns) override {
    const std::int64_t used = AfterWork(now_ns, held_ns);
    // If all slots are used, this frame is not measured: waiting for a result would stall the program.
    if (!pending_[next_].waiting) {
      if (checks_left_ > 0) gl_.finish();
      begun_ns_ = platform::NowNs();
      gl_.query_counter(Begin(next_), kGlTimestamp);
      open_ = true;
    }
    return used;
  }

 private:
  // A presenting program has few frames in flight, but a program that renders off screen closes a span at each flush.
  static constexpr int kSlots = 64;
  static constexpr int kChecks = 20;
  static constexpr std::int64_t kSilentNs = 2'000'000'000;
  struct Pending {
    bool waiting = false;
    bool check = false;
    std::int64_t begun_ns = 0;
    std::int64_t ended_ns = 0;
    std::int64_t wall_ns = 0;
    std::int64_t drained_ns = 0;
  };

  [[nodiscard]] unsigned Begin(int slot) const { return queries_[static_cast<std::size_t>(slot) * 2]; }
  [[nodiscard]] unsigned End(int slot) const { return queries_[static_cast<std::size_t>(slot) * 2 + 1]; }
  [[nodiscard]] bool Ready(unsigned query) const {
    int available = 0;
    gl_.get_query_iv(query, kGlQueryResultAvailable, &available);
    return available != 0;
  }
  [[nodiscard]] std::int64_t Read(unsigned query) const {
    std::uint64_t value = 0;
    gl_.get_query_ui64(query, kGlQueryResult, &value);
    return static_cast<std::int64_t>(value);
  }
  void Judge(const Pending& pending, std::int64_t span, std::int64_t now_ns) {
    constexpr std::int64_t kSlackNs = 500'000;
    if (span < 0 || span > (now_ns - pending.begun_ns) / 10 * 11 + kSlackNs) truthful_ = false;
    if (!pending.check) return;  // the GPU may be frames behind the program: the spans need not match
    if (span > pending.wall_ns + pending.wall_ns / 10 + kSlackNs) truthful_ = false;
    if (pending.drained_ns > kSlackNs && span < pending.drained_ns / 8 && ++short_ > kChecks / 2) truthful_ = false;
  }

  const GlFunctions gl_;
  std::array<unsigned, kSlots * 2> queries_{};
  std::array<Pending, kSlots> pending_{};
  int next_ = 0;
  int oldest_ = 0;
  int checks_left_ = kChecks;
  int short_ = 0;  // checked spans that were too short for their draining
  std::int64_t begun_ns_ = 0;
  bool open_ = false;
  bool truthful_ = true;
};

}  // namespace

std::unique_ptr<Meter> MakeTimerMeter(const GlFunctions& gl) {
  if (!gl.HasTimestamps() || gl.finish == nullptr) return nullptr;
  return std::make_unique<TimerMeter>(gl);
}

std::unique_ptr<Meter> ChooseMeter(const GlFunctions& gl, const DeviceCpus& cpus, const std::string& wanted) {
  if (auto forced = wanted == NameOf(proto::MeterKind::kTimerQuery) ? MakeTimerMeter(gl) : ForcedMeter(wanted, cpus))
    return forced;
  // A CPU driver renders for an emulated GPU, but the emulated GPU's time is the one that counts.
  if (!IsEmulatedRenderer(gl.Renderer()))
    if (auto workers = SoonWorkerMeter(cpus, IsSoftwareRenderer(gl.Renderer()))) return workers;
  if (IsSoftwareRenderer(gl.Renderer())) return MakePresentCpuMeter(cpus);
  if (auto timer = MakeTimerMeter(gl)) return timer;
  return MakeWallMeter();
}

}  // namespace weir::shim
