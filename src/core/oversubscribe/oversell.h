// SPDX-License-Identifier: Apache-2.0
// gOver for one device: observes vGPUs, moves caps, and determines what can be sold. Pure; the daemon and the simulator
// run the same object. Page: docs/oversubscription.md
//
//   every decision   records which vGPUs wait, and which are held by their caps   See
//   every stage      restores the ceilings of vGPUs that need them (100 ms)       caps.h, Regain
//   every report     measures use, rate and overload; steals cap, warns, and      gOver, section 3.3 and Algorithm 1
//                    determines whether more can be sold (1 s)
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "core/oversubscribe/caps.h"
#include "core/oversubscribe/economics.h"
#include "core/schedule/policy_table.h"

namespace weir::core {

enum class OversellMode : std::uint8_t {
  kOff,       // caps are used as set, whatever their sum
  kStrict,    // nothing is sold twice: the sum of ceilings is at most the device
  kStatic,    // the sum of ceilings is at most `ratio` devices; caps are scaled to fit one
  kAdaptive,  // gOver
};
const char* NameOf(OversellMode mode);
/// kInvalidArgument lists the names.
Result<OversellMode> ModeNamed(std::string_view name);

struct OversellParams {
  double ratio = 2;
  Duration stage = milliseconds(100);
  Duration report = seconds(1);
  double overload_line = 0.95;
  int overload_reports = 3;
  double rate_tolerance = 0.05;
  double steal = 0.2;
  double weight_use = 1;
  double weight_late = 1;
  int calm_reports = 3;
  double low_line = 0.6;
  Duration load_span = seconds(60);
  double fill_line = 0.95;
  double margin = 0.1;
  bool regain = true;
  bool refuse_rates = false;
  double price = 1;
  double best_effort_price = 0.3;
  double penalty = 10;
  double device_cost = 0.4;

  static constexpr void Fields(auto&& each) {
    using P = OversellParams;
    each(ParamInfo{"ratio", "devices", 1, 100, "static: sum of sold ceilings, relative to the device"}, &P::ratio);
    each(ParamInfo{"stage_ms", "ms", 10, 10000, "time in which a vGPU that needs its ceiling gets it (gOver: 100 ms)"},
         &P::stage);
    each(ParamInfo{"report_ms", "ms", 100, 60000, "time between two reports (gOver: 1 s)"}, &P::report);
    each(ParamInfo{"overload_line", "part of the cap", 0.5, 1,
                   "use above which a vGPU is overloaded: U_o (gOver: about 95 %)"},
         &P::overload_line);
    each(ParamInfo{"overload_reports", "reports", 1, 100,
                   "consecutive reports above overload_line that make an overload (gOver: 3)"},
         &P::overload_reports);
    each(ParamInfo{"rate_tolerance", "part of the rate", 0, 0.5, "tolerance below the promised rate"},
         &P::rate_tolerance);
    each(ParamInfo{"steal", "part", 0, 1,
                   "fraction of the lightest vGPU's unused cap that goes to the overloaded one (gOver: 0.2)"},
         &P::steal);
    each(ParamInfo{"weight_use", "", 0, 100, "weight of use in choosing the lightest vGPU: w_u (gOver gives none)"},
         &P::weight_use);
    each(ParamInfo{"weight_late", "", 0, 100,
                   "weight of lateness in choosing the lightest vGPU: w_e (gOver gives none)"},
         &P::weight_late);
    each(ParamInfo{"calm_reports", "reports", 1, 100, "reports without overload before more is sold (gOver: 3)"},
         &P::calm_reports);
    each(ParamInfo{"low_line", "part of the device", 0, 1, "load below which more is sold: U_l (gOver gives none)"},
         &P::low_line);
    each(ParamInfo{"load_span_s", "s", 0, 3600,
                   "time over which the highest load counts; 0: the last report only (gOver); the default was found by "
                   "a sweep"},
         &P::load_span);
    each(ParamInfo{"fill_line", "part of the device", 0.1, 1, "upper bound of the expected load by all that is sold"},
         &P::fill_line);
    each(ParamInfo{"margin", "part of the use", 0, 2, "margin above its use that a lender keeps"}, &P::margin);
    each(ParamInfo{"regain", "", 0, 1, "1: ceilings are restored within a stage; 0: only by stealing, as in gOver"},
         &P::regain);
    each(ParamInfo{"refuse_rates", "", 0, 1,
                   "1: a promised rate that does not fit beside the others is refused; 0: it only gets a warning"},
         &P::refuse_rates);
    each(ParamInfo{"price", "per device-hour", 0, 1e6, "of a ceiling of the whole device"}, &P::price);
    each(ParamInfo{"best_effort_price", "part of the price", 0, 1, "for best effort"}, &P::best_effort_price);
    each(ParamInfo{"penalty", "times the price", 0, 1e6, "for a second with a broken promise"}, &P::penalty);
    each(ParamInfo{"device_cost", "per hour", 0, 1e6, "of the device"}, &P::device_cost);
  }
};
inline constexpr auto kOversellParams = kParamTable<OversellParams>;
/// Checks that the parameters are complete and in range, as CheckParams of a policy does.
Result<PolicyParams> CheckOversellParams(const PolicyParams& given);
Prices PricesOf(const PolicyParams& checked);

/// A decision and its reason.
struct OversellNote {
  enum class Kind : std::uint8_t {
    kOverload,
    kAtCeiling,
    kRegained,
    kStolen,
    kWarning,   // `vgpu` should move to another device: begins its drain request
    kRelieved,  // `vgpu` need not move any more: cancels the drain request
    kSellable,
    kBroken,
    kKept
  };
  Kind kind = Kind::kOverload;
  VgpuId vgpu{};        // the subject; unset: the device
  VgpuId from{};        // the vGPU whose cap was taken
  double cap = 0;       // of `vgpu`, after the change
  double amount = 0;    // amount moved, or amount that can be sold
  double use = 0;       // use of its own cap; for a device: the load
  double rate = 0;      // frames/s
  double promised = 0;  // frames/s
};
const char* NameOf(OversellNote::Kind kind);

/// What can be sold now, and the figures that are the reason why no more can.
struct SalesOffer {
  enum class Limit : std::uint8_t {
    kSold,   // what is sold
    kCalm,   // of `calm_reports` reports in succession only `calm` were calm
    kLoad,   // the load is not below `low_line`
    kUnused  // what others leave unused
  };
  double guaranteed = 0;  // ceiling that can be kept whatever other vGPUs do
  double oversold = 0;    // ceiling that can be sold because other vGPUs don't use theirs
  Limit limit = Limit::kSold;
  double sold = 0;  // of the device
  int calm = 0, calm_reports = 0;
  double load = 0;         // the highest of `load_span`, or the present load
  Duration load_span{};    // 0: the present load
  double low_line = 0;     // more is sold below this load
  double use_of_sold = 0;  // how much of its ceilings is used, on average
  [[nodiscard]] double most() const { return std::max(guaranteed, oversold); }
};
/// Why no more can be sold.
std::string Words(const SalesOffer& offer);

class Oversell {
 public:
  /// `params` are checked.
  Oversell(OversellMode mode, const PolicyParams& params);

