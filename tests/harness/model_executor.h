// SPDX-License-Identifier: Apache-2.0
// An executor without a driver: keeps the objects that opencl/executor would keep, executes commands at once, and can
// describe its client's objects. For invariants of code that follows a connection by its messages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "opencl/channel/cl.h"
#include "opencl/channel/limits.h"
#include "proto/opencl_messages.h"

namespace weir::testing {

namespace wire = proto::cl;

enum class ModelKind { kDevice, kContext, kQueue, kMemory, kSampler, kProgram, kKernel, kEvent };

struct ModelObject {
  ModelKind kind{};
  bool failed = false;
  std::string what;  // its arguments other than objects
  std::vector<std::shared_ptr<ModelObject>> needs;
  std::map<const ModelObject*, std::string> built;  // of a program, by device
  std::vector<std::shared_ptr<ModelObject>> built_for;
  std::map<std::string, std::string> code;  // of a kernel: the code of its program at creation
  struct Arg {
    std::string value;
    bool object = false;
    std::weak_ptr<ModelObject> of;
  };
  std::map<std::uint32_t, Arg> args;
  std::set<std::uint32_t> bad_args;  // kArgsMax: one beyond it
  bool part = false;                 // of memory
  std::uint64_t content = 0;         // of a root: which
  std::int32_t error = 0;            // of a queue: the first of a command without an event
  bool user = false, pending = false, watched = false;
  std::int32_t status = 0;
  std::uint64_t ticket = 0;
  std::vector<std::uint64_t>* freed = nullptr;  // where its ticket is stored at its end
  ~ModelObject() {
    if (ticket != 0 && freed != nullptr) freed->push_back(ticket);
  }
  ModelObject& root() { return part && needs.back() ? needs.back()->root() : *this; }
};

class ModelExecutor {
 public:
  using Ref = std::shared_ptr<ModelObject>;
  using Kind = ModelKind;
  static constexpr std::uint32_t kDevice = 1;

  explicit ModelExecutor(bool shares_arena = false) {
    Ref device = std::make_shared<ModelObject>();
    device->kind = Kind::kDevice;
    device->what = "whole";
    objects_[kDevice] = device;
    wire::PlatformFacts facts;
    facts.devices.push_back({.id = kDevice, .shares_arena = shares_arena, .facts = {}});
    AnswerWith(0, 0, facts);
  }
  ModelExecutor(const ModelExecutor&) = delete;
  ModelExecutor& operator=(const ModelExecutor&) = delete;
  ~ModelExecutor() { objects_.clear(); }

  std::vector<std::byte> arena = std::vector<std::byte>(1 << 20);

  void Handle(wire::ByteView message) {
    wire::Header header;
    if (!wire::ReadHeader(message, header)) return;
    switch (header.op) {
      case wire::CreateContext::kOp: return On<wire::CreateContext>(message);
      case wire::CreateQueue::kOp: return On<wire::CreateQueue>(message);
      case wire::CreateBuffer::kOp: return On<wire::CreateBuffer>(message);
      case wire::CreateSubBuffer::kOp: return On<wire::CreateSubBuffer>(message);
      case wire::CreateImage::kOp: return On<wire::CreateImage>(message);
      case wire::CreateSampler::kOp: return On<wire::CreateSampler>(message);
      case wire::CreateProgram::kOp: return On<wire::CreateProgram>(message);
      case wire::CreateProgramFromBinary::kOp: return On<wire::CreateProgramFromBinary>(message);
      case wire::CreateKernel::kOp: return On<wire::CreateKernel>(message);
      case wire::CreateUserEvent::kOp: return On<wire::CreateUserEvent>(message);
      case wire::SetUserEvent::kOp: return On<wire::SetUserEvent>(message);
      case wire::SetArg::kOp: return On<wire::SetArg>(message);
      case wire::Release::kOp: return On<wire::Release>(message);
      case wire::NdRange::kOp: return On<wire::NdRange>(message);
      case wire::WriteBuffer::kOp: return On<wire::WriteBuffer>(message);
      case wire::CopyBuffer::kOp: return On<wire::CopyBuffer>(message);
      case wire::Marker::kOp: return On<wire::Marker>(message);
      case wire::Build::kOp: return On<wire::Build>(message);
      case wire::Compile::kOp: return On<wire::Compile>(message);
      case wire::Link::kOp: return On<wire::Link>(message);
      case wire::CreateSubDevices::kOp: return On<wire::CreateSubDevices>(message);
      case wire::Finish::kOp: return On<wire::Finish>(message);
      case wire::Watch::kOp: return On<wire::Watch>(message);
      default: return;
    }
  }
  /// The answers since the last call.
  std::vector<std::vector<std::byte>> TakeAnswers() {
    for (const std::uint64_t ticket : freed_) answers_.push_back(wire::Encode(wire::Freed{.ticket = ticket}));
    freed_.clear();
    return std::exchange(answers_, {});
  }

