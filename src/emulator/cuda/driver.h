// SPDX-License-Identifier: Apache-2.0
// The driver of a process: its connection to the emulator, the timeline, and the objects of the program.
//
//   a call ─▶ computed on the CPU, by the caller ─▶ timeline (one lock) ─▶ submissions ─▶ the emulator
//                                      threads that wait ◀─ ends ◀┘◀───────────────────── client's thread
//
// Nothing is computed or submitted with the lock held.
#pragma once

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/client.h"
#include "emulator/cuda/address_space.h"
#include "emulator/cuda/objects.h"
#include "emulator/cuda/types.h"

namespace weir::emulator::cuda {

class Driver {
 public:
  /// Commands that a stream holds. A call that would add another waits.
  static constexpr std::size_t kOpenMost = 1024;
  static constexpr std::size_t kStreamsMost = 4096;

  struct Card {
    std::uint32_t number = 0;  // the emulator's number of the device
    ClientDevice model;
    std::shared_ptr<Context> primary{};
    unsigned retained = 0;
    std::uint64_t used = 0;           // bytes that this process has allocated
    std::shared_ptr<Pool> pool{};     // the default one
    std::shared_ptr<Pool> current{};  // null: the default one
    std::uint64_t graph_most = 0;     // the most that graphs have had
  };

  /// cuInit. At the first call it connects to the emulator; a line on stderr says why it can't.
  static Result Start();
  /// Null: cuInit has not succeeded, or this is the child of a fork. Never destroyed, because threads of the program
  /// may use it while the program exits.
  static Driver* The();

  [[nodiscard]] cl::KernelWork CostOf(const std::string& name, std::uint64_t items) const {
    return cl::WorkOf(client_->kernels(), client_->kernel_factor(), name, items);
  }
  [[nodiscard]] std::unique_lock<std::mutex> Lock() { return std::unique_lock(mutex_); }

  // Contexts. They require the lock.
  [[nodiscard]] bool Lost(const Context& context) const { return lost_.contains(cards[context.device].number); }
  /// The calling thread's context. kUnknown: its device is lost.
  Result Current(std::shared_ptr<Context>& context) const;
  Result MakeContext(std::uint32_t card, std::shared_ptr<Context>& context);
  Result RetainPrimary(std::uint32_t card, std::shared_ptr<Context>& context);
  Result ReleasePrimary(std::unique_lock<std::mutex>& lock, std::uint32_t card);
  /// Waits for its work, and unlocks for that time.
  void DestroyContext(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Context>& context);
  /// Ends all that belongs to the context, and what graphs keep of its device. The handle stays valid. Memory of pools
  /// lasts until it is freed, as cudaDeviceReset's description says.
  Result ResetContext(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Context>& context);

  /// Requires the lock. With WEIR_EMULATED_CUDA_STRICT=1, an event of a context that has ended ends the program, as it
  /// may on a real driver. Its handle is not used again then.
  [[nodiscard]] std::shared_ptr<Event> FindEvent(Handle handle) const;

  // Streams. They require the lock.
  /// Null: there is no such stream, or there are too many streams.
  std::shared_ptr<Stream> FindStream(const std::shared_ptr<Context>& context, Where where);
  std::shared_ptr<Stream> AddStream(const std::shared_ptr<Context>& context, bool blocking);
  void RemoveStream(const std::shared_ptr<Stream>& stream);
  /// What is under way and comes before the next command of the stream.
  [[nodiscard]] static Moment Front(const Stream& stream);
  /// All that is under way in the context.
  [[nodiscard]] static Moment AllOf(const Context& context);
  [[nodiscard]] static bool Complete(const Moment& moment);
  /// Unlocks while it waits. kUnknown: the device is lost.
  Result Wait(std::unique_lock<std::mutex>& lock, const Context& context, const Moment& moment);

  // Captures (capture.cc). They require the lock.
  /// Refuses a call that is not safe while a stream captures, and invalidates the capture.
  Result RefuseWhileCapturing();
  /// The same for what may not be done to a stream that captures, or to the legacy stream while another one does.
  Result RefuseIfCapturing(Stream& stream);
  /// Whether the call is for the legacy stream while a blocking stream captures.
  [[nodiscard]] static bool LegacyIsUnknown(const Stream& stream);
  static void Invalidate(Context& context);

  /// Computes an operation and adds it to the stream, or adds it to the graph of a stream that captures.
  /// With `wait` it returns when the operation is complete. Must be called without the lock.
  Result Do(const std::shared_ptr<Stream>& stream, const Operation& operation, bool wait = false);

  // Memory. Must be called without the lock.
  /// What a block of memory is, and so which call frees it.
  enum class Kind : std::uint8_t {
    kMemory,
    kPooled,  // by cuMemFree, too; no context owns it
    kArray,
  };
  Result Allocate(const std::shared_ptr<Context>& context, Kind kind, std::uint64_t bytes, Pointer& pointer) {
    return AllocateAt(static_cast<int>(context->device), context, kind, bytes, pointer);
  }
  /// The same on another card than the context's, or with Pool::kHost.
  Result AllocateAt(int card, const std::shared_ptr<Context>& context, Kind kind, std::uint64_t bytes,
                    Pointer& pointer);
  Result Free(const std::shared_ptr<Context>& context, Kind kind, Pointer pointer);
  /// Counts bytes of a card as used, here and in the emulator.
  Result TakeRoom(std::uint32_t card, std::uint64_t bytes);
  void GiveRoom(std::uint32_t card, std::uint64_t bytes);
  /// The card on which the address is, or Pool::kHost. False: it is not memory of a program's allocation.
  [[nodiscard]] bool Find(Pointer pointer, int& card);
  /// Whether these bytes lie in one allocation.
  [[nodiscard]] bool Holds(Pointer pointer, std::uint64_t bytes);

