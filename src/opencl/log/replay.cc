// SPDX-License-Identifier: Apache-2.0
// Generates the messages that recreate the client's objects.
//
// Objects are created in their original order. An object that the client has released but another object still needs
// gets a free id, and is released at the end. Devices keep their ids: an object to which the client has given the id of
// a released device gets it in the replay after that device.
#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <variant>

#include "opencl/channel/limits.h"
#include "opencl/log/object_log.h"

namespace weir::opencl::logged {
namespace {

using Message = ObjectLog::Message;

/// Everything that the client's objects need, directly or indirectly.
struct Reached {
  std::vector<const Object*> objects;
  std::vector<const BuildStep*> builds;
  std::vector<const Partition*> partitions;

  void Add(const Object* object) {
    waiting_.push_back(object);
    while (!waiting_.empty()) {
      const Object* next = waiting_.back();
      waiting_.pop_back();
      if (next == nullptr || !seen_.insert(next).second) continue;
      objects.push_back(next);
      AddNeeds(next->made);
      for (const BuildRef& step : next->built) AddStep(*step);
      if (next->partition && seen_.insert(next->partition.get()).second) {
        partitions.push_back(next->partition.get());
        AddNeeds(next->partition->asked);
      }
    }
  }
  void AddBuild(const BuildStep& step) {
    AddStep(step);
    Add(nullptr);
  }
  [[nodiscard]] bool Has(const void* thing) const { return seen_.contains(thing); }

 private:
  void AddNeeds(const logged::Record& record) {
    for (const ObjectRef& need : record.needs) waiting_.push_back(need.get());
  }
  void AddStep(const BuildStep& step) {
    if (!seen_.insert(&step).second) return;
    builds.push_back(&step);
    AddNeeds(step.asked);
  }
  std::vector<const Object*> waiting_;
  std::unordered_set<const void*> seen_;
};

/// The ids of objects on the new executor.
using Names = std::unordered_map<const Object*, std::uint32_t>;

/// Encodes recorded messages with new ids.
class Rewriter {
 public:
  Rewriter(const Names& names, const ObjectLog::Place& place) : names_(names), place_(place) {}

  [[nodiscard]] std::uint32_t NameOf(const Object* object) const {
    const auto found = names_.find(object);
    return found != names_.end() ? found->second : logged::kNoId;
  }
  /// Nullopt: no room for the contents.
  std::optional<Message> Write(const logged::Record& record, std::uint32_t id, std::uint32_t request) const {
    switch (record.op) {
      case wire::CreateContext::kOp: return WriteAs<wire::CreateContext>(record, id, request);
      case wire::CreateQueue::kOp: return WriteAs<wire::CreateQueue>(record, id, request);
      case wire::CreateBuffer::kOp: return WriteAs<wire::CreateBuffer>(record, id, request);
      case wire::CreateSubBuffer::kOp: return WriteAs<wire::CreateSubBuffer>(record, id, request);
      case wire::CreateImage::kOp: return WriteAs<wire::CreateImage>(record, id, request);
      case wire::CreateSampler::kOp: return WriteAs<wire::CreateSampler>(record, id, request);
      case wire::CreateProgram::kOp: return WriteAs<wire::CreateProgram>(record, id, request);
      case wire::CreateProgramFromBinary::kOp: return WriteAs<wire::CreateProgramFromBinary>(record, id, request);
      case wire::CreateKernel::kOp: return WriteAs<wire::CreateKernel>(record, id, request);
      case wire::Build::kOp: return WriteAs<wire::Build>(record, id, request);
      case wire::Compile::kOp: return WriteAs<wire::Compile>(record, id, request);
      case wire::Link::kOp: return WriteAs<wire::Link>(record, id, request);
      case wire::CreateSubDevices::kOp: return WriteAs<wire::CreateSubDevices>(record, id, request);
      default: return std::nullopt;
    }
  }

