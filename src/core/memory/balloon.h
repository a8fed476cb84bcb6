// SPDX-License-Identifier: Apache-2.0
// gBalloon for one device: decides how many slots each vGPU holds, from its need and the memory overhead of the whole
// device. Pure; the daemon and the simulator run the same object. Page: docs/memory.md
//
//   request     grant it, or refuse it                                                            gBalloon, 3.1
//   every look  overhead f = α·W + β·R_copy over the time since the last look (0.5 s)             gBalloon, eq. 1 to 3
//               W: steal, the time that runnable threads wait for CPUs, in %
//               R_copy: the time that copying at switches takes of the CPUs, in %
//
// With several vGPUs, the part of f that one vGPU contributes is limited to high_line. So a false report of one
// tenant's executor alone can't raise f above that line.
//
//      f   0            low_line 0.5            high_line 1                 2
//          ├── kLow ─────────┼───── kMiddle ───────┼──────── kHigh ─────────┤
//   request  granted           granted               refused, except what one command needs at once
//   a look   -                 the vGPU with the     one vGPU gives up two slots,
//                              most unused slots     used or not
//                              gives up two of them
#pragma once

#include <array>
#include <span>
#include <vector>

#include "core/memory/slot_arena.h"
#include "core/schedule/policy_table.h"

namespace weir::core {

inline constexpr std::array<std::string_view, 2> kSlotLayouts{"contiguous", "scattered"};

struct BalloonParams {
  Duration look = milliseconds(500);
  double low_line = 0.5;
  double high_line = 1;
  std::uint32_t shrink_slots = 2;
  double steal_max = 0;
  double copy_max = 0;
  Duration rest = seconds(2);
  Duration regrow = seconds(2);
  std::size_t thrash_turns = 2;
  Duration thrash_window = seconds(10);
  double sold_max = 2;
  Duration turn = milliseconds(200);
  double turn_copies = 4;
  double busy_copies = 16;
  Duration answer = seconds(60);
  SlotLayout layout = SlotLayout::kContiguous;