  /// The ids of all objects of a kind.
  [[nodiscard]] std::vector<std::uint32_t> IdsOf(Kind kind) const {
    std::vector<std::uint32_t> ids;
    for (const auto& [id, object] : objects_)
      if (object->kind == kind) ids.push_back(id);
    return ids;
  }
  [[nodiscard]] Ref Any(std::uint32_t id) const {
    const auto found = objects_.find(id);
    return found != objects_.end() ? found->second : nullptr;
  }
  /// Everything that a client could observe: each object by its id, and which ids share an object.
  [[nodiscard]] std::string Describe() const {
    std::map<const ModelObject*, int> numbers;
    std::vector<const ModelObject*> waiting;
    const auto number = [&](const ModelObject* object) {
      if (object == nullptr) return std::string("nothing");
      const auto [found, is_new] = numbers.emplace(object, static_cast<int>(numbers.size()));
      if (is_new) waiting.push_back(object);
      return "#" + std::to_string(found->second);
    };
    std::string text;
    // Contents that only failed parts keep alive can't be observed.
    std::set<const ModelObject*> seen;
    for (const auto& [id, object] : objects_)
      if (object->kind == Kind::kMemory && !object->failed) seen.insert(&object->root());
    // Neither can the code of a program without an id; its kernels keep the code that they were made from.
    for (const auto& [id, object] : objects_)
      if (object->kind == Kind::kProgram) seen.insert(object.get());
    for (const auto& [id, object] : objects_) text += std::to_string(id) + " is " + number(object.get()) + "\n";
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      const ModelObject& object = *waiting[i];
      text += number(&object) + ": kind " + std::to_string(static_cast<int>(object.kind)) +
              (object.failed ? " failed " : " ") + object.what;
      if (object.kind != Kind::kEvent)
        for (const Ref& need : object.needs) text += " " + number(need.get());
      std::vector<std::string> builds;
      for (const auto& [device, code] : object.code) text += " " + device + ": " + code;
      for (const Ref& device : object.built_for)
        if (const auto built = object.built.find(device.get()); built != object.built.end() && seen.contains(&object))
          builds.push_back(" for " + number(device.get()) + ": " + built->second);
      for (const std::string& build : builds) text += build;
      for (const auto& [index, arg] : object.args) {
        const Ref of = arg.of.lock();
        if (arg.object && !of) continue;
        text += " arg " + std::to_string(index) + "=" + (arg.object ? number(of.get()) : arg.value);
      }
      for (const std::uint32_t index : object.bad_args) text += " bad arg " + std::to_string(index);
      if (object.kind == Kind::kMemory && seen.contains(&object)) text += " content " + std::to_string(object.content);
      if (object.error != 0) text += " has an error";
      if (object.kind == Kind::kEvent)
        text += (object.pending ? " pending" : " ended " + std::to_string(object.status)) +
                (object.watched ? " watched" : "");
      if (object.ticket != 0) text += " ticket " + std::to_string(object.ticket);
      text += "\n";
    }
    return text;
  }

 private:
  template <typename M>
  void On(wire::ByteView message) {
    M m;
    if (wire::Decode(message, m)) Do(m);
  }
  template <typename M>
  void AnswerWith(std::uint32_t request, std::int32_t status, const M& body) {
    wire::FieldWriter counter;
    M::Fields(body, counter);
    std::vector<std::byte> bytes(counter.size());
    wire::FieldWriter writer(bytes);
    M::Fields(body, writer);
    const std::size_t half = bytes.size() / 2;
    answers_.push_back(wire::Encode(
        wire::Reply{.request = request, .status = status, .more = 1, .part = wire::ByteView(bytes).first(half)}));
    answers_.push_back(
        wire::Encode(wire::Reply{.request = request, .status = status, .part = wire::ByteView(bytes).subspan(half)}));
  }
  void Answer(std::uint32_t request, std::int32_t status) {
    answers_.push_back(wire::Encode(wire::Reply{.request = request, .status = status}));
  }
  void Free(std::uint64_t ticket) {
    if (ticket != 0) freed_.push_back(ticket);
  }
  Ref Find(Kind kind, std::uint32_t id) const {
    Ref object = Any(id);
    return object && object->kind == kind ? object : nullptr;
  }
  std::string View(const wire::Blob& blob, bool& there) const {
    if (blob.kind == wire::Blob::kInline) return std::string(wire::TextOf(blob.bytes));
    const bool within = blob.offset <= arena.size() && blob.size <= arena.size() - blob.offset;
    there = there && within;
    return within ? std::string(wire::TextOf({arena.data() + blob.offset, blob.size})) : "";
  }
  Ref Make(Kind kind, std::string what, std::vector<std::pair<Kind, std::uint32_t>> needs) {
    Ref object = std::make_shared<ModelObject>();
    object->kind = kind;
    object->what = std::move(what);
    object->freed = &freed_;
    for (const auto& [needed, id] : needs) {
      object->needs.push_back(Find(needed, id));
      object->failed = object->failed || !object->needs.back() || object->needs.back()->failed;
    }
    return object;
  }
  void Put(std::uint32_t id, Ref object) {
    if (id != 0 && id <= opencl::kIdMax) objects_[id] = std::move(object);
  }
  static std::string Text(auto... numbers) { return ((std::to_string(numbers) + " ") + ...); }