  [[nodiscard]] OversellMode mode() const { return mode_; }
  [[nodiscard]] const PolicyParams& params() const { return params_; }
  /// Whether a promised rate that does not fit is refused.
  [[nodiscard]] bool refuses_rates() const { return settings_.refuse_rates; }

  /// Adds a vGPU. `restored`: it was sold before, as `sale`; otherwise the kind of sale follows from what is free. On
  /// kResourceExhausted nothing has changed, and the message says what can be sold instead.
  Status Add(VgpuId id, Share ceiling, Sale sale, bool restored);
  /// kResourceExhausted if the new ceiling can't be sold; nothing has changed then.
  Status SetCeiling(VgpuId id, Share ceiling);
  void Remove(VgpuId id);

  /// The vGPU that the last warning named, which has a drain request. None: no vGPU has to move.
  [[nodiscard]] VgpuId named() const { return named_; }

  /// Called before every decision: records which vGPUs wait and which are held, and handles a stage that has ended.
  /// Returns the latest time of the next call; appends decisions to `notes`.
  Instant See(Instant now, std::span<const VgpuView> views, std::vector<OversellNote>& notes);

  /// The sold ceiling, up to which the vGPU may borrow GPU time beyond its cap. Zero in modes where caps do not move.
  [[nodiscard]] Share CeilingOf(VgpuId id) const;
  /// The cap that the vGPU has now. The whole device for an unknown vGPU.
  [[nodiscard]] Share CapOf(VgpuId id) const;
  [[nodiscard]] Sale SaleOf(VgpuId id) const;
  [[nodiscard]] SalesOffer OfferNow() const;
  [[nodiscard]] const Account& account() const { return account_; }
  [[nodiscard]] double sold() const;  // sum of ceilings, without best effort
  /// Part of the device that promises needed in the last report.
  [[nodiscard]] double load() const { return load_; }

