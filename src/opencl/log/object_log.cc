// SPDX-License-Identifier: Apache-2.0
// What an object log learns from its client: objects, builds and commands.
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

/// Limit of a chain of linked programs, because destroying a chain takes stack. An object beyond it counts as failed.
constexpr std::uint32_t kDepthMax = 1000;

}  // namespace

ObjectLog::ObjectLog(Arena arena, std::uint32_t questions_end)
    : arena_(std::move(arena)), questions_end_(questions_end) {
  requests_[0].facts = true;
}

// -- Messages --------------------------------------------------------------------------------------------------------

bool ObjectLog::FromClient(ByteView message) {
  wire::Header header;
  if (!wire::ReadHeader(message, header) || header.size > message.size()) return false;
  ++sequence_;
  return wire::DecodeFromClient(message.first(header.size), [this](auto& m) { Do(m); });
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
  // On a device that shares the arena the client writes to a buffer directly, without a message.
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
  m.content = {};  // not recorded: a migration moves the contents as they are then
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
  kernel->no_such_arg = kernel->no_such_arg || m.index >= kArgsMax;
  if (m.index >= kArgsMax) return;
  if (m.index >= kernel->args.size()) kernel->args.resize(std::size_t{m.index} + 1);
  logged::Argument& arg = kernel->args[m.index];
  arg.bad = arg_kind > wire::ArgKind::kNull || (arg_kind == wire::ArgKind::kObject && (!object || object->failed));
  if (arg.bad) return;
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
    if (const std::uint32_t written = m.Written(); written != wire::kWritesNothing) Written(written);
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

// -- Tickets ---------------------------------------------------------------------------------------------------------

void ObjectLog::Expect(std::uint64_t ticket) {
  if (ticket != 0) tickets_.emplace(ticket, std::weak_ptr<Object>());
}

}  // namespace weir::opencl