 private:
  template <typename M>
  std::optional<Message> WriteAs(const logged::Record& record, std::uint32_t id, std::uint32_t request) const {
    M m;
    if (!wire::Decode(record.message, m)) return std::nullopt;
    if constexpr (requires { m.id; }) m.id = id;
    if constexpr (requires { m.request; }) m.request = request;
    std::size_t need = 0, content = 0, in_message = 0;
    std::deque<std::vector<std::uint32_t>> lists;
    const auto rename = [&]<typename F>(Kind, F& field) {
      if constexpr (std::is_same_v<F, wire::IdList>) {
        std::vector<std::uint32_t>& list = lists.emplace_back();
        for (std::size_t i = 0; i < field.size(); ++i) list.push_back(NameOf(record.needs[need++].get()));
        field = {list.data(), list.size()};
      } else {
        field = NameOf(record.needs[need++].get());
      }
    };
    logged::EachReference(m, rename);
    bool room = true;
    logged::EachContent(m, [&](wire::Blob& blob, std::uint64_t&) {
      const logged::Bytes& bytes = record.contents[content++];
      if (in_message + bytes.size() <= wire::kInlineBytesMax &&
          record.message.size() + in_message + bytes.size() <= wire::kMessageBytesMax / 2) {
        in_message += bytes.size();
        blob = wire::Blob::Inline(bytes);
        return;
      }
      const auto placed = room ? place_(bytes) : std::nullopt;
      room = placed.has_value();
      if (room) blob = *placed;
    });
    if (!room) return std::nullopt;
    Message message = wire::Encode(m);
    if (message.size() > wire::kMessageBytesMax) return std::nullopt;
    return message;
  }

  const Names& names_;
  const ObjectLog::Place& place_;
};

/// A replay under construction.
class Writing {
 public:
  Writing(const Names& names, const ObjectLog::Place& place, std::uint32_t first_request = ObjectLog::kReplayRequests)
      : rewriter_(names, place), next_request_(first_request) {}

  template <typename M>
  void Send(const M& message) {
    replay.messages.push_back(wire::Encode(message));
  }
  void Send(Message message) { replay.messages.push_back(std::move(message)); }

  bool Add(const Object* object) {
    const bool linked = object->made.op == wire::Link::kOp;
    if (linked && object->status == CL_SUCCESS) built_.insert(object);
    return AddRecord(object->made, NameOf(object), linked, object->status);
  }
  bool Add(const Partition* partition) { return AddRecord(partition->asked, 0, true, CL_SUCCESS); }
  bool Add(const BuildStep* step) {
    // A failed build of a program that was never built has no visible effect.
    if (step->state == BuildStep::State::kRefused) return true;
    if (step->state == BuildStep::State::kFailed && !built_.contains(step->program())) return true;
    built_.insert(step->program());
    return AddRecord(step->asked, 0, true, step->status);
  }
  bool Add(std::pair<std::uint32_t, const Event*> named) {
    const auto& [id, event] = named;
    const ObjectRef& context = event->context();
    if (event->user || context) {
      Send(wire::CreateUserEvent{.id = id, .context = NameOf(context.get())});
      if (!event->user || event->set) Send(wire::SetUserEvent{.id = id, .status = event->status});
    } else {
      Send(wire::Marker{.enqueue = {.queue = logged::kNoId, .event = id}});
    }
    if (event->watched) Send(wire::Watch{.event = id});
    return true;
  }
  /// Records that the new executor has a build of the program already.
  void HasBuilt(const Object* program) { built_.insert(program); }
  void SetArgs(const Object& kernel, const Reached& reached) {
    constexpr auto kObject = static_cast<std::uint8_t>(wire::ArgKind::kObject);
    const auto fail = [&](std::uint32_t index) {
      Send(wire::SetArg{.kernel = NameOf(&kernel), .index = index, .kind = kObject, .object = logged::kNoId});
    };
    for (std::uint32_t i = 0; i < kernel.args.size(); ++i) {
      const logged::Argument& arg = kernel.args[i];
      SetArg(kernel, i, arg, reached);
      if (arg.bad) fail(i);
    }
    if (kernel.no_such_arg) fail(kArgsMax);
  }
  [[nodiscard]] std::uint32_t NameOf(const Object* object) const { return rewriter_.NameOf(object); }