  static constexpr void Fields(auto&& each) {
    using P = BalloonParams;
    each(ParamInfo{"look_ms", "ms", 50, 60000, "period of the overhead check (gBalloon, 3.2: 0.5 s)"}, &P::look);
    each(ParamInfo{"low_line", "", 0, 2,
                   "overhead above which the vGPU with most unused slots gives some up (gBalloon, 3.2: 0.5)"},
         &P::low_line);
    each(ParamInfo{"high_line", "", 0, 2,
                   "overhead above which no vGPU gets more and used slots are given up, too (gBalloon, 3.2: 1)"},
         &P::high_line);
    each(ParamInfo{"shrink_slots", "slots", 1, 1024, "slots given up at one check (gBalloon, 3.2: two of 64 MB)"},
         &P::shrink_slots);
    each(
        ParamInfo{
            "steal_max", "%", 0, 1e9,
            "the largest W of this machine, 1/α (gBalloon, eq. 3); 0: 100 for each CPU, twice as many threads want "
            "to run as can"},
        &P::steal_max);
    each(
        ParamInfo{
            "copy_max", "%", 0, 100,
            "the largest R_copy of this machine, 1/β (gBalloon, eq. 3); 0: 100/CPUs, one CPU does nothing but copy "
            "(gBalloon, 3.2: one does)"},
        &P::copy_max);
    each(ParamInfo{"rest_ms", "ms", 0, 60000,
                   "after giving up slots a vGPU gives up no more for this time; above the high line only if another "
                   "can (ours)"},
         &P::rest);
    each(ParamInfo{"regrow_ms", "ms", 0, 60000,
                   "after giving up slots a vGPU gets none for this time, unless overhead is low (ours)"},
         &P::regrow);
    each(
        ParamInfo{
            "thrash_turns", "times", 1, 8,
            "number of times in a window that a vGPU may grow after it gave up slots (ours; the paper has no brake)"},
        &P::thrash_turns);
    each(ParamInfo{"thrash_window_ms", "ms", 0, 600000, "length of the window of thrash_turns (ours)"},
         &P::thrash_window);
    each(
        ParamInfo{
            "sold_max", "devices", 0.01, 1000,
            "upper bound of all guaranteed minima together (gBalloon, section 4: 15 of 384 MB on 3,456 MB are 1.7)"},
        &P::sold_max);
    each(ParamInfo{"turn_ms", "ms", 1, 60000, "shortest turn at shared slots while it is used (ours)"}, &P::turn);
    each(
        ParamInfo{
            "turn_copies", "times", 1, 100,
            "shortest turn as a multiple of a switch's duration; of all switches together: copying for those that "
            "interrupt a vGPU takes at most a fifth of the time (ours)"},
        &P::turn_copies);
    each(
        ParamInfo{
            "busy_copies", "times", 1, 100,
            "turn_copies when threads wait for CPUs as much as possible (W is steal_max); in between, in proportion: a "
            "CPU that copies is taken from them (ours)"},
        &P::busy_copies);
    each(
        ParamInfo{
            "answer_ms", "ms", 0, 3.6e6,
            "an executor that has not carried out its orders for this time is ended, since others wait for its slots; "
            "a kernel runs no longer than this after an order; 0: never (ours)"},
        &P::answer);
    each(ParamInfo{"layout", "", 0, 1, "arrangement of a vGPU's slots (gBalloon, 3.3: one range; section 6: any slots)",
                   kSlotLayouts},
         &P::layout);
  }
};
inline constexpr auto kBalloonParams = kParamTable<BalloonParams>;
inline constexpr PolicyEntry kBalloonEntry{"memory", "gBalloon: memory that follows the need", kBalloonParams, nullptr};
/// Checks that the parameters are complete and in range, as CheckParams of a policy does, and that low_line is at most
/// high_line.
Result<PolicyParams> CheckBalloonParams(const PolicyParams& given);

struct DeviceMemory {
  std::uint32_t slots = 0;
  Bytes slot = kSlotBytes;
  std::uint32_t cpus = 1;  // CPUs of the host, at least 1: N in eq. 1. Where other engines copy, their number
};

/// What the daemon observes of a vGPU. Totals may start at any value and never fall; a total that falls has been
/// restarted.
struct MemoryView {
  VgpuId id;
  Bytes in_use{};      // distinct bytes that commands used, or wait to use, since the last look; includes evicted bytes
  Bytes must{};        // the most that one recent command needs at once; shrinking leaves at least this much
  Duration copying{};  // total: time spent copying contents out and in at switches, because other vGPUs hold its slots
                       // too. Excludes copies that it makes because its own slots don't suffice; otherwise shrinking a
                       // vGPU would raise f
  Duration steal{};    // total over its threads: runnable and not running (run-queue wait; w in eq. 2)
  Duration elsewhere{};       // total over its threads: all other time, running or blocked (s in eq. 2)
  std::uint32_t threads = 0;  // number of threads in these totals
};

enum class MemoryPressure : std::uint8_t { kLow, kMiddle, kHigh };
const char* NameOf(MemoryPressure pressure);

/// A decision and its reason.
struct BalloonNote {
  enum class Kind : std::uint8_t {
    kGranted,         // everything that was requested
    kPartly,          // up to its maximum
    kHas,             // it already holds as many
    kAtMaximum,       // refused: it holds its maximum
    kOverhead,        // refused: f is over the high line
    kJustShrunk,      // refused: it gave up slots less than regrow_ms ago, and f is not low
    kThrash,          // refused: it has alternated between growing and shrinking too often
    kShrunkIdle,      // it held the most unused slots, and f is over the low line
    kShrunkOverhead,  // f is over the high line; the slots may have been in use
    kBounds,          // its limits were changed, and its slots no longer lay between them
    kPressure,        // the memory pressure of the device changed
  };
  Kind kind = Kind::kGranted;
  VgpuId vgpu{};              // unset: the note is about the device
  std::uint32_t slots = 0;    // taken or given up
  std::uint32_t held = 0;     // afterwards
  std::uint32_t wanted = 0;   // requested in total
  std::uint32_t used = 0;     // in use at the last look
  SlotChange change{};        // where the slots were added or removed
  MemoryPressure pressure{};  // at the last look, like the fields below
  double overhead = 0;        // f
  double steal = 0;           // W, %
  double copying = 0;         // R_copy, %
};
const char* NameOf(BalloonNote::Kind kind);

struct SlotGrant {
  BalloonNote note;
  Instant again{};  // if refused, the earliest time at which a new request may succeed; else `now`
  [[nodiscard]] bool granted() const {
    return note.kind == BalloonNote::Kind::kGranted || note.kind == BalloonNote::Kind::kPartly ||
           note.kind == BalloonNote::Kind::kHas;
  }
};

class Balloon {
 public:
  /// `params` are checked.
  Balloon(const PolicyParams& params, const DeviceMemory& device);

  /// Adds a vGPU, which holds its minimum immediately. `max` 0 stands for the whole device. Fails with
  /// kResourceExhausted if the minimum can't be guaranteed (the message gives the amount that can), and with
  /// kInvalidArgument if the limits contradict each other or exceed the device.
  Status Add(VgpuId id, Bytes min, Bytes max);
  /// Fails where Add of this vGPU would fail, or SetBounds of one that was added.
  [[nodiscard]] Status Check(VgpuId id, Bytes min, Bytes max) const;
  /// Changes the limits, also of a running program; the vGPU then holds at least `min` and at most `max`. Fails like
  /// Add, and with kNotFound for an unknown vGPU.
  Result<BalloonNote> SetBounds(VgpuId id, Bytes min, Bytes max);
  Status Remove(VgpuId id);

