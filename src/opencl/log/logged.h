// SPDX-License-Identifier: Apache-2.0
// What an object log keeps of one object: the message that created it, and the objects that this message named.
//
// Objects refer only to older ones, so that there are no reference cycles. Builds of a program therefore do not belong
// to the program. They belong to their users: the program's id, and the kernels and programs created from it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "opencl/channel/cl.h"
#include "proto/opencl_messages.h"

namespace weir::opencl::logged {

namespace wire = proto::cl;

enum class Kind : std::uint8_t { kDevice, kContext, kQueue, kMemory, kSampler, kProgram, kKernel };

struct Object;
using ObjectRef = std::shared_ptr<Object>;
using Bytes = std::vector<std::byte>;

/// A message without its contents, which are kept separately in the order of its blobs.
struct Record {
  std::uint16_t op = 0;
  Bytes message;
  std::vector<ObjectRef> needs;  // named objects, in the order of EachReference; null: the object did not exist
  std::vector<Bytes> contents;
};

/// One build or compile of a program.
struct BuildStep {
  /// kFailed: the program is left without its earlier build. kRefused: the program is unchanged.
  enum class State : std::uint8_t { kPending, kBuilt, kFailed, kRefused };
  std::uint64_t at = 0;     // number of its message
  Record asked;             // names the program first, then `devices` devices
  std::size_t devices = 0;  // 0: all devices of the program
  State state = State::kPending;
  std::int32_t status = 0;  // status of the executor's answer
  std::uint32_t depth = 0;

  [[nodiscard]] const Object* program() const { return asked.needs.front().get(); }
  [[nodiscard]] bool CoversAll() const { return devices == 0; }
  [[nodiscard]] bool Covers(const Object* device) const;
};
using BuildRef = std::shared_ptr<BuildStep>;

/// The sub-devices that one message created.
struct Partition {
  std::uint64_t at = 0;
  Record asked;
  std::uint32_t first = 0, count = 0;  // ids: `count` of them from `first`
};

struct Argument {
  bool set = false;
  bool bad = false;              // could not be set last time; a launch fails
  std::uint8_t kind = 0;         // an ArgKind of the protocol
  std::weak_ptr<Object> object;  // weak, as in the executor: arguments do not keep objects
  std::uint64_t size = 0;
  Bytes data;
};

/// What is known about the contents of a buffer or an image. kNone: it was never written to. kGiven: it has the
/// contents that the client created it with. kWritten: a command may have written to it. kKnown: the caller of
/// ContentsKnown has a copy.
enum class Contents : std::uint8_t { kNone, kGiven, kWritten, kKnown };

struct Object {
  Object(Kind what, std::uint32_t name, std::uint64_t number) : kind(what), id(name), at(number) {}

  const Kind kind;
  const std::uint32_t id;
  const std::uint64_t at;   // number of the message that created it
  bool failed = false;      // an object or content that its message names did not exist
  std::uint32_t depth = 0;  // length of the longest chain of needed objects
  std::int32_t status = 0;  // of a linked program: the status of the link
  Record made;

  // Of linked programs and kernels: the builds of the programs that they were created from.
  std::vector<BuildRef> built;
  // Of a device. Null: a root device.
  std::shared_ptr<Partition> partition;
  bool shares_arena = false;  // of a device; of a context and its buffers: true if true for all its devices
  // Of a queue: the number of commands issued and ended, and the command up to which a Finish was requested.
  bool in_order = true;
  std::uint64_t issued = 0, ended = 0, finish_asked = 0;
  std::uint64_t nameless = 0;  // the last command without an event; only a Finish reports its error
  std::int32_t owed = 0;       // an error that answered a Finish of the log and has not been reported to the client
  // Of memory. Contents of a part are those of its root.
  bool image = false, part = false, kernels_only_read = false;
  std::uint64_t flags = 0, size = 0;
  Contents contents = Contents::kNone;
  std::uint64_t ticket = 0;  // of its release
  // Of a kernel.
  std::vector<Argument> args;
  bool no_such_arg = false;  // an argument beyond kArgsMax was set; every launch fails
  std::uint64_t marked = 0;  // value of the log's known_ when its writable arguments were marked kWritten; 0: never

