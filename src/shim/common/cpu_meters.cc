// SPDX-License-Identifier: Apache-2.0
// Meters for software renderers, from the kernel's CPU clocks.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>
#include <utility>

#include "platform/thread_cpu.h"
#include "shim/common/meter.h"

namespace weir::shim {
namespace {

/// The interval of searches for new workers. Contexts are created and destroyed while the program runs, and their
/// workers with them.
constexpr std::int64_t kRescanNs = 1'000'000'000;

/// The estimates since the last search are wrong if their sum differs from the workers' clocks by more than kOffNs and
/// by more than 1/kOffPart of the clocks.
constexpr std::int64_t kOffNs = 1'000'000;
constexpr std::int64_t kOffPart = 100;
/// The number of searches after wrong estimates until estimates are used again.
constexpr int kExactScans = 30;

std::optional<std::int64_t> ReadClock(clockid_t clock) {
  timespec t{};
  if (::clock_gettime(clock, &t) != 0) return std::nullopt;
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

std::vector<pid_t> FindWorkers() { return platform::ThreadsOfThisProcess("llvmpipe-"); }

int Divisor(const DeviceCpus& cpus) {
  if (cpus.Known()) return cpus.Count();
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<int>(online) : 1;
}

/// A thread of this process, and the last reading of its CPU clock.
struct ThreadRead {
  pid_t tid;
  std::int64_t read_ns;
};

/// CPU time of these threads since the last call. Sets `lost` if one of them has ended.
std::int64_t TimeSince(std::vector<ThreadRead>& threads, bool& lost) {
  std::int64_t used = 0;
  for (ThreadRead& thread : threads) {
    const auto clock = platform::ThreadCpuNs(thread.tid);
    lost |= !clock.has_value();
    if (!clock) continue;
    used += *clock - thread.read_ns;
    thread.read_ns = *clock;
  }
  return used;
}

/// Estimates the workers' CPU time as the process's CPU time minus that of its other threads. This reads one clock for
/// the process and one for each other thread, which is cheaper if there are more workers than other threads. A thread
/// that has started since Begin counts as a worker.
class Difference {
 public:
  void Begin(std::vector<pid_t> others) {
    others_.clear();
    for (const pid_t tid : others) others_.push_back({tid, platform::ThreadCpuNs(tid).value_or(0)});
    process_ns_ = ReadClock(CLOCK_PROCESS_CPUTIME_ID).value_or(0);
    begun_ = true;
  }
  void End() { begun_ = false; }
  [[nodiscard]] bool begun() const { return begun_; }
  std::int64_t Collect(bool& lost) {
    const std::int64_t process_ns = ReadClock(CLOCK_PROCESS_CPUTIME_ID).value_or(process_ns_);
    const std::int64_t used = process_ns - std::exchange(process_ns_, process_ns);
    return used - TimeSince(others_, lost);
  }

 private:
  std::vector<ThreadRead> others_;
  std::int64_t process_ns_ = 0;
  bool begun_ = false;
};

class WorkerMeter final : public Meter {
 public:
  explicit WorkerMeter(const DeviceCpus& cpus) : cpus_(cpus), divisor_(Divisor(cpus)) { Scan(true); }

  [[nodiscard]] bool any() const { return !workers_.empty(); }
  [[nodiscard]] proto::MeterKind kind() const override { return proto::MeterKind::kWorkerCpuTime; }
  [[nodiscard]] bool cumulative() const override { return true; }
  void BeforePresent(std::int64_t) override {}
  std::int64_t AfterPresent(std::int64_t now_ns, std::int64_t) override {
    if (scanned_ns_ == 0) scanned_ns_ = now_ns;
    bool lost = false;
    uncharged_ns_ += difference_.begun() ? Estimate(lost) : TimeSince(workers_, lost);
    if (lost || now_ns - scanned_ns_ >= kRescanNs) {
      uncharged_ns_ += Correct();
      Scan(false);
      scanned_ns_ = now_ns;
      bool ignored = false;
      uncharged_ns_ += TimeSince(workers_, ignored);
    }
    if (uncharged_ns_ < 0) return 0;
    return std::exchange(uncharged_ns_, 0) / divisor_;
  }

 private:
  std::int64_t Estimate(bool& lost) {
    const std::int64_t used = difference_.Collect(lost);
    estimated_ns_ += used;
    return used;
  }
  /// The difference between the workers' own clocks and the estimates since the last search. If the estimates were
  /// wrong, short-lived threads of the program were charged, and the next kExactScans searches choose the workers'
  /// clocks. If a worker has ended, its clock is gone; its time is in the estimates, so there is no correction.
  std::int64_t Correct() {
    if (!difference_.begun()) return 0;
    bool lost = false;
    const std::int64_t exact = TimeSince(workers_, lost);
    const std::int64_t missing = exact - std::exchange(estimated_ns_, 0);
    if (lost) return 0;
    if (std::abs(missing) > kOffNs && std::abs(missing) > exact / kOffPart) exact_scans_ = kExactScans;
    return missing;
  }
  /// Searches for workers. The time that a worker used before the first search is not charged. A worker that a later
  /// search finds is charged since its start.
  void Scan(bool first) {
    std::vector<ThreadRead> found;
    std::vector<pid_t> workers = FindWorkers();
    for (const pid_t tid : workers) {
      std::int64_t read_ns = first ? platform::ThreadCpuNs(tid).value_or(0) : 0;
      bool known = false;
      for (const ThreadRead& worker : workers_) {
        if (worker.tid != tid) continue;
        known = true;
        read_ns = worker.read_ns;
      }
      if (!known && cpus_.Known()) platform::KeepThreadOn(tid, cpus_.mask);
      found.push_back({tid, read_ns});
    }
    workers_ = std::move(found);
    ChooseClocks(std::move(workers));
  }
  /// Begins to estimate, if that reads fewer clocks than there are workers.
  void ChooseClocks(std::vector<pid_t> workers) {
    difference_.End();
    if (exact_scans_ > 0) return static_cast<void>(--exact_scans_);
    std::vector<pid_t> others = platform::ThreadsOfThisProcess();
    std::erase_if(others, [&](pid_t tid) { return std::ranges::find(workers, tid) != workers.end(); });
    if (others.size() + 1 < workers.size()) difference_.Begin(std::move(others));
  }

  const DeviceCpus cpus_;
  const int divisor_;
  std::vector<ThreadRead> workers_;
  Difference difference_;
  int exact_scans_ = 0;            // remaining searches for which the workers' clocks are read
  std::int64_t estimated_ns_ = 0;  // by the difference, since the last search
  std::int64_t uncharged_ns_ = 0;  // negative: an estimate was too high
  std::int64_t scanned_ns_ = 0;
};

class PresentCpuMeter final : public Meter {
 public:
  explicit PresentCpuMeter(const DeviceCpus& cpus) : divisor_(Divisor(cpus)) {}
  [[nodiscard]] proto::MeterKind kind() const override { return proto::MeterKind::kPresentCpuTime; }
  void BeforePresent(std::int64_t) override { before_ns = ReadClock(CLOCK_THREAD_CPUTIME_ID); }
  std::int64_t AfterPresent(std::int64_t, std::int64_t) override {
    const auto before = std::exchange(before_ns, std::nullopt);
    const auto after = ReadClock(CLOCK_THREAD_CPUTIME_ID);
    return before && after ? (*after - *before) / divisor_ : 0;
  }

 private:
  // Each presenting thread has its own clock. A process has only one meter, so thread-local state is safe.
  static thread_local std::optional<std::int64_t> before_ns;
  const int divisor_;
};
thread_local std::optional<std::int64_t> PresentCpuMeter::before_ns;

}  // namespace

int DeviceCpus::Count() const {
  int count = 0;
  for (const std::uint64_t word : mask) count += std::popcount(word);
  return count;
}

std::unique_ptr<Meter> MakeWorkerMeter(const DeviceCpus& cpus) {
  auto meter = std::make_unique<WorkerMeter>(cpus);
  if (!meter->any()) return nullptr;
  return meter;
}

std::unique_ptr<Meter> MakePresentCpuMeter(const DeviceCpus& cpus) { return std::make_unique<PresentCpuMeter>(cpus); }

}  // namespace weir::shim