 private:
  /// State of one vGPU: observations of the current stage and of the current report.
  struct Watched {
    VgpuId id;
    Sale sale = Sale::kGuaranteed;
    double ceiling = 1;
    double cap = 1;
    // The current stage
    bool limited = false;                  // its cap limits it
    int stage_looks = 0, stage_waits = 0;  // decisions, and those at which it waited
    int stages_unlimited = 0;              // consecutive stages in which its cap did not limit it
    std::uint32_t limited_then = 0;        // whether its cap limited it in the last stages; bit 0: the last one
    // The last second, by stages: time, and GPU time charged until then.
    static constexpr std::size_t kMarks = 10;
    std::array<Instant, kMarks> marked_at{};
    std::array<Duration, kMarks> marked{};
    std::size_t marks = 0;
    [[nodiscard]] Duration LastMarked() const { return marked[(marks - 1) % kMarks]; }
    Instant used_at{};  // the end of the last stage in which it used the device; unset: it never has
    // The current report
    Duration used{};         // at the start of the report
    double cap_seconds = 0;  // integral of its cap over time
    int stages = 0, limited_stages = 0, denied_stages = 0, busy_stages = 0;
    // Decisions, those at which it waited, and those at which it had work in flight
    std::int64_t looks = 0, waiting_looks = 0, flying_looks = 0;
    std::uint64_t frames = 0, broken_frames = 0;  // at the start of the report
    // Results of the last report
    double use = 0, need = 0, claim = 1, rate = 0, promised = 0, lateness = 0;
    /// Whether its idle cap may be lent. True if its cap has not limited it for a second. Also true if a promised rate
    /// is kept, its cap limited it seldom, and much of the cap is left: then it waited for other vGPUs.
    [[nodiscard]] bool Lends() const;
    bool late = false, needy = false, overloaded = false, at_ceiling = false, broken = false;
    int over = 0;  // consecutive reports above the overload line
    // The highest need in each part of the load's span. Negative: the vGPU did not exist yet.
    static constexpr std::size_t kParts = 60;
    std::array<float, kParts> needed = Never();
    static constexpr std::array<float, kParts> Never() {
      std::array<float, kParts> parts{};
      parts.fill(-1);
      return parts;
    }
  };

  Watched* Find(VgpuId id);
  [[nodiscard]] const Watched* Find(VgpuId id) const;
  void See(const VgpuView& view, Watched& member) const;
  /// Ends a stage: finds out which vGPUs their caps limited, and restores ceilings.
  void Stage(Instant now, std::span<const VgpuView> views, std::vector<OversellNote>& notes);
  void Measure(Instant now, const VgpuView& view, Watched& member) const;
  /// Ends a report: judges every vGPU, computes the load and adds to the account.
  void Report(Instant now, Duration span, std::span<const VgpuView> views, std::vector<OversellNote>& notes);
  /// The highest sum of needs in the span. For the time before a vGPU existed, its highest need since then counts.
  [[nodiscard]] double PeakLoad() const;
  void BeginPart(Instant now);
  [[nodiscard]] static bool WaitedForOthers(Duration span, const VgpuView& view, Duration others,
                                            const Watched& member);
  void Judge(Duration span, Duration others, const VgpuView& view, Watched& member, std::vector<OversellNote>& notes);
  /// Steals cap for overloaded vGPUs, and warns if there are several.
  void Mitigate(Instant now, std::vector<OversellNote>& notes);
  void Warn(Instant now, std::vector<OversellNote>& notes);
  void Relieve(std::vector<OversellNote>& notes);
  void Divide();
  /// Runs `change(holders)` and adopts the resulting caps.
  template <typename Change>
  void Rearrange(OversellNote::Kind kind, std::vector<OversellNote>* notes, Change change);
  [[nodiscard]] OversellNote NoteOf(OversellNote::Kind kind, const Watched& member) const;
  [[nodiscard]] double CeilingsOf(Sale sale) const;

  const OversellMode mode_;
  const PolicyParams params_;  // as given, for `params`
  const OversellParams settings_;
  const Duration report_;  // at least a stage
  const Prices prices_;
  std::vector<Watched> members_;    // ascending by id
  std::vector<CapHolder> holders_;  // of the members, in the same order
  std::vector<Transfer> done_;
  Instant stage_began_{}, report_began_{}, warned_{};
  VgpuId named_{};        // vGPU named by the last warning
  Instant several_at_{};  // when several vGPUs were last overloaded
  bool started_ = false;
  bool empty_ = true;  // no vGPU was sold at the last call
  int calm_ = 0;       // consecutive reports without overload
  double load_ = 0;
  double peak_ = 0;      // the highest load of the span
  const Duration part_;  // of the load's span; zero: only the last report counts
  std::size_t part_now_ = 0;
  Instant part_began_{};
  double expected_use_ = 0.5;  // mean need of what is sold, as a fraction of its ceilings
  bool offering_ = false;      // overselling was possible at the last report
  Account account_;
};

}  // namespace weir::core
