// SPDX-License-Identifier: Apache-2.0
#include "opencl/log/object_log.h"

#include <algorithm>
#include <utility>

#include "opencl/channel/limits.h"
#include "proto/opencl_message_list.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;
using logged::BuildRef;
using logged::BuildStep;
using logged::Slot;

/// Limit of a chain of links of linked programs, because destroying a chain takes stack. An object beyond it counts as
/// failed.
constexpr std::uint32_t kDepthMax = 1000;
constexpr std::size_t kBodyBytesMax = 16 << 20;

template <typename M>
bool ReadBody(wire::ByteView body, M& m) {
  wire::FieldReader reader(body);
  M::Fields(m, reader);
  return !reader.malformed();
}

/// The object that a command writes to, apart from a kernel's arguments; 0: none.
std::uint32_t WrittenBy(const wire::WriteBuffer& m) { return m.buffer; }
std::uint32_t WrittenBy(const wire::CopyBuffer& m) { return m.to; }
std::uint32_t WrittenBy(const wire::FillBuffer& m) { return m.buffer; }
std::uint32_t WrittenBy(const wire::WriteBufferRect& m) { return m.buffer; }
std::uint32_t WrittenBy(const wire::CopyBufferRect& m) { return m.to; }
std::uint32_t WrittenBy(const wire::WriteImage& m) { return m.image; }
std::uint32_t WrittenBy(const wire::CopyImage& m) { return m.to; }
std::uint32_t WrittenBy(const wire::FillImage& m) { return m.image; }
std::uint32_t WrittenBy(const wire::CopyImageToBuffer& m) { return m.buffer; }
std::uint32_t WrittenBy(const wire::CopyBufferToImage& m) { return m.image; }
template <typename M>
std::uint32_t WrittenBy(const M&) {
  return 0;
}

/// Drops the builds of a program that later ones have superseded. At most one more than the program has devices remain.
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

ObjectLog::ObjectLog(Arena arena) : arena_(std::move(arena)) { requests_[0].facts = true; }

// -- Messages
// ----------------------------------------------------------------------------------------------------------

bool ObjectLog::FromClient(ByteView message) {
  wire::Header header;
  if (!wire::ReadHeader(message, header) || header.size > message.size()) return false;
  ++sequence_;
  return wire::DecodeFromClient(message.first(header.size), [this](auto& m) { Do(m); });
}

bool ObjectLog::FromExecutor(ByteView message) {
  wire::Header header;
  if (!wire::ReadHeader(message, header) || header.size > message.size()) return false;
  message = message.first(header.size);
  wire::Reply reply;
  wire::EventDone done;
  wire::Freed freed;
  switch (static_cast<wire::Op>(header.op)) {
    case wire::Op::kReply: return wire::Decode(message, reply) && Answered(reply);
    case wire::Op::kEventDone:
      if (!wire::Decode(message, done)) return false;
      Ended(done);
      return true;
    case wire::Op::kFreed:
      if (!wire::Decode(message, freed)) return false;
      Freed(freed.ticket);
      return true;
    case wire::Op::kNotice:
    case wire::Op::kArrived: return true;
    default: return (header.flags & wire::kMayIgnore) != 0;
  }
}

// -- Ids -------------------------------------------------------------------------------------------------------------

ObjectLog::ObjectRef ObjectLog::Find(Kind kind, std::uint32_t id) const {
  const Slot* slot = slots_.Find(id);
  return slot != nullptr && slot->object && slot->object->kind == kind ? slot->object : nullptr;
}

ObjectLog::Object* ObjectLog::Look(Kind kind, std::uint32_t id) const {
  const Slot* slot = slots_.Find(id);
  return slot != nullptr && slot->object && slot->object->kind == kind ? slot->object.get() : nullptr;
}

void ObjectLog::Stand(std::uint32_t id, Slot slot) {
  if (id == 0 || id > kIdMax) return;
  if (Slot* before = slots_.Find(id); before != nullptr) Forget(id, *before);
  slots_.Put(id, std::move(slot));
}

/// Drops what belongs to an id even if the object is still needed.
void ObjectLog::Forget(std::uint32_t id, Slot& slot) {
  if (!slot.object) return;
  if (slot.object->kind == Kind::kProgram) builds_.erase(id);
  const Object& object = *slot.object;
  if (object.kind == Kind::kQueue && object.issued > object.ended && object.finish_asked < object.issued)
    ++lost_queues_;
}

// -- Objects ---------------------------------------------------------------------------------------------------------

