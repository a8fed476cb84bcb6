// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/printable.h"
#include "gate/host.h"
#include "gate/statistic_words.h"
#include "platform/process.h"

namespace weir::gate {
namespace {

/// Upper bound of threads that present at once; a larger count is invalid.
constexpr std::uint32_t kThreadsMax = 1024;
/// Upper bounds of plausible values; sums over 10,000 vGPUs stay within 64 bits.
constexpr std::uint64_t kBytesMax = 1ULL << 50, kWorkItemsMax = 1ULL << 48;

/// Whether a record can be true: its times must be ordered and in the past, and its durations so small that sums of
/// them can't overflow.
bool Plausible(const proto::Record& record, std::uint64_t last_sequence, std::int64_t now_ns) {
  constexpr std::int64_t kDay = kBelievableNs;
  constexpr std::int64_t kClockSlack = 1'000'000'000;
  if (record.kind != static_cast<std::uint32_t>(proto::RecordKind::kFrame)) return false;
  if (record.sequence <= last_sequence) return false;
  if (record.begin_ns < 0 || record.begin_ns > record.present_ns || record.present_ns > record.submit_ns) return false;
  if (record.submit_ns > record.end_ns) return false;
  if (record.end_ns > now_ns + kClockSlack || record.end_ns - record.begin_ns > kDay) return false;
  if (record.gpu_ns < 0 || record.gpu_ns > kDay) return false;
  if (record.predicted_ns < 0 || record.predicted_ns > kDay) return false;
  if (record.interval_ns < 0 || record.interval_ns > kDay) return false;
  if (record.start_delay_ns < 0 || record.start_delay_ns > record.present_ns - record.begin_ns) return false;
  // Each part is checked before the sum, which then can't overflow.
  const std::int64_t held = record.submit_ns - record.present_ns;
  for (const std::int64_t part : {record.sync_ns, record.pace_ns, record.wait_ns})
    if (part < 0 || part > held) return false;
  return record.sync_ns + record.pace_ns + record.wait_ns <= held;
}

/// A record without a task count stands for one task, as does a frame.
std::uint32_t TasksOf(const proto::Record& record) {
  if ((record.tasks & proto::kRecordCountsTasks) == 0) return 1;
  constexpr std::uint32_t kFlags = proto::kRecordCountsTasks | proto::kRecordPresentFollows;
  return std::min(record.tasks & ~kFlags, proto::kRecordTasksMax);
}

/// The text up to the first zero byte within `size`.
std::string PrintableUpToZero(const char* text, std::size_t size) {
  return Printable(std::string_view(text, ::strnlen(text, size)));
}

}  // namespace

ProcessGate::ProcessGate(ProcessId id, platform::Fd socket, platform::Peer peer, const proto::Hello& hello,
                         platform::Mapping region)
    : id_(id),
      socket_(std::move(socket)),
      peer_(peer),
      api_(hello.api),
      program_(PrintableUpToZero(hello.program.data(), hello.program.size())),
      region_(std::move(region)) {
  off_screen_seen_ = !proto::Draws(api_);
}

ProcessInfo ProcessGate::Info() const {
  char renderer[sizeof page().renderer];
  std::memcpy(renderer, page().renderer, sizeof renderer);  // copied once before it is checked
  const std::uint32_t meter = page().meter.load(std::memory_order_relaxed);
  return {.id = id_,
          .pid = peer_.pid,
          .uid = peer_.uid,
          .api = api_,
          .program = program_,
          .renderer = PrintableUpToZero(renderer, sizeof renderer),
          .meter = meter <= proto::kMeterKindMax ? static_cast<proto::MeterKind>(meter) : proto::MeterKind::kNone,
          .off_screen = proto::Draws(api_) && !Draws(),
          .memory = ProgramMemory()};
}

DeviceUse ProcessGate::Use() const {
  if (api_ != proto::Api::kOpenCl) return {};
  return {.work_items = std::min(page().work_items.load(std::memory_order_relaxed), kWorkItemsMax),
          .memory = Bytes{std::min(page().memory_bytes.load(std::memory_order_relaxed), kBytesMax)}};
}

Bytes ProcessGate::ProgramMemory() const {
  if (api_ == proto::Api::kOpenCl) return {};
  return {std::min(page().memory_bytes.load(std::memory_order_relaxed), kBytesMax)};
}

proto::ExecutorStatistics ProcessGate::Memory() const { return LoadStatistics(page()); }

std::uint32_t ProcessGate::Count(const proto::AtomicU32& word) {
  // Sequentially consistent, like the agent's write (Agent::Enter): an agent that has missed the request for the
  // doorbell is seen here.
  const std::uint32_t count = word.load(std::memory_order_seq_cst);
  return count <= kThreadsMax ? count : 0;
}

bool ProcessGate::Observe(std::int64_t now_ns) {
  const std::uint32_t in_flight = InFlight();
  const std::int64_t settled_ns = page().gpu_ns_total.load(std::memory_order_relaxed);
  const std::int64_t reserved_ns = ReservedNs();
  const bool moved = in_flight != in_flight_seen_ || settled_ns != settled_seen_ns_;
  if (moved || in_flight == 0 || reserved_ns != reserved_seen_ns_) charged_at_ns_ = now_ns;
  in_flight_seen_ = in_flight;
  settled_seen_ns_ = settled_ns;
  reserved_seen_ns_ = reserved_ns;
  return moved;
}

std::int64_t ProcessGate::UnreportedNs(std::int64_t now_ns) const {
  return in_flight_seen_ == 0 ? 0 : std::max<std::int64_t>(now_ns - charged_at_ns_, 0);
}

void ProcessGate::Drain(std::int64_t now_ns, Drained& into) {
  const std::uint64_t dropped = page().records_dropped.load(std::memory_order_relaxed);
  if (dropped > dropped_seen_) into.lost += std::min<std::uint64_t>(dropped - dropped_seen_, 1'000'000);
  dropped_seen_ = dropped;

  const std::uint64_t head = page().head.load(std::memory_order_acquire);
  if (head - tail_ > proto::kRingRecords) {  // also true if the head went backwards
    ++into.bad;
    tail_ = head;
  }
  for (; tail_ != head; ++tail_) {
    const proto::Record record = page().records[tail_ % proto::kRingRecords];
    std::atomic_signal_fence(
        std::memory_order_seq_cst);  // prevents the compiler from reading the page again after the check
    if (!Plausible(record, sequence_, now_ns)) {
      ++into.bad;
      continue;
    }
    sequence_ = record.sequence;
    into.frames.push_back({.pid = peer_.pid,
                           .surface = record.surface,
                           .begin_ns = record.begin_ns,
                           .present_ns = record.present_ns,
                           .submit_ns = record.submit_ns,
                           .end_ns = record.end_ns,
                           .gpu_ns = record.gpu_ns,
                           .sync_ns = record.sync_ns,
                           .pace_ns = record.pace_ns,
                           .wait_ns = record.wait_ns,
                           .predicted_ns = record.predicted_ns,
                           .interval_ns = record.interval_ns,
                           .start_delay_ns = record.start_delay_ns,
                           .tasks = TasksOf(record),
                           .present_follows = (record.tasks & proto::kRecordPresentFollows) != 0});
  }
  page().tail.store(tail_, std::memory_order_release);
}

bool ProcessGate::ReadAcks() {
  constexpr int kPacketsMax = 64;  // a bound for one visit, not for the agent
  for (int i = 0; i < kPacketsMax; ++i) {
    auto packet =
        platform::ReceivePacket(socket_.get(), proto::kAttachMessageBytesMax, platform::Descriptors::kRefused);
    if (!packet) return packet.error().code == Errc::kTimeout;
    if (packet->bytes.empty()) return false;
    const auto message = proto::Decode(packet->bytes);
    if (!message || !std::holds_alternative<proto::Ack>(*message)) return false;
    if (unanswered_ == 0) return false;  // nobody asked: a flood of answers would occupy the daemon
    --unanswered_;
  }
  return true;
}

Status ProcessGate::Send(const proto::Command& command) {
  ++unanswered_;
  return platform::SendPacket(socket_.get(), proto::Encode(command));
}

}  // namespace weir::gate
