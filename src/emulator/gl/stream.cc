// SPDX-License-Identifier: Apache-2.0
#include "emulator/gl/stream.h"

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
  closed->state = Batch::State::kSubmitted;
  last_ = closed;
  return closed;
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