/// Records a message, the objects that it names, and its contents. False: part of it did not exist.
template <typename M>
bool ObjectLog::Fill(logged::Record& record, M& m, std::uint32_t& depth) {
  bool whole = true;
  const auto add = [&](Kind kind, std::uint32_t id) {
    ObjectRef& need = record.needs.emplace_back(Find(kind, id));
    whole = whole && need && !need->failed;
    if (need) depth = std::max(depth, need->depth + 1);
  };
  const auto each = [&]<typename F>(Kind kind, F& field) {
    if constexpr (std::is_same_v<F, wire::IdList>) {
      for (std::size_t i = 0; i < field.size(); ++i) add(kind, field[i]);
    } else {
      add(kind, field);
    }
  };
  logged::EachReference(m, each);
  logged::EachContent(m, [&](wire::Blob& blob, std::uint64_t& ticket) {
    ByteView bytes = blob.bytes;
    if (blob.kind == wire::Blob::kArena && blob.size > 0) bytes = arena_(blob.offset, blob.size);
    if (bytes.size() != blob.length()) {
      record.needs.front() = nullptr;
      whole = false;
    }
    record.contents.emplace_back(bytes.begin(), bytes.end());
    Expect(ticket);
    blob = {};
    ticket = 0;
  });
  if (depth > kDepthMax) {
    std::ranges::fill(record.needs, nullptr);
    whole = false;
    depth = 0;
  }
  record.op = M::kOp;
  record.message = wire::Encode(m);
  return whole;
}

template <typename M>
logged::ObjectRef ObjectLog::Make(Kind kind, M& m) {
  auto object = std::make_shared<Object>(kind, m.id, sequence_);
  object->failed = !Fill(object->made, m, object->depth);
  return object;
}

void ObjectLog::Do(wire::CreateContext& m) {
  const ObjectRef context = Make(Kind::kContext, m);
  context->shares_arena =
      std::ranges::all_of(context->made.needs, [](const ObjectRef& device) { return device && device->shares_arena; });
  Stand(m.id, {.object = context});
}

