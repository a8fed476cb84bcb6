// SPDX-License-Identifier: Apache-2.0
#include "emulator/gl/stream.h"

#include <algorithm>
#include <utility>

namespace weir::emulator::gl {

Duration Stream::TakeWork(const FrameCost& cost, Duration cpu) {
  if (cost.measured()) return Duration{static_cast<std::int64_t>(static_cast<double>(cpu.count()) * cost.factor)};
  return std::exchange(charged_, true) ? Duration{} : *cost.fixed;
}

BatchPtr Stream::Close(Instant now, Duration work) {
  BatchPtr closed = std::exchange(open_, std::make_shared<Batch>());
  closed_ = closed;
  drawn_ = false;
  if (work <= Duration{}) {
    closed->state = Batch::State::kEmpty;
    closed->before = last_;
    closed->began = closed->ended = now;
    return nullptr;
  }
  closed->state = Batch::State::kClosed;
  last_ = closed;
  closed_commands_.push_back({closed, work});
  return closed;
}

std::vector<Stream::Command> Stream::TakeClosed() {
  for (const Command& command : closed_commands_) command.batch->state = Batch::State::kSubmitted;
  return std::exchange(closed_commands_, {});
}

bool Stream::IsClosed(const Batch* batch) const {
  while (batch != nullptr && batch->state == Batch::State::kEmpty) batch = batch->before.get();
  return std::ranges::any_of(closed_commands_, [batch](const Command& c) { return c.batch.get() == batch; });
}

void Stream::EndFrame(BatchPtr shown, Instant now) {
  charged_ = false;
  swapped_ = true;
  swapped_at_ = now;
  if (shown) frames_.push_back(std::move(shown));
}

BatchPtr Stream::Oldest(std::size_t depth) {
  while (!frames_.empty() && frames_.front()->Done()) frames_.pop_front();
  return frames_.size() > depth ? frames_.front() : nullptr;
}

}  // namespace weir::emulator::gl
