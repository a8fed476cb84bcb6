// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/admission.h"

#include <algorithm>
#include <utility>

#include "platform/clock.h"

namespace weir::opencl {
namespace {

/// A prediction may be far off: no more than this is taken on entry, whatever it says. The rest follows when it is
/// known.
constexpr std::int64_t kReservedMaxNs = 100'000'000;

}  // namespace

void Admission::Begin(std::int64_t predicted_ns, const Entry& entry) {
  auto batch = std::make_unique<Batch>();
  batch->present_ns = platform::NowNs();
  {
    // One batch comes to the gate while another is still on the device: it begins with the end of the last that is
    // known.
    const std::lock_guard lock(mutex_);
    batch->begin_ns = last_end_ns_ != 0 ? std::min(last_end_ns_, batch->present_ns) : batch->present_ns;
  }
  batch->alone = entry.alone;
  batch->task = entry.task;
  if (entry.in_turn) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return in_flight_ < (entry.alone || alone_ ? 1 : kInFlightMax) || abandoned_; });
  }
  std::int64_t now_ns = platform::NowNs();
  batch->ticket = tenancy_.agent.Arrive(now_ns);
  batch->ticket.reserved_ns = std::clamp<std::int64_t>(predicted_ns, 1'000, kReservedMaxNs);
  for (bool gone = false; entry.task && !gone;) {
    const gate::Pace pace = gate::Agent::PaceOf(batch->ticket);
    batch->interval_ns = pace.interval_ns;
    if (pace.interval_ns == 0) break;
    std::int64_t submit_ns = 0;
    {
      // The beat is known when the last task has ended.
      std::unique_lock lock(mutex_);
      if (entry.in_turn) changed_.wait(lock, [this] { return in_flight_ == 0 || abandoned_; });
      submit_ns = NsOf(pacer_.SubmitAt(Duration{pace.interval_ns}));
      if (abandoned_) break;
    }
    now_ns = platform::NowNs();
    if (submit_ns <= now_ns) break;
    now_ns = tenancy_.agent.Delay(batch->ticket, submit_ns, pace.interval_ns, gone);
    if (now_ns < submit_ns) continue;
    const std::lock_guard lock(mutex_);
    pacer_.Slept(InstantFromNs(submit_ns), InstantFromNs(now_ns));
    break;
  }
  if (batch->interval_ns != 0) batch->pace_ns = now_ns - batch->present_ns;
  tenancy_.agent.Enter(batch->ticket, now_ns);
  batch->submit_ns = now_ns + batch->ticket.wait_ns;
  const std::lock_guard lock(mutex_);
  if (in_flight_++ == 0) busy_since_ns_ = batch->submit_ns;
  alone_ = entry.alone;
  open_ = std::move(batch);
}

void Admission::Add(std::int64_t predicted_ns) {
  open_->predicted_ns += predicted_ns;
  ++open_->commands;
}

void Admission::AddLaunch(const std::shared_ptr<KernelCost>& cost, std::uint64_t items, std::int64_t predicted_ns) {
  if (open_->launches.empty() || open_->launches.back().cost != cost) open_->launches.push_back({.cost = cost});
  open_->launches.back().items += items;
  open_->launches.back().predicted_ns += predicted_ns;
  tenancy_.work_items->fetch_add(items, std::memory_order_relaxed);
}

bool Admission::Full() const {
  return open_->interval_ns != 0 || open_->alone || open_->predicted_ns >= kQuantum.count() ||
         open_->commands >= kCommandsPerBatchMax;
}

std::unique_ptr<Admission::Batch> Admission::Close() {
  if (open_) open_->tasks_ended = std::exchange(tasks_ended_, 0);
  return std::exchange(open_, nullptr);
}

void Admission::Done(const Batch& batch, std::int64_t device_ns) {
  const std::int64_t gpu_ns = tenancy_.meter.by_workers() ? tenancy_.meter.TakeNs() : device_ns;
  const std::int64_t end_ns = platform::NowNs();
  gate::Frame frame{.begin_ns = batch.begin_ns,
                    .present_ns = batch.present_ns,
                    .submit_ns = batch.submit_ns,
                    .end_ns = end_ns,
                    .gpu_ns = gpu_ns,
                    .pace_ns = batch.pace_ns,
                    .interval_ns = batch.interval_ns,
                    .tasks = proto::kRecordCountsTasks | batch.tasks_ended};
  tenancy_.agent.Leave(batch.ticket, frame);
  LearnCosts(batch.launches, batch.predicted_ns, gpu_ns);  // before whoever waits for it goes on
  for (const CostPart& launch : batch.launches) tenancy_.work_items->fetch_sub(launch.items, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  // The beat is that of tasks: what only goes on with one, or copies, does not begin it anew.
  if (batch.task) pacer_.Presented(Duration{batch.interval_ns}, InstantFromNs(batch.submit_ns), InstantFromNs(end_ns));
  last_end_ns_ = end_ns;
  --in_flight_;
  busy_since_ns_ = in_flight_ > 0 ? end_ns : 0;
  changed_.notify_all();
}

std::int64_t Admission::BusySinceNs() const {
  const std::lock_guard lock(mutex_);
  return busy_since_ns_;
}

void Admission::Drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return in_flight_ == 0; });
}

void Admission::Abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  changed_.notify_all();
}

}  // namespace weir::opencl