  void Do(const wire::CreateContext& m) {
    std::vector<std::pair<Kind, std::uint32_t>> devices;
    for (std::size_t i = 0; i < m.devices.size(); ++i) devices.emplace_back(Kind::kDevice, m.devices[i]);
    Put(m.id, Make(Kind::kContext, "", devices));
  }
  void Do(const wire::CreateQueue& m) {
    Put(m.id, Make(Kind::kQueue, Text(m.properties), {{Kind::kContext, m.context}, {Kind::kDevice, m.device}}));
  }
  void Do(const wire::CreateBuffer& m) {
    Ref buffer = Make(Kind::kMemory, Text(m.flags, m.size, m.offset), {{Kind::kContext, m.context}});
    if (m.filled != 0 && !buffer->failed) buffer->content = ++contents_;
    Put(m.id, buffer);
  }
  void Do(const wire::CreateSubBuffer& m) {
    Ref buffer = Make(Kind::kMemory, Text(m.flags, m.origin, m.size), {{Kind::kMemory, m.parent}});
    buffer->part = true;
    Put(m.id, buffer);
  }
  void Do(const wire::CreateImage& m) {
    std::vector<std::pair<Kind, std::uint32_t>> needs{{Kind::kContext, m.context}};
    if (m.buffer != 0) needs.emplace_back(Kind::kMemory, m.buffer);
    Ref image = Make(Kind::kMemory, Text(m.flags, m.channel_order, m.channel_type, m.type, m.width, m.height), needs);
    image->part = m.buffer != 0;
    if (m.content.length() > 0 && !image->failed) image->content = ++contents_;
    Free(m.ticket);
    Put(m.id, image);
  }
  void Do(const wire::CreateSampler& m) {
    Put(m.id, Make(Kind::kSampler, Text(m.normalized, m.addressing, m.filter), {{Kind::kContext, m.context}}));
  }
  void Do(const wire::CreateProgram& m) {
    bool there = true;
    const std::string source = View(m.source, there);
    Free(m.ticket);
    Put(m.id, Make(Kind::kProgram, source, {{Kind::kContext, there ? m.context : 0}}));
  }
  void Do(const wire::CreateProgramFromBinary& m) {
    bool there = true;
    const std::string binary = View(m.binary, there);
    std::vector<std::pair<Kind, std::uint32_t>> needs{{Kind::kContext, there ? m.context : 0}};
    for (std::size_t i = 0; i < m.devices.size(); ++i) needs.emplace_back(Kind::kDevice, m.devices[i]);
    Free(m.ticket);
    Put(m.id, Make(Kind::kProgram, binary, needs));
  }
  void Do(const wire::CreateKernel& m) {
    Ref kernel = Make(Kind::kKernel, std::string(m.name), {{Kind::kProgram, m.program}});
    if (!kernel->failed) kernel->failed = kernel->needs[0]->built.empty();
    if (!kernel->failed)
      for (const auto& [device, built] : kernel->needs[0]->built) kernel->code[device->what] = built;
    Put(m.id, kernel);
  }
  void Do(const wire::CreateUserEvent& m) {
    Ref event = Make(Kind::kEvent, "", {{Kind::kContext, m.context}});
    event->user = event->pending = !event->failed;
    if (event->failed) event->status = CL_INVALID_CONTEXT;
    Put(m.id, event);
  }
  void Do(const wire::SetUserEvent& m) {
    Ref event = Find(Kind::kEvent, m.id);
    if (!event || event->failed || !event->user || !event->pending) return;
    event->pending = event->user = false;
    event->status = std::min<std::int32_t>(m.status, 0);
    if (std::exchange(event->watched, false)) Tell(m.id, *event);
  }
  void Do(const wire::SetArg& m) {
    Ref kernel = Find(Kind::kKernel, m.kernel);
    if (!kernel || kernel->failed) return;
    Ref object;
    if (m.kind == 1) {
      object = Find(Kind::kMemory, m.object);
      if (!object) object = Find(Kind::kSampler, m.object);
    }
    const bool bad = m.kind > 3 || m.index >= opencl::kArgsMax || (m.kind == 1 && (!object || object->failed));
    if (bad) {
      kernel->bad_args.insert(std::min(m.index, opencl::kArgsMax));
      return;
    }
    kernel->bad_args.erase(m.index);
    kernel->args[m.index] = {
        .value = Text(m.kind, m.size) + std::string(wire::TextOf(m.data)), .object = m.kind == 1, .of = object};
  }
  void Do(const wire::Release& m) {
    Ref object = Any(m.id);
    objects_.erase(m.id);
    if (object && object->kind == Kind::kMemory)
      object->ticket = m.ticket;
    else
      Free(m.ticket);
  }

