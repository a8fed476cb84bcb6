// SPDX-License-Identifier: Apache-2.0
// Meters for software renderers, from the kernel's CPU clocks.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "platform/fd.h"
#include "shim/gl/meter.h"

namespace weir::shim {
namespace {

/// Contexts come and go, and with them workers: looked for this often.
constexpr std::int64_t kRescanNs = 1'000'000'000;

std::optional<std::int64_t> ReadClock(clockid_t clock) {
  timespec t{};
  if (::clock_gettime(clock, &t) != 0) return std::nullopt;
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

/// The CPU clock of a thread of this process, by its id (see pthread_getcpuclockid and the kernel's posix-timers.h).
clockid_t ThreadClock(pid_t tid) {
  constexpr unsigned kPerThreadSchedClock = 6;
  return static_cast<clockid_t>((~static_cast<unsigned>(tid) << 3) | kPerThreadSchedClock);
}

bool IsWorker(int tasks_fd, const char* tid) {
  char path[64];
  if (std::strlen(tid) > 20) return false;
  std::strcpy(path, tid);
  std::strcat(path, "/comm");
  const platform::Fd fd(::openat(tasks_fd, path, O_RDONLY | O_CLOEXEC));
  char name[32] = {};
  if (!fd || ::read(fd.get(), name, sizeof name - 1) <= 0) return false;
  static constexpr char kPrefix[] = "llvmpipe-";
  return std::strncmp(name, kPrefix, sizeof kPrefix - 1) == 0;
}

std::vector<pid_t> FindWorkers() {
  std::vector<pid_t> workers;
  DIR* tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return workers;
  while (const dirent* entry = ::readdir(tasks))
    if (entry->d_name[0] != '.' && IsWorker(::dirfd(tasks), entry->d_name)) workers.push_back(std::atoi(entry->d_name));
  ::closedir(tasks);
  return workers;
}

/// Keeps a worker on the device's CPUs, within what the user allowed the program: a narrower choice stays.
void Pin(pid_t tid, const DeviceCpus& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(tid, sizeof set, &set) != 0) return;
  bool outside = false;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    const bool of_device = cpu < cpus.mask.size() * 64 && (cpus.mask[cpu / 64] >> (cpu % 64) & 1) != 0;
    if (of_device || !CPU_ISSET(cpu, &set)) continue;
    CPU_CLR(cpu, &set);
    outside = true;
  }
  // Nothing to do, or nothing left: a program that was sent elsewhere stays there, and its workers are charged as ever.
  if (outside && CPU_COUNT(&set) > 0) static_cast<void>(::sched_setaffinity(tid, sizeof set, &set));
}

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
      const auto clock = ReadClock(ThreadClock(worker.tid));
      lost |= !clock.has_value();
      if (!clock) continue;
      used += *clock - worker.read_ns;
      worker.read_ns = *clock;
    }
    return used;
  }
  /// What workers did before the first look is not charged; what a new one did since its birth is.
  void Scan(bool first) {
    std::vector<Worker> found;
    for (const pid_t tid : FindWorkers()) {
      std::int64_t read_ns = first ? ReadClock(ThreadClock(tid)).value_or(0) : 0;
      bool known = false;
      for (const Worker& worker : workers_) {
        if (worker.tid != tid) continue;
        known = true;
        read_ns = worker.read_ns;
      }
      if (!known && cpus_.Known()) Pin(tid, cpus_);
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
  // Of each thread: several may present at once, and each has a clock of its own. One process has one meter.
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