void ObjectLog::Do(wire::CreateQueue& m) {
  const ObjectRef queue = Make(Kind::kQueue, m);
  queue->in_order = (m.properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0;
  Stand(m.id, {.object = queue});
}

void ObjectLog::Do(wire::CreateBuffer& m) {
  const bool filled = std::exchange(m.filled, std::uint8_t{0}) != 0;
  const ObjectRef buffer = Make(Kind::kMemory, m);
  buffer->flags = m.flags;
  buffer->size = m.size;
  buffer->kernels_only_read = (m.flags & CL_MEM_READ_ONLY) != 0;
  if (filled) buffer->contents = logged::Contents::kGiven;
  // The client writes to such a buffer directly, without a message.
  const ObjectRef& context = buffer->made.needs.front();
  buffer->shares_arena = context && context->shares_arena;
  if (buffer->shares_arena) buffer->contents = logged::Contents::kWritten;
  Stand(m.id, {.object = buffer});
}

void ObjectLog::Do(wire::CreateSubBuffer& m) {
  const ObjectRef buffer = Make(Kind::kMemory, m);
  buffer->part = true;
  buffer->flags = m.flags;
  buffer->size = m.size;
  if (const ObjectRef& parent = buffer->made.needs.front()) {
    constexpr cl_mem_flags kKernelAccess = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
    buffer->shares_arena = parent->shares_arena;
    buffer->kernels_only_read =
        (m.flags & kKernelAccess) != 0 ? (m.flags & CL_MEM_READ_ONLY) != 0 : parent->kernels_only_read;
  }
  Stand(m.id, {.object = buffer});
}

void ObjectLog::Do(wire::CreateImage& m) {
  const bool given = m.content.length() > 0;
  Expect(m.ticket);
  m.content = {};  // the content moves with later writes
  m.ticket = 0;
  const ObjectRef image = Make(Kind::kMemory, m);
  image->image = true;
  image->part = m.buffer != 0;
  image->flags = m.flags;
  image->kernels_only_read = (m.flags & CL_MEM_READ_ONLY) != 0;
  if (given) image->contents = logged::Contents::kGiven;
  Stand(m.id, {.object = image});
}

void ObjectLog::Do(wire::CreateSampler& m) { Stand(m.id, {.object = Make(Kind::kSampler, m)}); }
void ObjectLog::Do(wire::CreateProgram& m) { Stand(m.id, {.object = Make(Kind::kProgram, m)}); }
void ObjectLog::Do(wire::CreateProgramFromBinary& m) { Stand(m.id, {.object = Make(Kind::kProgram, m)}); }

void ObjectLog::Do(wire::CreateKernel& m) {
  const ObjectRef kernel = Make(Kind::kKernel, m);
  if (const auto builds = builds_.find(m.program); builds != builds_.end()) kernel->built = builds->second;
  if (kernel->made.needs.front() && kernel->built.empty()) kernel->built = kernel->made.needs.front()->built;
  Stand(m.id, {.object = kernel});
}

void ObjectLog::Do(wire::SetArg& m) {
  Object* kernel = Look(Kind::kKernel, m.kernel);
  if (kernel == nullptr || kernel->failed) return;
  const auto arg_kind = static_cast<wire::ArgKind>(m.kind);
  ObjectRef object;
  if (arg_kind == wire::ArgKind::kObject) {
    object = Find(Kind::kMemory, m.object);
    if (!object) object = Find(Kind::kSampler, m.object);
  }
  kernel->bad_arg = m.index >= kArgsMax || arg_kind > wire::ArgKind::kNull ||
                    (arg_kind == wire::ArgKind::kObject && (!object || object->failed));
  if (kernel->bad_arg) return;
  if (m.index >= kernel->args.size()) kernel->args.resize(std::size_t{m.index} + 1);
  logged::Argument& arg = kernel->args[m.index];
  arg.set = true;
  arg.kind = m.kind;
  arg.size = m.size;
  arg.data.assign(m.data.begin(), m.data.end());
  arg.object = object;
  if (object && object->kind == Kind::kMemory) kernel->marked = 0;
}

void ObjectLog::Do(wire::CreateUserEvent& m) {
  ObjectRef context = Find(Kind::kContext, m.context);
  Stand(m.id, {.event = {.there = true, .user = true, .at = sequence_, .of = std::move(context)}});
}

void ObjectLog::Do(wire::SetUserEvent& m) {
  Slot* slot = slots_.Find(m.id);
  if (slot == nullptr || !slot->event.there || !slot->event.user || slot->event.set || !slot->event.of) return;
  slot->event.set = true;
  slot->event.status = m.status < 0 ? m.status : CL_COMPLETE;
}

void ObjectLog::Do(wire::Release& m) {
  Slot* slot = slots_.Find(m.id);
  if (slot == nullptr) return Expect(m.ticket);
  Forget(m.id, *slot);
  const ObjectRef object = std::move(slot->object);
  slots_.Clear(m.id, *slot);
  if (m.ticket == 0) return;
  if (!object || object->kind != Kind::kMemory) return Expect(m.ticket);
  object->ticket = m.ticket;
  tickets_.emplace(m.ticket, object);
}

// -- Programs --------------------------------------------------------------------------------------------------------

template <typename M>
void ObjectLog::MakeBuild(M& m) {
  auto build = std::make_shared<BuildStep>();
  build->at = sequence_;
  build->devices = m.devices.size();
  const std::uint32_t program = m.program, number = m.request;
  Request request{.program = program};
  if (Fill(build->asked, m, build->depth)) {
    builds_[program].push_back(build);
    request.build = std::move(build);
  }
  requests_[number] = std::move(request);
}

void ObjectLog::Do(wire::Build& m) { MakeBuild(m); }
void ObjectLog::Do(wire::Compile& m) { MakeBuild(m); }

void ObjectLog::Do(wire::Link& m) {
  std::vector<BuildRef> built;
  for (std::size_t i = 0; i < m.programs.size(); ++i) {
    if (const auto builds = builds_.find(m.programs[i]); builds != builds_.end())
      built.insert(built.end(), builds->second.begin(), builds->second.end());
  }
  const ObjectRef program = Make(Kind::kProgram, m);
  for (const BuildRef& step : built) program->depth = std::max(program->depth, step->depth + 1);
  if (program->depth <= kDepthMax) program->built = std::move(built);
  requests_[m.request] = {.linked = program};
  Stand(m.id, {.object = program});
}

void ObjectLog::Do(wire::CreateSubDevices& m) {
  auto partition = std::make_shared<logged::Partition>();
  partition->at = sequence_;
  partition->first = m.first;
  std::uint32_t depth = 0;
  const std::uint32_t number = m.request;
  Fill(partition->asked, m, depth);
  requests_[number] = {.partition = std::move(partition)};
}

// -- Commands --------------------------------------------------------------------------------------------------------

void ObjectLog::Command(const wire::Enqueue& enqueue) {
  Slot* slot = slots_.Find(enqueue.queue);
  if (slot != nullptr && (!slot->object || slot->object->kind != Kind::kQueue || slot->object->failed)) slot = nullptr;
  if (slot != nullptr) ++slot->object->issued;
  if (enqueue.event == 0) {
    if (slot != nullptr) slot->object->nameless = slot->object->issued;
    return;
  }
  logged::Event event{.there = true, .at = sequence_};
  if (slot != nullptr) {
    event.of = slot->object;
    event.place = event.of->issued;
  } else {
    event.told = true;
    event.status = CL_INVALID_COMMAND_QUEUE;
  }
  Stand(enqueue.event, {.event = std::move(event)});
}

void ObjectLog::Written(std::uint32_t id) {
  if (Object* memory = Look(Kind::kMemory, id)) memory->root().contents = logged::Contents::kWritten;
}

void ObjectLog::Do(wire::NdRange& m) {
  if (Object* kernel = Look(Kind::kKernel, m.kernel); kernel != nullptr && kernel->marked != known_) {
    for (const logged::Argument& arg : kernel->args) {
      const ObjectRef object = arg.object.lock();
      if (object && object->kind == Kind::kMemory && !object->kernels_only_read)
        object->root().contents = logged::Contents::kWritten;
    }
    kernel->marked = known_;
  }
  Command(m.enqueue);
}

template <typename M>
void ObjectLog::Do(M& m) {
  if constexpr (requires { m.enqueue; }) {
    if (const std::uint32_t written = WrittenBy(m); written != 0) Written(written);
    if constexpr (requires { m.ticket; }) Expect(m.ticket);
    Command(m.enqueue);
  } else if constexpr (requires { m.request; }) {
    requests_[m.request] = {};
  }
}

void ObjectLog::Do(wire::Finish& m) {
  Request request;
  if (ObjectRef queue = Find(Kind::kQueue, m.queue)) {
    request.place = queue->finish_asked = queue->issued;
    request.queue = std::move(queue);
  }
  requests_[m.request] = std::move(request);
}

void ObjectLog::Do(wire::Watch& m) {
  if (Slot* slot = slots_.Find(m.event); slot != nullptr && slot->event.there) slot->event.watched = true;
}

// -- Messages of the executor
// ------------------------------------------------------------------------------------------

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
  if (event.of->in_order) event.of->ended = std::max(event.of->ended, event.place);
  // Running commands keep a released queue alive.
  ObjectRef context = event.context();
  event.of = std::move(context);
}