  // -- Programs

  std::vector<Ref> DevicesFor(const Ref& program, const wire::IdList& ids, bool& there) const {
    std::vector<Ref> devices;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      devices.push_back(Find(Kind::kDevice, ids[i]));
      const Ref context = program ? program->needs[0] : nullptr;
      const auto of_context = [&] { return std::ranges::find(context->needs, devices.back()) != context->needs.end(); };
      there = there && devices.back() && context && of_context();
    }
    if (!ids.empty() || !program) return devices;
    const Ref context = program->needs[0];
    return context ? context->needs : devices;
  }
  template <typename M>
  std::int32_t BuildAs(const M& m, std::string how) {
    Ref program = Find(Kind::kProgram, m.program);
    bool there = program && !program->failed;
    const std::vector<Ref> devices = DevicesFor(program, m.devices, there);
    for (const wire::IncludedFile& header : m.headers) {
      how += " " + std::string(header.name) + "=" + View(header.content, there);
      Free(header.ticket);
    }
    if (!there || m.options == "refuse") return CL_INVALID_VALUE;
    for (const auto& [id, object] : objects_)
      if (object->kind == Kind::kKernel && object->needs[0] == program && !object->failed) return CL_INVALID_OPERATION;
    for (const Ref& device : devices) {
      if (std::ranges::find(program->built_for, device) == program->built_for.end())
        program->built_for.push_back(device);
      program->built.erase(device.get());
      if (m.options != "fail") program->built[device.get()] = how;
    }
    // The order must not depend on the order of builds.
    std::vector<Ref> ordered;
    if (const Ref context = program->needs[0])
      for (const Ref& device : context->needs)
        if (std::ranges::find(program->built_for, device) != program->built_for.end()) ordered.push_back(device);
    for (const Ref& device : program->built_for)
      if (std::ranges::find(ordered, device) == ordered.end()) ordered.push_back(device);
    std::ranges::sort(ordered, {}, [](const Ref& device) { return device->what; });
    program->built_for = ordered;
    return m.options == "fail" ? CL_BUILD_PROGRAM_FAILURE : CL_SUCCESS;
  }
  void Do(const wire::Build& m) { Answer(m.request, BuildAs(m, "built " + std::string(m.options))); }
  void Do(const wire::Compile& m) {
    std::string how = "compiled " + std::string(m.options);
    bool there = m.header_programs.size() == m.header_names.size();
    for (std::size_t i = 0; i < m.header_programs.size() && there; ++i) {
      const Ref header = Find(Kind::kProgram, m.header_programs[i]);
      there = header && !header->failed;
      if (there) how += " " + std::string(m.header_names[i]) + "=" + header->what;
    }
    Answer(m.request, there ? BuildAs(m, how) : CL_INVALID_VALUE);
  }
  void Do(const wire::Link& m) {
    std::vector<std::pair<Kind, std::uint32_t>> needs{{Kind::kContext, m.context}};
    Ref program = Make(Kind::kProgram, "linked " + std::string(m.options), needs);
    bool there = !program->failed;
    const std::vector<Ref> devices = DevicesFor(program, m.devices, there);
    for (std::size_t i = 0; i < m.programs.size(); ++i) {
      const Ref input = Find(Kind::kProgram, m.programs[i]);
      there = there && input && !input->failed && !input->built.empty();
      if (!there) break;
      program->what += " of " + input->what;
      for (const Ref& device : input->built_for)
        if (const auto built = input->built.find(device.get()); built != input->built.end())
          program->what += " (" + device->what + ": " + built->second + ")";
    }
    there = there && m.options != "fail";
    program->failed = !there;
    if (there) program->built_for = devices;
    if (there)
      for (const Ref& device : devices) program->built[device.get()] = "linked";
    if (!there) program->what = "not linked";
    Put(m.id, program);
    Answer(m.request, there ? CL_SUCCESS : CL_LINK_PROGRAM_FAILURE);
  }
  void Do(const wire::CreateSubDevices& m) {
    const Ref whole = Find(Kind::kDevice, m.device);
    wire::SubDeviceFacts facts;
    if (!whole || m.properties.size() < 2) return AnswerWith(m.request, CL_INVALID_VALUE, facts);
    for (std::uint32_t i = 0; i < m.properties[1]; ++i) {
      facts.devices.push_back({.id = m.first + i, .shares_arena = 0, .facts = {}});
      Ref part = Make(Kind::kDevice, whole->what + "/" + std::to_string(m.first) + "." + std::to_string(i), {});
      part->needs.push_back(whole);
      Put(m.first + i, part);
    }
    AnswerWith(m.request, CL_SUCCESS, facts);
  }

  // -- Commands

  void Command(const wire::Enqueue& enqueue, std::int32_t error) {
    Ref queue = Find(Kind::kQueue, enqueue.queue);
    if (!queue || queue->failed) error = CL_INVALID_COMMAND_QUEUE;
    if (error != 0 && enqueue.event == 0 && queue && !queue->failed && queue->error == 0) queue->error = error;
    if (enqueue.event == 0) return;
    Ref event = Make(Kind::kEvent, "", {});
    event->status = error;
    Put(enqueue.event, event);
  }
  void Write(std::uint32_t id, std::int32_t& error) {
    Ref memory = Find(Kind::kMemory, id);
    if (!memory || memory->failed)
      error = CL_INVALID_MEM_OBJECT;
    else
      memory->root().content = ++contents_;
  }
  void Do(const wire::NdRange& m) {
    Ref kernel = Find(Kind::kKernel, m.kernel);
    std::int32_t error = !kernel || kernel->failed ? CL_INVALID_KERNEL : 0;
    if (error == 0 && !kernel->bad_args.empty()) error = CL_INVALID_ARG_VALUE;
    if (error == 0)
      for (const auto& [index, arg] : kernel->args)
        if (arg.object && arg.of.expired()) error = CL_INVALID_KERNEL_ARGS;
    if (error == 0)
      for (const auto& [index, arg] : kernel->args)
        if (const Ref of = arg.of.lock(); of && of->kind == Kind::kMemory) of->root().content = ++contents_;
    Command(m.enqueue, error);
  }
  void Do(const wire::WriteBuffer& m) {
    std::int32_t error = 0;
    Write(m.buffer, error);
    Free(m.ticket);
    Command(m.enqueue, error);
  }
  void Do(const wire::CopyBuffer& m) {
    std::int32_t error = 0;
    Write(m.to, error);
    Command(m.enqueue, error);
  }
  void Do(const wire::Marker& m) { Command(m.enqueue, 0); }
  void Do(const wire::Finish& m) {
    Ref queue = Find(Kind::kQueue, m.queue);
    Answer(m.request, queue ? std::exchange(queue->error, 0) : CL_INVALID_COMMAND_QUEUE);
  }
  void Do(const wire::Watch& m) {
    Ref event = Find(Kind::kEvent, m.event);
    if (event && event->pending)
      event->watched = true;
    else
      answers_.push_back(
          wire::Encode(wire::EventDone{.event = m.event, .status = event ? event->status : CL_INVALID_EVENT}));
  }
  void Tell(std::uint32_t id, const ModelObject& event) {
    answers_.push_back(wire::Encode(wire::EventDone{.event = id, .status = event.status}));
  }

  std::vector<std::uint64_t> freed_;
  std::map<std::uint32_t, Ref> objects_;
  std::vector<std::vector<std::byte>> answers_;
  std::uint64_t contents_ = 0;
};

/// Copies contents between executors, as a migration does.
inline void MoveContent(const ModelExecutor& from, const ModelExecutor& to, std::uint32_t id) {
  const auto source = from.Any(id), target = to.Any(id);
  if (source && target) target->root().content = source->root().content;
}

}  // namespace weir::testing