  /// Of a queue: the command up to which a Finish must be requested to know the state of all commands.
  [[nodiscard]] std::uint64_t FinishWanted() const { return issued > ended ? issued : nameless; }
  [[nodiscard]] Object& root() { return part && made.needs.back() ? made.needs.back()->root() : *this; }
  [[nodiscard]] const Object& root() const { return const_cast<Object*>(this)->root(); }
};

inline bool BuildStep::Covers(const Object* device) const {
  if (CoversAll()) return true;
  for (std::size_t i = 1; i <= devices; ++i)
    if (asked.needs[i].get() == device) return true;
  return false;
}

/// An event under its id. It is not an Object, because only waiting commands need it.
struct Event {
  bool there = false;
  bool user = false;
  bool set = false;      // a user event that the client has set
  bool told = false;     // its end is known
  bool watched = false;  // the client has asked to be notified
  std::int32_t status = 0;
  std::uint64_t place = 0;  // position of its command in the queue
  std::uint64_t at = 0;
  ObjectRef of{};  // its queue; its context once it has ended or if it is a user event; null: there was none
  [[nodiscard]] const ObjectRef& context() const;
};
inline const ObjectRef& Event::context() const { return of && of->kind == Kind::kQueue ? of->made.needs.front() : of; }

/// What an id stands for: an object or an event.
struct Slot {
  ObjectRef object{};
  Event event{};
  [[nodiscard]] bool there() const { return object != nullptr || event.there; }
};

/// An id that never names an object.
inline constexpr std::uint32_t kNoId = UINT32_MAX;

/// A command that leaves an error with the queue. The error code cannot be chosen.
inline Bytes FailingCommand(std::uint32_t queue) {
  return wire::Encode(wire::CopyBuffer{.enqueue = {.queue = queue}, .from = kNoId, .to = kNoId});
}

// -- Fields that refer to objects. Each overload calls each(kind, id) or each(kind, list), always in the same order.

template <typename Each>
void EachReference(wire::CreateContext& m, Each& each) {
  each(Kind::kDevice, m.devices);
}
template <typename Each>
void EachReference(wire::CreateQueue& m, Each& each) {
  each(Kind::kContext, m.context);
  each(Kind::kDevice, m.device);
}
template <typename M, typename Each>
requires(std::same_as<M, wire::CreateBuffer> || std::same_as<M, wire::CreateSampler> ||
         std::same_as<M, wire::CreateProgram>) void EachReference(M& m, Each& each) {
  each(Kind::kContext, m.context);
}
template <typename Each>
void EachReference(wire::CreateSubBuffer& m, Each& each) {
  each(Kind::kMemory, m.parent);
}
template <typename Each>
void EachReference(wire::CreateImage& m, Each& each) {
  each(Kind::kContext, m.context);
  if (m.buffer != 0) each(Kind::kMemory, m.buffer);
}
template <typename Each>
void EachReference(wire::CreateProgramFromBinary& m, Each& each) {
  each(Kind::kContext, m.context);
  each(Kind::kDevice, m.devices);
}
template <typename Each>
void EachReference(wire::CreateKernel& m, Each& each) {
  each(Kind::kProgram, m.program);
}
template <typename Each>
void EachReference(wire::Build& m, Each& each) {
  each(Kind::kProgram, m.program);
  each(Kind::kDevice, m.devices);
}
template <typename Each>
void EachReference(wire::Compile& m, Each& each) {
  each(Kind::kProgram, m.program);
  each(Kind::kDevice, m.devices);
  each(Kind::kProgram, m.header_programs);
}
template <typename Each>
void EachReference(wire::Link& m, Each& each) {
  each(Kind::kContext, m.context);
  each(Kind::kDevice, m.devices);
  each(Kind::kProgram, m.programs);
}
template <typename Each>
void EachReference(wire::CreateSubDevices& m, Each& each) {
  each(Kind::kDevice, m.device);
}

// -- Fields with contents to be kept, and their tickets.

template <typename Each>
void EachContent(wire::CreateProgram& m, Each each) {
  each(m.source, m.ticket);
}
template <typename Each>
void EachContent(wire::CreateProgramFromBinary& m, Each each) {
  each(m.binary, m.ticket);
}
template <typename M, typename Each>
requires(std::same_as<M, wire::Build> || std::same_as<M, wire::Compile>) void EachContent(M& m, Each each) {
  for (wire::IncludedFile& header : m.headers) each(header.content, header.ticket);
}
template <typename M, typename Each>
void EachContent(M&, Each) {}

}  // namespace weir::opencl::logged