  /// `need`: all bytes that the vGPU wants on the device at once. `must`: the part of them that a waiting command
  /// needs. The command can't run with less, so `must` is granted under any overhead. Fails with kNotFound for an
  /// unknown vGPU, and with kInvalidArgument if `need` is 0.
  Result<SlotGrant> Ask(Instant now, VgpuId id, Bytes need, Bytes must = {});

  /// Updates overhead and pressure when a look is due. Returns the time of the next look and appends decisions to
  /// `notes`.
  Instant See(Instant now, std::span<const MemoryView> views, std::vector<BalloonNote>& notes);

  [[nodiscard]] const SlotArena& arena() const { return arena_; }
  [[nodiscard]] SlotArena& arena() { return arena_; }  // mutable because SlotTurns moves slots
  [[nodiscard]] const PolicyParams& params() const { return params_; }
  [[nodiscard]] std::uint32_t MinOf(VgpuId id) const;  // in slots; 0 for an unknown vGPU
  [[nodiscard]] std::uint32_t MaxOf(VgpuId id) const;
  [[nodiscard]] std::uint64_t guaranteed() const;  // in slots, sum of all minima
  [[nodiscard]] MemoryPressure pressure() const { return pressure_; }
  [[nodiscard]] double overhead() const { return overhead_; }  // f, 0 to 2
  [[nodiscard]] double steal() const { return steal_; }        // W, %: used to calibrate steal_max
  [[nodiscard]] double copying() const { return copying_; }    // R_copy, %: used to calibrate copy_max
  /// Time within which an executor has to carry out a memory order; zero: no limit.
  [[nodiscard]] Duration AnswerWithin() const { return settings_.answer; }
  /// Interpolates between turn_copies and busy_copies by W. Uses turn_copies if busy_copies is smaller.
  [[nodiscard]] double TurnCopies() const;

 private:
  static constexpr std::size_t kTurnsMax = 8;

  struct Ballooned {
    VgpuId id;
    std::uint32_t min = 0, max = 0;
    bool shrunk = false;       // it has given up slots at least once
    bool shrunk_last = false;  // its last change gave up slots
    Instant shrunk_at{};
    std::array<Instant, kTurnsMax> turned{};  // ring: times at which it grew after it had given up slots
    std::size_t turns = 0;
    bool seen = false;     // the totals below are those of an earlier look
    bool present = false;  // it is in the views of this look
    Duration copying{}, steal{}, elsewhere{};
    Duration copy_time{};  // copy time that is credible but not yet reported
    std::uint32_t used = 0;
    std::uint32_t must = 0;
  };

  [[nodiscard]] const Ballooned* Find(VgpuId id) const;
  [[nodiscard]] Ballooned* Find(VgpuId id);
  [[nodiscard]] Result<SlotRange> Bounds(VgpuId id, Bytes min, Bytes max) const;
  void Enter(VgpuId id, SlotRange bounds);
  [[nodiscard]] BalloonNote NoteOf(BalloonNote::Kind kind, VgpuId id) const;
  [[nodiscard]] SlotGrant Refuse(BalloonNote::Kind kind, VgpuId id, std::uint32_t wanted, Instant again) const;
  SlotGrant Give(Instant now, Ballooned& member, std::uint32_t wanted, std::uint32_t target);
  /// Time from which the vGPU may grow again, as it has alternated between growing and shrinking too often. A time in
  /// the past allows growth now.
  [[nodiscard]] Instant BrakedUntil(const Ballooned& member) const;
  void Measure(Duration span, std::span<const MemoryView> views);
  void ShrinkOne(Instant now, std::vector<BalloonNote>& notes);
  [[nodiscard]] std::uint32_t Spare(const Ballooned& member) const;
  /// Whether it gave up slots less than rest_ms ago.
  [[nodiscard]] bool Rests(const Ballooned& member, Instant now) const;

  const PolicyParams params_;  // as given, for `params`
  const BalloonParams settings_;
  const double steal_max_, copy_max_;  // not 0, unlike those of `settings_`
  const std::uint32_t cpus_;
  SlotArena arena_;
  std::vector<Ballooned> members_;  // ascending by id
  bool started_ = false;
  Instant looked_at_{};
  MemoryPressure pressure_ = MemoryPressure::kLow;
  double overhead_ = 0, steal_ = 0, copying_ = 0;
  double waiting_ = 0;  // W / W_max, 0 to 1, with the part of each vGPU limited
};

}  // namespace weir::core
