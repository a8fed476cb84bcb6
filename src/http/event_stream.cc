// SPDX-License-Identifier: Apache-2.0
#include "http/event_stream.h"

#include <algorithm>
#include <utility>

namespace weir::http {

EventStream::Text EventStream::Format(std::string_view name, std::string_view data) {
  std::string text = "event: ";
  text.reserve(name.size() + data.size() + 32);
  text.append(name) += '\n';
  for (;;) {
    const std::size_t end = std::min(data.find_first_of("\r\n"), data.size());
    text.append("data: ").append(data.substr(0, end)) += '\n';
    if (end == data.size()) break;
    data.remove_prefix(end + 1);
  }
  text += '\n';
  return std::make_shared<const std::string>(std::move(text));
}

bool EventStream::Send(Text text) {
  if (ended_) return false;
  if (waiting_ >= kWaitingMax) {
    ended_ = true;
    texts_.clear();
  } else {
    waiting_ += text->size();
    texts_.push_back(std::move(text));
  }
  if (wake_) wake_();
  return !ended_;
}

EventStream::Text EventStream::Next() {
  if (texts_.empty()) return nullptr;
  Text next = std::move(texts_.front());
  texts_.pop_front();
  being_sent_ = next->size();
  return next;
}

void EventStream::Sent() { waiting_ -= std::min(waiting_, std::exchange(being_sent_, 0)); }

void EventStream::End() {
  ended_ = true;
  texts_.clear();
  waiting_ = 0;
  wake_ = nullptr;
  if (const auto gone = std::exchange(gone_, nullptr)) gone();
}

}  // namespace weir::http
