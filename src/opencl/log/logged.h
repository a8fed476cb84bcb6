// SPDX-License-Identifier: Apache-2.0
// What an object log keeps of one object: the message that made it, and the objects that message named.
//
// An object points to older ones only, so that there are no circles: what a program has been built into is not the
// program's but belongs to who has use for it, the id that the program has and the kernels and programs made of it.
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

/// A message without its contents; those are kept beside it, in the order of its blobs.
struct Record {
  wire::Op op{};
  Bytes message;
  std::vector<ObjectRef> needs;  // what it names, in the order of EachReference; null: there was no such object
  std::vector<Bytes> contents;
};

/// One build or compile of a program.
struct BuildStep {
  enum class State : std::uint8_t { kAsked, kBuilt, kFailed, kRefused };
  std::uint64_t at = 0;     // the number of its message
  Record asked;             // it names the program first, then `devices` devices
  std::size_t devices = 0;  // 0: all that the program is for
  State state = State::kAsked;
  std::int32_t status = 0;  // what it was answered with
  std::uint32_t depth = 0;

  [[nodiscard]] const Object* program() const { return asked.needs.front().get(); }
  [[nodiscard]] bool CoversAll() const { return devices == 0; }
  [[nodiscard]] bool Covers(const Object* device) const;
};
using BuildRef = std::shared_ptr<BuildStep>;

/// The parts that one message made of a device.
struct Partition {
  std::uint64_t at = 0;
  Record asked;
  std::uint32_t first = 0, count = 0;
};

struct Argument {
  bool set = false;
  std::uint8_t kind = 0;
  std::weak_ptr<Object> object;  // as in the executor: arguments keep nothing
  std::uint64_t size = 0;
  Bytes data;
};

/// What is known of the contents of a buffer or an image.
enum class Contents : std::uint8_t { kNone, kGiven, kWritten, kKnown };

struct Object {
  Object(Kind what, std::uint32_t name, std::uint64_t number) : kind(what), id(name), at(number) {}

  const Kind kind;
  const std::uint32_t id;
  const std::uint64_t at;   // the number of the message that made it
  bool failed = false;      // what it needs was not there
  std::uint32_t depth = 0;  // of what it needs, and that needs …
  std::int32_t status = 0;  // of a program that was linked: what that was answered with
  Record made;

  // Of programs that were linked, and of kernels: what the programs they are of had been built into.
  std::vector<BuildRef> built;
  // Of a device. None: it was there from the start.
  std::shared_ptr<Partition> partition;
  bool shares_arena = false;  // of a device; of a context: all of its devices do
  // Of a queue: how many commands it was given, how many have ended, up to which a Finish was asked for.
  bool in_order = true;
  std::uint64_t issued = 0, ended = 0, finish_asked = 0;
  std::uint64_t nameless = 0;  // the last one without an event, whose error only a Finish tells
  std::int32_t owed = 0;       // an error that a question's Finish was told, and the client was not
  // Of memory. Where it is part of another one only that one's contents count.
  bool image = false, part = false, kernels_only_read = false;
  std::uint64_t flags = 0, size = 0;
  Contents contents = Contents::kNone;
  std::uint64_t ticket = 0;  // of its release
  // Of a kernel.
  std::vector<Argument> args;
  bool bad_arg = false;      // the last one could not be set
  std::uint64_t marked = 0;  // what its arguments may write to is marked as written since then; 0: it isn't

  /// Of a queue: how far a Finish has to have been asked for, for all to be known.
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

/// An event under its id. Nothing needs one but the commands that wait for it, so that it is no Object.
struct Event {
  bool there = false;
  bool user = false;
  bool set = false;      // a user event: by the client
  bool told = false;     // its end is known
  bool watched = false;  // the client waits to be told
  std::int32_t status = 0;
  std::uint64_t place = 0;  // of its command in the queue
  std::uint64_t at = 0;
  ObjectRef of{};  // its queue; its context, if that has ended or it is a user event. Null: there was none
  [[nodiscard]] const ObjectRef& context() const;
};
inline const ObjectRef& Event::context() const { return of && of->kind == Kind::kQueue ? of->made.needs.front() : of; }

struct Slot {
  ObjectRef object{};
  Event event{};
  [[nodiscard]] bool there() const { return object != nullptr || event.there; }
};

/// Names nothing, whatever a client does.
inline constexpr std::uint32_t kNoId = UINT32_MAX;

/// A command that leaves its error with the queue. Which error cannot be chosen.
inline Bytes FailingCommand(std::uint32_t queue) {
  return wire::Encode(wire::CopyBuffer{.enqueue = {.queue = queue}, .from = kNoId, .to = kNoId});
}

// -- Which fields of a message name objects. Each calls each(kind, id) or each(kind, list), always in the same order.

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

// -- Which fields are contents to be kept, with their tickets.

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