  ObjectLog::Replay replay;

 private:
  void SetArg(const Object& kernel, std::uint32_t index, const logged::Argument& arg, const Reached& reached) {
    wire::SetArg message{
        .kernel = NameOf(&kernel), .index = index, .kind = arg.kind, .size = arg.size, .data = arg.data};
    if (arg.kind == static_cast<std::uint8_t>(wire::ArgKind::kObject)) {
      const ObjectRef object = arg.object.lock();
      // The client has released the object. Without the argument, a launch fails in the same way.
      if (!object || !reached.Has(object.get())) return;
      message.object = NameOf(object.get());
    }
    if (arg.set) Send(message);
  }
  bool AddRecord(const logged::Record& record, std::uint32_t id, bool answered, std::int32_t status) {
    auto message = rewriter_.Write(record, id, next_request_);
    if (!message) return false;
    Send(std::move(*message));
    if (answered) replay.answers.push_back({.request = next_request_++, .status = status});
    return true;
  }

  const Rewriter rewriter_;
  std::unordered_set<const Object*> built_;
  std::uint32_t next_request_;
};

using Step = std::variant<const Object*, const Partition*, const BuildStep*, std::pair<std::uint32_t, const Event*>>;
/// Steps of a replay with the numbers of the messages that they repeat.
using Steps = std::vector<std::pair<std::uint64_t, Step>>;

/// Objects and builds that the new executor has before it receives the replay.
struct AlreadyMade {
  std::unordered_set<const Object*> objects;
  std::unordered_map<const Object*, std::uint64_t> last_builds;  // of programs
  std::unordered_set<std::uint64_t> builds;

  void Add(const Object* object, const std::vector<std::uint64_t>& object_builds) {
    objects.insert(object);
    if (object_builds.empty()) return;
    last_builds[object] = object_builds.back();
    builds.insert(object_builds.begin(), object_builds.end());
  }
  /// False: a replay would create an object twice, or would need a build that a later one has superseded.
  [[nodiscard]] bool Permits(const Reached& reached) const {
    for (const Object* object : objects)
      for (const ObjectRef& need : object->made.needs)
        if (need->kind != Kind::kDevice && !objects.contains(need.get())) return false;  // it would be created twice
    for (const Object* object : reached.objects)
      for (const ObjectRef& need : object->made.needs)
        if (!objects.contains(object) && BeforeLast(need, object->at)) return false;
    for (const BuildStep* step : reached.builds)
      if (!builds.contains(step->at) && BeforeLast(step->asked.needs.front(), step->at)) return false;
    return true;
  }
  /// Adds what remains to be made.
  void AddRest(const Reached& reached, Steps& steps) const {
    for (const BuildStep* step : reached.builds)
      if (!builds.contains(step->at)) steps.emplace_back(step->at, step);
    for (const Partition* partition : reached.partitions) steps.emplace_back(partition->at, partition);
    for (const Object* object : reached.objects)
      if (object->kind != Kind::kDevice && !objects.contains(object)) steps.emplace_back(object->at, object);
  }

 private:
  /// The program already has its last build on the new executor, so that objects of earlier builds cannot be created.
  [[nodiscard]] bool BeforeLast(const ObjectRef& program, std::uint64_t number) const {
    const auto last = program ? last_builds.find(program.get()) : last_builds.end();
    return last != last_builds.end() && number < last->second;
  }
};

/// Writes the steps, then the kernels' arguments and the errors that queues owe. False: no room for contents.
bool WriteSteps(const Steps& steps, const Reached& reached, Writing& writing) {
  for (const auto& [at, step] : steps)
    if (!std::visit([&](const auto& what) { return writing.Add(what); }, step)) return false;
  for (const auto& [at, step] : steps) {
    const auto* object = std::get_if<const Object*>(&step);
    if (object != nullptr && (*object)->kind == Kind::kKernel) writing.SetArgs(**object, reached);
    if (object != nullptr && (*object)->kind == Kind::kQueue && (*object)->owed != CL_SUCCESS)
      writing.Send(FailingCommand(writing.NameOf(*object)));
  }
  return true;
}

std::size_t BytesOf(const logged::Record& record) {
  std::size_t bytes = record.message.size() + record.needs.size() * sizeof(ObjectRef);
  for (const logged::Bytes& content : record.contents) bytes += content.size();
  return bytes;
}

}  // namespace
}  // namespace weir::opencl::logged

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

}  // namespace

