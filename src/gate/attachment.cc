// SPDX-License-Identifier: Apache-2.0
#include "gate/attachment.h"

#include <unistd.h>

namespace weir::gate {

void Attachment::RingDoorbell() const {
  const std::uint64_t one = 1;
  // The daemon's eventfd is non-blocking; a full counter already wakes the daemon.
  [[maybe_unused]] const ssize_t written = ::write(doorbell.get(), &one, sizeof one);
}

bool Attachment::TryReserve(std::int64_t cost_ns) {
  proto::VgpuRegion& region = vgpu();
  const auto mode = static_cast<proto::GateMode>(region.mode.load(std::memory_order_acquire));
  if (mode == proto::GateMode::kPaused || paused.load(std::memory_order_relaxed)) return false;
  if (mode == proto::GateMode::kOpen) {
    region.allowance_ns.fetch_sub(cost_ns, std::memory_order_relaxed);
    return true;
  }
  // Reserved before the work is submitted, so that only one of several processes gets the last of a shared allowance.
  std::int64_t allowance = region.allowance_ns.load(std::memory_order_relaxed);
  while (allowance > 0)
    if (region.allowance_ns.compare_exchange_weak(allowance, allowance - cost_ns, std::memory_order_relaxed))
      return true;
  return false;
}

void ShowAgain(Attachment& attachment) {
  proto::ProcessRegion& shown = attachment.process();
  Show(attachment.waiting, 0, shown.waiting);
  Show(attachment.in_flight, 0, shown.in_flight);
  Show(attachment.reserved_ns, 0, shown.reserved_ns);
  Show(attachment.gpu_ns_total, 0, shown.gpu_ns_total);
  Show(attachment.head, 0, shown.head);
  Show(attachment.records_dropped, 0, shown.records_dropped);
  attachment.SetPaused(attachment.paused.load(std::memory_order_relaxed));
}

void Attachment::Push(const proto::Record& record) {
  proto::ProcessRegion& region = process();
  if (head - region.tail.load(std::memory_order_acquire) >= proto::kRingRecords) {
    Show(records_dropped, 1, region.records_dropped);
    region.head.store(head, std::memory_order_release);  // if it was overwritten: the daemon goes on from there
    return;
  }
  region.records[head % proto::kRingRecords] = record;
  region.head.store(++head, std::memory_order_release);
}

}  // namespace weir::gate