  // Memory of graphs (graph_memory.cc). Must be called without the lock.
  /// Memory for a node that is added to the graph. Requires the lock. Null: out of memory.
  std::shared_ptr<GraphBlock> AllocateNode(const Graph& graph, std::uint64_t bytes, std::uint32_t card);
  /// Maps what the graph needs for a launch in the stream. Must be followed by EndGraph, unless it fails.
  Result BeginGraph(const Executable& executable, const std::shared_ptr<Stream>& stream);
  void EndGraph(const Executable& executable, const std::shared_ptr<Stream>& stream, bool ran);
  /// Gives back the physical memory that no graph uses now.
  void TrimGraphs(std::uint32_t card);
  [[nodiscard]] std::uint64_t GraphBytes(std::uint32_t card) const;  // requires the lock

  // The lock protects these.
  std::vector<Card> cards;
  Registry<Context> contexts;
  Registry<Stream> streams;
  Registry<Event> events;
  Registry<Module> modules;
  Registry<Kernel> kernels;
  Registry<Graph> graphs;
  Registry<const Executable> executables;
  std::uint64_t graph_numbers = 0;
  std::unordered_map<std::uint64_t, std::weak_ptr<Graph>> numbered_graphs;
  Registry<GreenContext> greens;
  std::unordered_map<void*, std::unique_ptr<std::byte[]>> host_memory;
  Registry<Pool> pools;
  AddressSpace addresses;

 private:
  struct Block {
    Kind kind = Kind::kMemory;
    std::uint64_t bytes = 0;
    std::shared_ptr<Context> context;
    int card = 0;  // or Pool::kHost
  };
  struct Open {
    std::shared_ptr<Completion> completion;
    std::shared_ptr<Stream> stream;
  };

  Driver(std::unique_ptr<Client> client, std::vector<Card> found)
      : cards(std::move(found)), client_(std::move(client)) {
    for (const Card& card : cards)
      if (card.model.lost) lost_.insert(card.number);
  }
  static std::unique_ptr<Driver> Make(std::string& error);
  static void AfterForkInChild();
  void Modelled(const Timeline::Submission& command, Instant began, Instant ended, Client::Ending ending);
  void Gone();
  static void Complain(const char* what);
  /// Applies what the timeline has decided, and unlocks.
  void CarryOut(std::unique_lock<std::mutex> lock);
  void NoteEnds();
  // They unlock while they give room back.
  /// Memory of pools is not a context's.
  void FreeBlocksOf(std::unique_lock<std::mutex>& lock, const Context& context);
  void FreeGraphPieces(std::unique_lock<std::mutex>& lock, std::uint32_t card);

  const std::unique_ptr<Client> client_;
  std::mutex mutex_;
  std::condition_variable completed_;
  Timeline timeline_;
  std::unordered_map<CommandId, Open> open_;
  std::deque<Timeline::Submission> outbox_;
  bool sending_ = false;
  std::set<std::uint32_t> lost_;  // devices, by the emulator's number
  bool EndLeft(Pointer pointer);
  Result TakePieces(std::uint32_t card, std::uint64_t bytes, const std::shared_ptr<Stream>& stream,
                    std::list<GraphPiece>& taken);
  std::map<Pointer, Block> memory_;
  std::list<GraphPiece> graph_pieces_;
  // A block that has ended is forgotten when another begins in its place.
  std::map<Pointer, std::weak_ptr<GraphBlock>> graph_blocks_;
  std::size_t stream_count_ = 0;
  const bool strict_ = std::getenv("WEIR_EMULATED_CUDA_STRICT") != nullptr;
  std::vector<std::shared_ptr<Event>> ended_events_;  // if strict_
};

/// The stack of a thread's contexts; the last is current. Plain data, because threads use it until they have ended.
struct ContextStack {
  static constexpr std::size_t kMost = 64;
  Handle contexts[kMost];
  std::size_t depth;
};
ContextStack& ThreadContexts();
/// Of the thread, exchanged by cuThreadExchangeStreamCaptureMode.
int& ThreadCaptureMode();

/// Runs the body of a function that C calls.
template <typename Body>
Result Call(Body body) noexcept {
  Driver* driver = Driver::The();
  if (driver == nullptr) return kNotInitialized;
  try {
    return body(*driver);
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  } catch (...) {
    return kUnknown;
  }
}

/// The same for a function that works in the thread's context.
template <typename Body>
Result CallInContext(Body body) noexcept {
  return Call([&](Driver& driver) {
    std::shared_ptr<Context> context;
    {
      const auto lock = driver.Lock();
      if (const Result error = driver.Current(context); error != kSuccess) return error;
    }
    return body(driver, context);
  });
}

/// The same for a function that works in a stream.
template <typename Body>
Result CallInStream(Where where, Body body) noexcept {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>& context) {
    std::shared_ptr<Stream> stream;
    {
      const auto lock = driver.Lock();
      stream = driver.FindStream(context, where);
    }
    return stream == nullptr ? kInvalidHandle : body(driver, stream);
  });
}

}  // namespace weir::emulator::cuda

/// Before each function of the API.
#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))