std::optional<ObjectLog::Replay> ObjectLog::MakeReplay(const Place& place, const MadeAhead& ahead) const {
  logged::Reached reached;
  logged::Names names;
  logged::Steps steps;
  slots_.ForEach([&](std::uint32_t id, const logged::Slot& slot) {
    if (slot.object) {
      reached.Add(slot.object.get());
      names[slot.object.get()] = id;
    } else {
      reached.Add(slot.event.context().get());
      steps.emplace_back(slot.event.at, std::pair(id, &slot.event));
    }
  });
  for (const auto& [program, builds] : builds_)
    for (const logged::BuildRef& step : builds) reached.AddBuild(*step);

  // Ids that may be in use during the replay.
  std::set<std::uint32_t> devices;
  for (const ObjectRef& device : devices_) devices.insert(device->id);
  for (const logged::Partition* partition : reached.partitions)
    for (std::uint32_t i = 0; i < partition->count; ++i) devices.insert(partition->first + i);
  std::unordered_set<std::uint32_t> taken(devices.begin(), devices.end());
  for (const Object* object : reached.objects)
    if (object->kind == Kind::kDevice) names[object] = object->id;

  // Objects that exist but are no longer needed are released first, because their memory may be needed.
  logged::Writing writing(names, place);
  std::vector<const Object*> hidden;
  std::unordered_map<std::uint64_t, const Object*> numbered;
  for (const Object* object : reached.objects)
    if (object->kind != Kind::kDevice) numbered[object->at] = object;
  logged::AlreadyMade made;
  for (const Standing& standing : ahead.standing) {
    const auto found = numbered.find(standing.number);
    if (found == numbered.end()) {
      writing.Send(wire::Release{.id = standing.id});
      continue;
    }
    if (devices.contains(standing.id)) return std::nullopt;  // sub-devices would take its id
    const Object* object = found->second;
    made.Add(object, standing.builds);
    if (!standing.builds.empty()) writing.HasBuilt(object);
    if (names.contains(object)) continue;
    // The client has released the object, but objects created from it remain. It keeps its id unless another object has
    // it now.
    if (slots_.Find(standing.id) != nullptr) return std::nullopt;
    names[object] = standing.id;
    taken.insert(standing.id);
    hidden.push_back(object);
  }
  if (!made.Permits(reached)) return std::nullopt;
  made.AddRest(reached, steps);
  std::ranges::sort(steps, {}, [](const auto& step) { return step.first; });

  std::uint32_t free_id = 1;
  for (const auto& [at, step] : steps) {
    const auto* object = std::get_if<const Object*>(&step);
    if (object == nullptr || names.contains(*object)) continue;
    while (slots_.Find(free_id) != nullptr || taken.contains(free_id)) ++free_id;
    if (free_id >= ahead.ids_end) return std::nullopt;
    names[*object] = free_id++;
    hidden.push_back(*object);
  }

  if (!logged::WriteSteps(steps, reached, writing)) return std::nullopt;
  for (const Object* object : hidden) writing.Send(wire::Release{.id = names[object], .ticket = object->ticket});
  for (const std::uint32_t id : devices)
    if (slots_.Find(id) == nullptr) writing.Send(wire::Release{.id = id});
  return std::move(writing.replay);
}

