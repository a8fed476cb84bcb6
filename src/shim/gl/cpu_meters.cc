// SPDX-License-Identifier: Apache-2.0
// Meters for software renderers, from the kernel's CPU clocks.
#include <time.h>
#include <unistd.h>

#include <bit>
#include <optional>
#include <utility>

#include "platform/thread_cpu.h"
#include "shim/gl/meter.h"

namespace weir::shim {
namespace {

/// The interval of searches for new workers: contexts and their workers come and go.
constexpr std::int64_t kRescanNs = 1'000'000'000;

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
    std::int64_t used = Collect(lost);
    if (lost || now_ns - scanned_ns_ >= kRescanNs) {
      Scan(false);
      scanned_ns_ = now_ns;
      used += Collect(lost);
    }
    return used / divisor_;
  }

 private:
  struct Worker {
    pid_t tid;
    std::int64_t read_ns;
  };

  std::int64_t Collect(bool& lost) {
    std::int64_t used = 0;
    for (Worker& worker : workers_) {
      const auto clock = platform::ThreadCpuNs(worker.tid);
      lost |= !clock.has_value();
      if (!clock) continue;
      used += *clock - worker.read_ns;
      worker.read_ns = *clock;
    }
    return used;
  }
  /// A worker's time before the first scan is not charged; a later worker is charged since its start.
  void Scan(bool first) {
    std::vector<Worker> found;
    for (const pid_t tid : FindWorkers()) {
      std::int64_t read_ns = first ? platform::ThreadCpuNs(tid).value_or(0) : 0;
      bool known = false;
      for (const Worker& worker : workers_) {
        if (worker.tid != tid) continue;
        known = true;
        read_ns = worker.read_ns;
      }
      if (!known && cpus_.Known()) platform::KeepThreadOn(tid, cpus_.mask);
      found.push_back({tid, read_ns});
    }
    workers_ = std::move(found);
  }

  const DeviceCpus cpus_;
  const int divisor_;
  std::vector<Worker> workers_;
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
