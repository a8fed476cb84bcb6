// SPDX-License-Identifier: Apache-2.0
// What the handles of a program name: contexts, streams, events, modules, kernels and graphs.
#pragma once

#include <dlfcn.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "emulator/cuda/types.h"
#include "emulator/opencl/costs.h"
#include "emulator/opencl/timeline.h"

namespace weir::emulator::cuda {

using cl::CommandId;
using cl::Timeline;
using cl::Work;

/// The end of a command on the device.
struct Completion {
  CommandId command = 0;
  bool complete = false, failed = false;
  Instant ended{};
};

/// A moment of a stream. It has come when all of these commands are complete.
using Moment = std::vector<std::shared_ptr<const Completion>>;

/// Memory that a node of a graph allocates. Its address is that of the node, also while nothing is mapped there.
struct GraphBlock {
  std::shared_ptr<std::byte[]> memory{};
  std::uint64_t room = 0;  // bytes of `memory`, which an earlier node may have allocated
  std::uint64_t bytes = 0;
  std::uint32_t card = 0;
  [[nodiscard]] Pointer pointer() const { return static_cast<Pointer>(reinterpret_cast<std::uintptr_t>(memory.get())); }
};

/// A launch, a copy or a memset: its cost, and what computes its result. Or a node that allocates or frees memory. A
/// graph is a list of them.
struct Operation {
  Work work{};
  std::function<void()> compute{};          // empty: nothing is computed
  std::shared_ptr<GraphBlock> allocates{};  // null: the operation allocates nothing
  Pointer frees = 0;                        // 0: it frees nothing
  [[nodiscard]] bool is_work() const { return allocates == nullptr && frees == 0; }
};

struct Graph {
  static constexpr std::size_t kOperationsMax = 65'536;
  std::vector<Operation> operations;
  std::uint64_t number = 0;  // that the handles of its nodes begin with; 0: it has given out none

  [[nodiscard]] bool UsesMemory() const;
  /// Bytes that must be mapped on the card while the graph runs.
  [[nodiscard]] std::uint64_t Footprint(std::uint32_t card) const;
  /// The blocks that are allocated when the graph has run.
  [[nodiscard]] std::vector<std::shared_ptr<GraphBlock>> Left() const;
};

struct Executable {
  Graph graph;
  bool frees_itself = false;  // what an earlier launch has left is freed by the next one
};

struct Capture {
  int mode = kGlobal;
  std::thread::id owner;
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  bool invalid = false;
};

struct Context;

struct Stream {
  std::shared_ptr<Context> context;
  bool blocking = true;  // the legacy default stream and this stream wait for each other
  Timeline::QueueId queue = 0;
  std::size_t open = 0;  // commands that are not complete
  Moment last;           // of its own commands and of the events that it waits for
  std::optional<Capture> capture{};
};

struct Context {
  std::uint32_t device = 0;  // index in Driver::devices()
  bool primary = false;
  unsigned users = 1;                 // cuCtxAttach adds one
  std::shared_ptr<Context> parent{};  // of a green context: the primary one, whose memory and modules it uses
  std::shared_ptr<Stream> legacy;
  std::map<std::thread::id, std::shared_ptr<Stream>> of_threads;  // per-thread default streams
  std::set<std::shared_ptr<Stream>> streams;                      // all, also these
  Moment orphans;                                                 // of streams that were destroyed
  /// Held while a command is computed and until it is in the timeline, so that both have one order.
  std::mutex computing;
};

struct Event {
  std::shared_ptr<Context> context;
  bool timed = true;
  bool recorded = false;
  Moment moment;          // what had not ended when the event was recorded
  Instant recorded_at{};  // when it was recorded
  Handle captured_in{};   // the stream, if it was recorded in a capturing one
};

/// An image of kernels: a shared object.
struct Module {
  Module(std::shared_ptr<Context> owner, void* library) : context(std::move(owner)), library_(library) {}
  ~Module() { ::dlclose(library_); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  [[nodiscard]] void* Symbol(const std::string& name) const { return ::dlsym(library_, name.c_str()); }

  const std::shared_ptr<Context> context;

 private:
  void* const library_;
};

struct Kernel {
  /// Computes one block of the grid.
  using Entry = void (*)(const unsigned grid_block[6], const unsigned index[3], void** parameters);
  std::shared_ptr<Module> module;
  std::string name;
  Entry entry = nullptr;
  std::vector<std::size_t> sizes;  // of the parameters
};

/// The context whose memory, modules and events the context uses.
inline std::shared_ptr<Context> OwnerOf(const std::shared_ptr<Context>& context) {
  return context->parent != nullptr ? context->parent : context;
}

/// A part of a device. Work in it is that of a context of its own.
struct GreenContext {
  std::shared_ptr<Context> context;
};

/// A memory pool. What is freed returns to the device at once.
struct Pool {
  static constexpr int kHost = -1;
  int card = 0;  // or kHost
};

/// Physical memory that graphs use. It is kept until the program trims it.
struct GraphPiece {
  std::uint32_t card = 0;
  std::uint64_t bytes = 0;
  std::shared_ptr<Stream> stream{};                 // of the last launch that used it
  bool starting = false;                            // that launch is not in the stream yet
  Moment until{};                                   // its end
  std::vector<std::shared_ptr<GraphBlock>> left{};  // by that launch, and not freed
};

/// The objects of one kind, by handle.
template <typename Type>
class Registry {
 public:
  static constexpr std::size_t kMost = 65'536;

  /// Null: there are too many.
  Handle Add(std::shared_ptr<Type> object) {
    if (objects_.size() >= kMost) return nullptr;
    const Handle handle = const_cast<void*>(static_cast<const void*>(object.get()));
    objects_[handle] = std::move(object);
    return handle;
  }
  [[nodiscard]] std::shared_ptr<Type> Find(Handle handle) const {
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Type> Remove(Handle handle) {
    auto node = objects_.extract(handle);
    return node ? std::move(node.mapped()) : nullptr;
  }
  template <typename Condition>
  void RemoveIf(Condition condition) {
    RemoveIf(condition, [](const auto&) {});
  }
  /// `take` gets each object that is removed.
  template <typename Condition, typename Take>
  void RemoveIf(Condition condition, Take take) {
    std::erase_if(objects_, [&](auto& one) {
      const bool ends = condition(*one.second);
      if (ends) take(one.second);
      return ends;
    });
  }
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [handle, object] : objects_) visit(*object);
  }

 private:
  std::unordered_map<Handle, std::shared_ptr<Type>> objects_;
};

}  // namespace weir::emulator::cuda