std::optional<ObjectLog::Message> ObjectLog::MakerOf(std::uint32_t id) const {
  const logged::Slot* slot = slots_.Find(id);
  if (slot == nullptr || !slot->object) return std::nullopt;
  const Object& object = *slot->object;
  if ((object.kind != Kind::kContext && object.kind != Kind::kMemory) || object.part || object.failed)
    return std::nullopt;
  for (const ObjectRef& need : object.made.needs) {
    if (!need || need->partition || !Stands({.id = need->id, .number = need->at})) return std::nullopt;
    if (need->kind == Kind::kContext && !MakerOf(need->id)) return std::nullopt;
  }
  return object.made.message;
}

std::vector<std::pair<ObjectLog::Standing, ObjectLog::Standing>> ObjectLog::Programs() const {
  std::vector<std::pair<Standing, Standing>> all;
  slots_.ForEach([&](std::uint32_t id, const logged::Slot& slot) {
    if (!slot.object || slot.object->kind != Kind::kProgram || slot.object->failed) return;
    const Object& context = *slot.object->made.needs.front();
    all.emplace_back(Standing{.id = id, .number = slot.object->at}, Standing{.id = context.id, .number = context.at});
  });
  return all;
}

std::optional<ObjectLog::Replay> ObjectLog::BuilderOf(Standing& program, std::uint32_t first_request,
                                                      const Place& place) const {
  const Object* object = Stands(program) ? Look(Kind::kProgram, program.id) : nullptr;
  if (object == nullptr || object->failed || object->made.op == wire::Link::kOp) return std::nullopt;
  logged::Names names{{object, program.id}};
  const auto stands = [&](const ObjectRef& need) {
    const bool there = need && !need->partition && Stands({.id = need->id, .number = need->at});
    if (there) names[need.get()] = need->id;
    return there && (need->kind == Kind::kDevice || (need->kind == Kind::kContext && MakerOf(need->id)));
  };
  if (!std::ranges::all_of(object->made.needs, stands)) return std::nullopt;
  logged::Writing writing(names, place, first_request);
  if (!writing.Add(object)) return std::nullopt;
  const auto builds = builds_.find(program.id);
  program.builds.clear();
  if (builds == builds_.end()) return std::move(writing.replay);
  for (const logged::BuildRef& step : builds->second) {
    if (step->state == logged::BuildStep::State::kPending || step->program() != object) return std::nullopt;
    const auto needs = std::span(step->asked.needs).subspan(1);
    if (!std::ranges::all_of(needs, stands) || !writing.Add(step.get())) return std::nullopt;
    program.builds.push_back(step->at);
  }
  return std::move(writing.replay);
}

bool ObjectLog::Stands(const Standing& standing) const {
  const logged::Slot* slot = slots_.Find(standing.id);
  return slot != nullptr && slot->object && slot->object->at == standing.number && slot->object->id == standing.id;
}

ObjectLog::Kept ObjectLog::kept() const {
  Kept kept;
  logged::Reached reached;
  slots_.ForEach([&](std::uint32_t, const logged::Slot& slot) {
    reached.Add(slot.object.get());
    if (!slot.event.there) return;
    ++kept.events;
    reached.Add(slot.event.of.get());
  });
  for (const auto& [program, builds] : builds_)
    for (const logged::BuildRef& step : builds) reached.AddBuild(*step);
  for (const auto& [number, request] : requests_) {
    reached.Add(request.queue.get());
    if (request.build) reached.AddBuild(*request.build);
    kept.bytes += request.body.size();
  }
  for (const Object* object : reached.objects) {
    kept.bytes += logged::BytesOf(object->made) + sizeof(Object) + object->args.size() * sizeof(logged::Argument);
    for (const logged::Argument& arg : object->args) kept.bytes += arg.data.size();
  }
  for (const logged::BuildStep* step : reached.builds)
    kept.bytes += logged::BytesOf(step->asked) + sizeof(logged::BuildStep);
  kept.objects = reached.objects.size();
  kept.builds = reached.builds.size();
  return kept;
}

}  // namespace weir::opencl
