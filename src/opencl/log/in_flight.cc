// SPDX-License-Identifier: Apache-2.0
// What is in flight on a connection that an object log follows, and the messages that find out when it has ended.
#include <utility>

#include "opencl/log/object_log.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;
using logged::Slot;

}  // namespace

std::optional<ObjectLog::Message> ObjectLog::Ahead(ByteView message) {
  wire::Header header;
  wire::Release release;
  if (!wire::ReadHeader(message, header) || header.op != wire::Release::kOp || header.size > message.size() ||
      !wire::Decode(message.first(header.size), release))
    return std::nullopt;
  const ObjectRef queue = Find(Kind::kQueue, release.id);
  if (!queue || queue->issued == queue->ended || queue->finish_asked == queue->issued) return std::nullopt;
  return AskForEnd(release.id);
}

std::optional<ObjectLog::Message> ObjectLog::AskForEnd(std::uint32_t queue) {
  if (requests_.size() >= questions_end_ - kQuestions) return std::nullopt;
  std::uint32_t number = 0;
  do {
    number = next_question_++;
    if (next_question_ == questions_end_) next_question_ = kQuestions;
  } while (requests_.contains(number));
  wire::Finish finish{.request = number, .queue = queue};
  Do(finish);
  requests_[number].own = true;
  return wire::Encode(finish);
}

bool ObjectLog::IsOwn(ByteView message) const {
  wire::Header header;
  if (!wire::ReadHeader(message, header) || header.size > message.size()) return false;
  wire::Reply reply;
  wire::EventDone done;
  if (header.op == wire::Reply::kOp && wire::Decode(message.first(header.size), reply)) {
    const auto found = requests_.find(reply.request);
    return found != requests_.end() && found->second.own;
  }
  return header.op == wire::EventDone::kOp && wire::Decode(message.first(header.size), done) &&
         own_watches_.contains(done.event);
}

std::vector<ObjectLog::Message> ObjectLog::Questions() {
  std::vector<Message> questions;
  std::vector<std::uint32_t> busy;
  slots_.ForEach([&](std::uint32_t id, Slot& slot) {
    const Object* object = slot.object.get();
    if (object != nullptr && object->kind == Kind::kQueue && object->finish_asked < object->FinishWanted())
      busy.push_back(id);
    const logged::Event& event = slot.event;
    if (event.there && !event.user && !event.told && !event.watched && own_watches_.insert(id).second)
      questions.push_back(wire::Encode(wire::Watch{.event = id}));
  });
  for (const std::uint32_t queue : busy)
    if (auto question = AskForEnd(queue)) questions.push_back(std::move(*question));
  return questions;
}

std::vector<ObjectLog::Message> ObjectLog::ErrorsOwed() {
  std::vector<Message> failing;
  slots_.ForEach([&](std::uint32_t id, Slot& slot) {
    if (!slot.object || slot.object->kind != Kind::kQueue || slot.object->owed == CL_SUCCESS) return;
    failing.push_back(logged::FailingCommand(id));
    slot.object->owed = CL_SUCCESS;
  });
  return failing;
}

ObjectLog::InFlight ObjectLog::in_flight() const {
  InFlight now{.lost_queues = lost_queues_, .requests = requests_.size()};
  for (const auto& [ticket, kept] : tickets_) now.tickets += kept.expired() ? 1 : 0;
  slots_.ForEach([&](std::uint32_t, const Slot& slot) {
    if (slot.object && slot.object->kind == Kind::kQueue) {
      now.commands += slot.object->issued - slot.object->ended;
      now.errors_untold += slot.object->finish_asked < slot.object->nameless ? 1 : 0;
    }
    const logged::Event& event = slot.event;
    if (!event.there) return;
    if (event.user && !event.set && event.of)
      ++now.user_events;
    else if (event.watched || (!event.user && !event.told))
      ++now.ends_untold;
  });
  return now;
}

}  // namespace weir::opencl
