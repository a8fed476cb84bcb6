// SPDX-License-Identifier: Apache-2.0
// What an object log learns from the executor: answers, ends of commands, and freed ranges of the arena.
#include <algorithm>
#include <utility>

#include "opencl/channel/limits.h"
#include "opencl/log/object_log.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;
using logged::BuildRef;
using logged::BuildStep;
using logged::Slot;

constexpr std::size_t kBodyBytesMax = 16 << 20;

template <typename M>
bool ReadBody(wire::ByteView body, M& m) {
  wire::FieldReader reader(body);
  M::Fields(m, reader);
  return !reader.malformed();
}

/// Drops the builds of a program that later ones have superseded. Besides pending ones, at most one more than the
/// program has devices remain.
void DropUndone(std::vector<BuildRef>& builds) {
  const auto known = [](const BuildStep& step) {
    return step.state == BuildStep::State::kBuilt || step.state == BuildStep::State::kFailed;
  };
  for (std::size_t i = builds.size(); i-- > 0;) {
    const auto undoes = [&](const logged::Object* device) {
      return std::any_of(builds.begin() + static_cast<std::ptrdiff_t>(i) + 1, builds.end(), [&](const BuildRef& later) {
        return known(*later) && (device != nullptr ? later->Covers(device) : later->CoversAll());
      });
    };
    const BuildStep& step = *builds[i];
    bool undone = known(step);
    if (step.CoversAll()) undone = undone && undoes(nullptr);
    for (std::size_t d = 1; d <= step.devices; ++d) undone = undone && undoes(step.asked.needs[d].get());
    if (undone || step.state == BuildStep::State::kRefused)
      builds.erase(builds.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace

bool ObjectLog::FromExecutor(ByteView message) {
  wire::Header header;
  if (!wire::ReadHeader(message, header) || header.size > message.size()) return false;
  message = message.first(header.size);
  wire::Reply reply;
  wire::EventDone done;
  wire::Freed freed;
  switch (header.op) {
    case wire::Reply::kOp: return wire::Decode(message, reply) && Answered(reply);
    case wire::EventDone::kOp:
      if (!wire::Decode(message, done)) return false;
      Ended(done);
      return true;
    case wire::Freed::kOp:
      if (!wire::Decode(message, freed)) return false;
      Freed(freed.ticket);
      return true;
    case wire::Notice::kOp:
    case wire::Arrived::kOp: return true;
    default: return (header.flags & wire::kMayIgnore) != 0;
  }
}

bool ObjectLog::Answered(const wire::Reply& m) {
  const auto found = requests_.find(m.request);
  if (found == requests_.end()) return true;
  Request& request = found->second;
  const bool has_body = request.facts || request.partition;
  if (has_body) {
    if (request.body.size() + m.part.size() > kBodyBytesMax) return false;
    request.body.insert(request.body.end(), m.part.begin(), m.part.end());
  }
  if (m.more != 0) return true;
  const Request answered = std::move(request);
  requests_.erase(found);
  Settle(answered, m.status);
  if (!has_body || m.status != CL_SUCCESS) return true;
  return answered.facts ? TakePlatform(answered.body) : TakeParts(answered.body, answered.partition);
}

void ObjectLog::Settle(const Request& request, std::int32_t status) {
  if (request.queue) {
    request.queue->ended = std::max(request.queue->ended, request.place);
    if (!request.own) request.queue->owed = CL_SUCCESS;
    if (request.own && request.queue->owed == CL_SUCCESS) request.queue->owed = status;
  }
  if (const ObjectRef linked = request.linked.lock()) linked->status = status;
  if (!request.build) return;
  using State = BuildStep::State;
  request.build->status = status;
  if (status == CL_SUCCESS)
    request.build->state = State::kBuilt;
  else if (status == CL_BUILD_PROGRAM_FAILURE || status == CL_COMPILE_PROGRAM_FAILURE)
    request.build->state = State::kFailed;
  else
    request.build->state = State::kRefused;  // the program stays as it was
  const auto builds = builds_.find(request.program);
  if (builds != builds_.end() && builds->second.front()->program() == request.build->program()) {
    DropUndone(builds->second);
    if (builds->second.empty()) builds_.erase(builds);
  }
}

bool ObjectLog::TakePlatform(ByteView body) {
  wire::PlatformFacts facts;
  if (!ReadBody(body, facts) || facts.devices.size() > kDevicesMax) return false;
  for (const wire::DeviceFacts& fact : facts.devices) {
    auto device = std::make_shared<Object>(Kind::kDevice, fact.id, 0);
    device->shares_arena = fact.shares_arena != 0;
    devices_.push_back(device);
    if (slots_.Find(fact.id) == nullptr) Stand(fact.id, {.object = std::move(device)});
  }
  return true;
}

bool ObjectLog::TakeParts(ByteView body, const std::shared_ptr<logged::Partition>& partition) {
  wire::SubDeviceFacts facts;
  if (!ReadBody(body, facts) || facts.devices.size() > kDevicesMax) return false;
  partition->count = static_cast<std::uint32_t>(facts.devices.size());
  const ObjectRef& whole = partition->asked.needs.front();
  for (std::uint32_t i = 0; i < partition->count; ++i) {
    const std::uint32_t id = partition->first + i;
    const Slot* there = slots_.Find(id);
    if (there != nullptr && std::max(there->event.at, there->object ? there->object->at : 0) > partition->at) continue;
    auto part = std::make_shared<Object>(Kind::kDevice, id, partition->at);
    part->shares_arena = facts.devices[i].shares_arena != 0;
    part->partition = partition;
    part->depth = whole ? whole->depth + 1 : 0;
    Stand(id, {.object = std::move(part)});
  }
  return true;
}

void ObjectLog::Ended(const wire::EventDone& m) {
  const bool own = own_watches_.erase(m.event) > 0;
  Slot* slot = slots_.Find(m.event);
  if (slot == nullptr || !slot->event.there || (!own && !slot->event.watched)) return;
  logged::Event& event = slot->event;
  if (!own) event.watched = false;
  if (event.user) return;
  if (!event.told) event.status = std::min(m.status, CL_COMPLETE);
  event.told = true;
  if (!event.of || event.of->kind != Kind::kQueue) return;
  // A failed command may have ended before earlier commands of its queue.
  if (event.of->in_order && event.status == CL_COMPLETE) event.of->ended = std::max(event.of->ended, event.place);
  // Only a running command needs its queue, which may have been released. After its end the event just refers to the
  // context.
  ObjectRef context = event.context();
  event.of = std::move(context);
}

void ObjectLog::Freed(std::uint64_t ticket) {
  if (const auto found = tickets_.find(ticket); found != tickets_.end()) tickets_.erase(found);
}

}  // namespace weir::opencl
