// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/admission.h"

#include <algorithm>
#include <utility>

#include "platform/clock.h"

namespace weir::opencl {
namespace {

/// Limit of the GPU time reserved on entry, because a prediction may be far off. The rest is charged when it is known.
constexpr std::int64_t kReservedMaxNs = 100'000'000;
/// A batch that could run for longer is charged for all of that time, although batches of other queues end meanwhile.
constexpr std::int64_t kLongNs = 200'000'000;

}  // namespace

void Admission::Begin(std::int64_t predicted_ns, const Entry& entry) {
  auto batch = std::make_unique<Batch>();
  batch->present_ns = platform::NowNs();
  {
    // A batch may arrive at the gate while another is still on the device, whose end is not known yet. The batch's
    // frame begins with the last end that is known.
    const std::lock_guard lock(mutex_);
    batch->begin_ns = last_end_ns_ != 0 ? std::min(last_end_ns_, batch->present_ns) : batch->present_ns;
  }
  batch->alone = entry.alone;
  batch->task = entry.task;
  batch->may_wait_for_client = !entry.in_turn;
  batch->queue = entry.queue;
  if (entry.in_turn) {
    std::unique_lock lock(mutex_);
    changed_.wait(
        lock, [&] { return flying_.size() < (entry.alone || alone_ ? std::size_t{1} : kInFlightMax) || abandoned_; });
  }
  std::int64_t now_ns = platform::NowNs();
  batch->ticket = tenancy_.agent.Arrive(now_ns);
  if (batch->ticket.waited_for_place) now_ns = platform::NowNs();
  batch->ticket.reserved_ns = std::clamp<std::int64_t>(predicted_ns, 1'000, kReservedMaxNs);
  for (bool gone = false; entry.task && !gone;) {
    const gate::Pace pace = gate::Agent::PaceOf(batch->ticket);
    batch->interval_ns = pace.interval_ns;
    if (pace.interval_ns == 0) break;
    std::int64_t submit_ns = 0;
    {
      // The next submission time is known when the last task has ended.
      std::unique_lock lock(mutex_);
      if (entry.in_turn) changed_.wait(lock, [this] { return flying_.empty() || abandoned_; });
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
  if (flying_.empty()) busy_since_ns_ = batch->submit_ns;
  batch->since_ns = batch->submit_ns;
  flying_.push_back(batch.get());
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
  // A batch that may wait for the client has only one command, so that the device can be asked whether it is running.
  if (open_->may_wait_for_client && open_->commands > 0) return true;
  return open_->interval_ns != 0 || open_->alone || open_->predicted_ns >= kQuantum.count() ||
         open_->commands >= kCommandsPerBatchMax;
}

std::unique_ptr<Admission::Batch> Admission::Close(std::function<bool()> running) {
  if (open_) {
    open_->tasks_ended = std::exchange(tasks_ended_, 0);
    const std::lock_guard lock(mutex_);
    open_->running = std::move(running);
  }
  return std::exchange(open_, nullptr);
}

void Admission::Done(Batch& batch, std::optional<std::int64_t> device_ns) {
  const std::int64_t end_ns = platform::NowNs();
  {
    // From here on no other thread charges it. It counts as in flight until its costs are known.
    const std::lock_guard lock(mutex_);
    batch.ended = true;
    const bool may_have_run = !batch.may_wait_for_client || batch.running_since_ns != 0;
    if (!device_ns && may_have_run)
      device_ns = std::max(batch.used_ns, end_ns - std::max(batch.since_ns, batch.running_since_ns));
  }
  const std::int64_t gpu_ns =
      tenancy_.meter.by_workers() ? batch.used_ns + tenancy_.meter.TakeNs() : device_ns.value_or(batch.used_ns);
  gate::Frame frame{.begin_ns = batch.begin_ns,
                    .present_ns = batch.present_ns,
                    .submit_ns = batch.submit_ns,
                    .end_ns = end_ns,
                    .gpu_ns = gpu_ns,
                    .pace_ns = batch.pace_ns,
                    .interval_ns = batch.interval_ns,
                    .tasks = proto::kRecordCountsTasks | batch.tasks_ended};
  tenancy_.agent.Leave(batch.ticket, frame);
  LearnCosts(batch.launches, batch.predicted_ns, gpu_ns);  // before waiters continue
  for (const CostPart& launch : batch.launches) tenancy_.work_items->fetch_sub(launch.items, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  // The pace applies to tasks: batches that continue a task or only copy do not restart it.
  if (batch.task) pacer_.Presented(Duration{batch.interval_ns}, InstantFromNs(batch.submit_ns), InstantFromNs(end_ns));
  last_end_ns_ = end_ns;
  std::erase(flying_, &batch);
  busy_since_ns_ = flying_.empty() ? 0 : end_ns;
  for (Batch* next : flying_)
    if (next->queue == batch.queue) next->since_ns = std::max(next->since_ns, end_ns);
  changed_.notify_all();
}

Admission::Batch* Admission::AtWork() const {
  const auto found = std::ranges::find_if(flying_, [](const Batch* batch) {
    return !batch->ended && (!batch->may_wait_for_client || batch->running_since_ns != 0);
  });
  return found != flying_.end() ? *found : nullptr;
}

void Admission::ChargeInFlight(std::int64_t now_ns) {
  // The driver is asked without the mutex, because it may hold a lock of its own when it calls Done.
  std::vector<std::pair<Batch*, std::function<bool()>>> asked;
  {
    const std::lock_guard lock(mutex_);
    for (Batch* batch : flying_)
      if (batch->may_wait_for_client && batch->running) asked.emplace_back(batch, batch->running);
  }
  std::erase_if(asked, [](const auto& one) { return !one.second(); });
  const std::lock_guard lock(mutex_);
  for (Batch* batch : flying_) {
    if (!batch->may_wait_for_client) continue;
    const bool runs = std::ranges::any_of(asked, [batch](const auto& one) { return one.first == batch; });
    if (!runs)
      batch->running_since_ns = 0;
    else if (batch->running_since_ns == 0)
      batch->running_since_ns = now_ns;
  }
  Batch* batch = AtWork();
  if (batch == nullptr) return;
  if (tenancy_.meter.by_workers()) {
    batch->used_ns += tenancy_.meter.TakeNs();
  } else {
    const std::int64_t could_run_ns = now_ns - std::max(batch->since_ns, batch->running_since_ns);
    const std::int64_t alone_ns = now_ns - std::max(busy_since_ns_, batch->running_since_ns);
    batch->used_ns = std::max(batch->used_ns, could_run_ns > kLongNs ? could_run_ns : alone_ns);
  }
  tenancy_.agent.Charge(batch->ticket, batch->used_ns);
}

std::int64_t Admission::BusySinceNs() const {
  const std::lock_guard lock(mutex_);
  const Batch* batch = AtWork();
  return batch != nullptr ? std::max(busy_since_ns_, batch->running_since_ns) : 0;
}

std::int64_t Admission::OldestSinceNs() const {
  const std::lock_guard lock(mutex_);
  const Batch* batch = AtWork();
  return batch != nullptr ? std::max(batch->since_ns, batch->running_since_ns) : 0;
}

void Admission::Drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return flying_.empty(); });
}

void Admission::Abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  changed_.notify_all();
}

}  // namespace weir::opencl
