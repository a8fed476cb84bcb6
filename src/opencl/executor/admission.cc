// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/admission.h"

#include <algorithm>
#include <utility>

#include "platform/clock.h"

namespace weir::opencl {

void Admission::Begin(std::int64_t predicted_ns, bool task, bool in_turn) {
  auto batch = std::make_unique<Batch>();
  batch->present_ns = platform::NowNs();
  if (in_turn) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return in_flight_ < kInFlightMax || abandoned_; });
  }
  std::int64_t now_ns = platform::NowNs();
  batch->ticket = tenancy_.agent.Arrive(now_ns);
  batch->ticket.reserved_ns = std::max<std::int64_t>(predicted_ns, 1'000);
  for (bool gone = false; task && !gone;) {
    const gate::Pace pace = gate::Agent::PaceOf(batch->ticket);
    batch->interval_ns = pace.interval_ns;
    if (pace.interval_ns == 0) break;
    std::int64_t submit_ns = 0;
    {
      // The beat is known when the last task has ended.
      std::unique_lock lock(mutex_);
      if (in_turn) changed_.wait(lock, [this] { return in_flight_ == 0 || abandoned_; });
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
  batch->pace_ns = now_ns - batch->present_ns;
  tenancy_.agent.Enter(batch->ticket, now_ns);
  batch->submit_ns = now_ns + batch->ticket.wait_ns;
  const std::lock_guard lock(mutex_);
  batch->begin_ns = last_end_ns_ != 0 ? last_end_ns_ : batch->present_ns;
  if (in_flight_++ == 0) busy_since_ns_ = batch->submit_ns;
  open_ = std::move(batch);
}

void Admission::Add(std::int64_t predicted_ns) {
  open_->predicted_ns += predicted_ns;
  ++open_->tasks;
}

bool Admission::Full() const {
  return open_->interval_ns != 0 || open_->predicted_ns >= kQuantum.count() || open_->tasks >= kTasksPerBatchMax;
}

std::unique_ptr<Admission::Batch> Admission::Close() { return std::exchange(open_, nullptr); }

std::int64_t Admission::Done(const Batch& batch, std::int64_t device_ns) {
  const std::int64_t gpu_ns = tenancy_.meter.by_workers() ? tenancy_.meter.TakeNs() : device_ns;
  const std::int64_t end_ns = platform::NowNs();
  gate::Frame frame{.begin_ns = batch.begin_ns,
                    .present_ns = batch.present_ns,
                    .submit_ns = batch.submit_ns,
                    .end_ns = end_ns,
                    .gpu_ns = gpu_ns,
                    .pace_ns = batch.pace_ns,
                    .interval_ns = batch.interval_ns};
  tenancy_.agent.Leave(batch.ticket, frame);
  const std::lock_guard lock(mutex_);
  pacer_.Presented(Duration{batch.interval_ns}, InstantFromNs(batch.submit_ns), InstantFromNs(end_ns));
  last_end_ns_ = end_ns;
  --in_flight_;
  busy_since_ns_ = in_flight_ > 0 ? end_ns : 0;
  changed_.notify_all();
  return gpu_ns;
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