// -- Tickets ---------------------------------------------------------------------------------------------------------

void ObjectLog::Expect(std::uint64_t ticket) {
  if (ticket != 0) tickets_.emplace(ticket, std::weak_ptr<Object>());
}

void ObjectLog::Freed(std::uint64_t ticket) {
  if (const auto found = tickets_.find(ticket); found != tickets_.end()) tickets_.erase(found);
}

// -- In flight -------------------------------------------------------------------------------------------------------

std::optional<ObjectLog::Message> ObjectLog::Ahead(ByteView message) {
  wire::Header header;
  wire::Release release;
  if (!wire::ReadHeader(message, header) || header.op != static_cast<std::uint16_t>(wire::Op::kRelease) ||
      header.size > message.size() || !wire::Decode(message.first(header.size), release))
    return std::nullopt;
  const ObjectRef queue = Find(Kind::kQueue, release.id);
  if (!queue || queue->issued == queue->ended || queue->finish_asked == queue->issued) return std::nullopt;
  wire::Finish finish{.request = next_question_++, .queue = release.id};
  Do(finish);
  requests_[finish.request].own = true;
  return wire::Encode(finish);
}

bool ObjectLog::IsOwn(ByteView message) const {
  wire::Header header;
  if (!wire::ReadHeader(message, header) || header.size > message.size()) return false;
  wire::Reply reply;
  wire::EventDone done;
  if (header.op == static_cast<std::uint16_t>(wire::Op::kReply) && wire::Decode(message.first(header.size), reply)) {
    const auto found = requests_.find(reply.request);
    return found != requests_.end() && found->second.own;
  }
  return header.op == static_cast<std::uint16_t>(wire::Op::kEventDone) &&
         wire::Decode(message.first(header.size), done) && own_watches_.contains(done.event);
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
  for (const std::uint32_t queue : busy) {
    wire::Finish finish{.request = next_question_++, .queue = queue};
    Do(finish);
    requests_[finish.request].own = true;
    questions.push_back(wire::Encode(finish));
  }
  if (next_question_ >= kReplayRequests - kIdMax / 4) next_question_ = kQuestions;
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
