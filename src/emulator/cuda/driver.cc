// SPDX-License-Identifier: Apache-2.0
#include "emulator/cuda/driver.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "emulator/process_client.h"
#include "platform/clock.h"

namespace weir::emulator::cuda {
namespace {

std::atomic<Driver*> the_driver{nullptr};
std::atomic<Driver*> of_parent{nullptr};

/// CPU time of the calling thread.
Duration ThreadCpu() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return seconds(t.tv_sec) + Duration{t.tv_nsec};
}

void AddPending(const Moment& from, Moment& to) {
  for (const auto& one : from)
    if (!one->complete) to.push_back(one);
}

}  // namespace

ContextStack& ThreadContexts() {
  static thread_local ContextStack stack{};
  return stack;
}

int& ThreadCaptureMode() {
  static thread_local int mode = kGlobal;
  return mode;
}

// -- Start -----------------------------------------------------------------------------------------------------------

Driver* Driver::The() { return the_driver.load(std::memory_order_acquire); }

std::unique_ptr<Driver> Driver::Make(std::string& error) {
  auto process = ConnectThisProcess();
  if (!process) {
    error = process.error().message;
    return nullptr;
  }
  std::vector<Card> found;
  for (const std::uint32_t number : process->devices)
    found.push_back({.number = number, .model = process->client->devices()[number]});
  std::unique_ptr<Driver> driver(new Driver(std::move(process->client), std::move(found)));
  process->gone->Watch([gone = driver.get()] { gone->Gone(); });
  return driver;
}

/// A child that was forked without exec has no driver: its calls fail as those before cuInit, which fails too.
void Driver::AfterForkInChild() {
  Driver* driver = the_driver.exchange(nullptr, std::memory_order_acq_rel);
  if (driver == nullptr) return;
  of_parent.store(driver, std::memory_order_release);
  driver->client_->CloseInChild();
}

Result Driver::Start() {
  if (of_parent.load(std::memory_order_acquire) != nullptr) return kNotInitialized;
  static const bool kStarted = [] {
    std::string error = "out of memory";
    try {
      if (Driver* driver = Make(error).release()) {  // never deleted: the client's thread may use it
        if (::pthread_atfork(nullptr, nullptr, AfterForkInChild) == 0) {
          the_driver.store(driver, std::memory_order_release);
          return true;
        }
        error = "out of memory";
      }
    } catch (...) {
    }
    std::fprintf(stderr, "weir: no emulated GPU: %s\n", error.c_str());
    return false;
  }();
  return kStarted ? kSuccess : kNoDevice;
}

// -- Contexts --------------------------------------------------------------------------------------------------------

Result Driver::Current(std::shared_ptr<Context>& context) const {
  const ContextStack& stack = ThreadContexts();
  if (stack.depth == 0) return kInvalidContext;
  context = contexts.Find(stack.contexts[stack.depth - 1]);
  if (context == nullptr) return kContextDestroyed;
  return Lost(*context) ? kUnknown : kSuccess;
}

Result Driver::MakeContext(std::uint32_t card, std::shared_ptr<Context>& context) {
  context = std::make_shared<Context>();
  context->device = card;
  if (Lost(*context)) return kUnknown;
  context->legacy = AddStream(context, true);
  if (context->legacy == nullptr) return kOutOfMemory;
  if (contexts.Add(context) != nullptr) return kSuccess;
  RemoveStream(context->legacy);
  return kOutOfMemory;
}

Result Driver::RetainPrimary(std::uint32_t number, std::shared_ptr<Context>& context) {
  Card& card = cards[number];
  if (card.primary == nullptr) {
    std::shared_ptr<Context> made;
    if (const Result error = MakeContext(number, made); error != kSuccess) return error;
    made->primary = true;
    card.primary = std::move(made);
  }
  if (Lost(*card.primary)) return kUnknown;
  ++card.retained;
  context = card.primary;
  return kSuccess;
}

Result Driver::ReleasePrimary(std::unique_lock<std::mutex>& lock, std::uint32_t number) {
  Card& card = cards[number];
  if (card.retained == 0) return kInvalidContext;
  if (--card.retained == 0) DestroyContext(lock, std::exchange(card.primary, nullptr));
  return kSuccess;
}

void Driver::DestroyContext(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Context>& context) {
  if (contexts.Remove(context.get()) == nullptr) return;  // another thread destroys it
  (void)Wait(lock, *context, AllOf(*context));
  while (!context->streams.empty()) RemoveStream(*context->streams.begin());
  context->of_threads.clear();
  context->legacy.reset();
  kernels.RemoveIf([&](const Kernel& one) { return one.module->context == context; });
  modules.RemoveIf([&](const Module& one) { return one.context == context; });
  events.RemoveIf([&](const Event& one) { return one.context == context; },
                  [&](std::shared_ptr<Event> one) {
                    if (strict_) ended_events_.push_back(std::move(one));
                  });
  FreeBlocksOf(lock, *context);
}

Result Driver::ResetContext(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Context>& context) {
  DestroyContext(lock, context);
  FreeGraphPieces(lock, context->device);
  context->legacy = AddStream(context, true);
  return context->legacy == nullptr || contexts.Add(context) == nullptr ? kOutOfMemory : kSuccess;
}

void Driver::FreeBlocksOf(std::unique_lock<std::mutex>& lock, const Context& context) {
  std::vector<std::pair<Pointer, std::uint64_t>> left;
  std::erase_if(memory_, [&](const auto& one) {
    const Block& block = one.second;
    const bool ends = block.kind != Kind::kPooled && block.context.get() == &context;
    if (ends) left.emplace_back(one.first, block.bytes);
    return ends;
  });
  lock.unlock();
  for (const auto& [pointer, bytes] : left) {
    std::free(reinterpret_cast<void*>(static_cast<std::uintptr_t>(pointer)));
    GiveRoom(context.device, bytes);
  }
  lock.lock();
}

void Driver::FreeGraphPieces(std::unique_lock<std::mutex>& lock, std::uint32_t card) {
  std::uint64_t bytes = 0;
  std::erase_if(graph_pieces_, [&](const GraphPiece& piece) {
    if (piece.card != card) return false;
    bytes += piece.bytes;
    return true;
  });
  lock.unlock();
  if (bytes > 0) GiveRoom(card, bytes);
  lock.lock();
}

std::shared_ptr<Event> Driver::FindEvent(Handle handle) const {
  const auto is_it = [handle](const auto& one) { return one.get() == handle; };
  if (strict_ && std::ranges::any_of(ended_events_, is_it)) {
    std::fprintf(stderr, "weir: a call with an event of a context that has ended\n");
    std::abort();
  }
  return events.Find(handle);
}

// -- Streams ---------------------------------------------------------------------------------------------------------

std::shared_ptr<Stream> Driver::AddStream(const std::shared_ptr<Context>& context, bool blocking) {
  if (stream_count_ >= kStreamsMost) return nullptr;
  auto stream = std::make_shared<Stream>();
  stream->context = context;
  stream->blocking = blocking;
  context->streams.insert(stream);
  const Card& card = cards[context->device];
  stream->queue = timeline_.AddQueue(card.number, true, card.model.queue_depth);
  ++stream_count_;
  return stream;
}

void Driver::RemoveStream(const std::shared_ptr<Stream>& stream) {
  // The argument may refer to one of the pointers that are removed here.
  const std::shared_ptr<Stream> kept = stream;  // NOLINT(performance-unnecessary-copy-initialization)
  Context& context = *kept->context;
  Moment orphans;
  AddPending(context.orphans, orphans);
  AddPending(kept->last, orphans);
  context.orphans = std::move(orphans);
  context.streams.erase(kept);
  streams.Remove(kept.get());
  timeline_.RemoveQueue(kept->queue);
  --stream_count_;
}

std::shared_ptr<Stream> Driver::FindStream(const std::shared_ptr<Context>& context, Where where) {
  constexpr std::uintptr_t kLegacy = 1, kPerThread = 2;
  const auto number = reinterpret_cast<std::uintptr_t>(where.stream);
  if (number == kLegacy || (number == 0 && !where.per_thread)) return context->legacy;
  if (number == kPerThread || number == 0) {
    std::shared_ptr<Stream>& stream = context->of_threads[std::this_thread::get_id()];
    if (stream == nullptr) stream = AddStream(context, true);
    return stream;
  }
  return streams.Find(where.stream);
}

Moment Driver::Front(const Stream& stream) {
  Moment front;
  AddPending(stream.last, front);
  const Context& context = *stream.context;
  if (&stream == context.legacy.get()) {
    AddPending(context.orphans, front);
    for (const auto& other : context.streams)
      if (other.get() != &stream && other->blocking) AddPending(other->last, front);
  } else if (stream.blocking && context.legacy != nullptr) {
    AddPending(context.legacy->last, front);
  }
  return front;
}

Moment Driver::AllOf(const Context& context) {
  Moment all;
  AddPending(context.orphans, all);
  for (const auto& stream : context.streams) AddPending(stream->last, all);
  return all;
}

bool Driver::Complete(const Moment& moment) {
  return std::ranges::all_of(moment, [](const auto& one) { return one->complete; });
}

Result Driver::Wait(std::unique_lock<std::mutex>& lock, const Context& context, const Moment& moment) {
  completed_.wait(lock, [&] { return Complete(moment); });
  return Lost(context) ? kUnknown : kSuccess;
}

// -- Commands --------------------------------------------------------------------------------------------------------

Result Driver::Do(const std::shared_ptr<Stream>& stream, const Operation& operation, bool wait) {
  Context& context = *stream->context;
  {
    auto lock = Lock();
    if (Lost(context)) return kUnknown;
    if (LegacyIsUnknown(*stream)) {
      Invalidate(context);
      return kCaptureImplicit;
    }
    if (stream->capture) {
      if (wait) return RefuseIfCapturing(*stream);
      Graph& graph = *stream->capture->graph;
      if (stream->capture->invalid) return kCaptureInvalidated;
      if (graph.operations.size() >= Graph::kOperationsMax) return kOutOfMemory;
      graph.operations.push_back(operation);
      return kSuccess;
    }
    completed_.wait(lock, [&] { return stream->open < kOpenMost; });
  }
  const auto completion = std::make_shared<Completion>();
  std::unique_lock computing(context.computing);
  const Duration before = ThreadCpu();
  if (operation.compute) operation.compute();
  const Duration cpu = ThreadCpu() - before;
  auto lock = Lock();
  if (Lost(context)) return kUnknown;
  if (!context.streams.contains(stream)) return kInvalidHandle;  // another thread has destroyed it
  std::vector<CommandId> waits;
  for (const auto& one : Front(*stream)) waits.push_back(one->command);
  const Instant now = platform::Now();
  const CommandId id = timeline_.Add(now, stream->queue, Timeline::Order::kCommand, operation.work, waits);
  completion->command = id;
  open_.emplace(id, Open{completion, stream});
  ++stream->open;
  stream->last = {completion};
  timeline_.Computed(now, id, 0, cpu);
  computing.unlock();
  CarryOut(std::move(lock));
  if (!wait) return kSuccess;
  lock = Lock();
  return Wait(lock, context, {completion});
}

void Driver::Modelled(const Timeline::Submission& command, Instant began, Instant ended, Client::Ending ending) {
  const bool failed = ending == Client::Ending::kLost || ending == Client::Ending::kFull;
  // Said before the program's threads go on, because they may end it.
  if (failed) Complain("the emulated GPU is lost; its commands fail from now on");
  std::unique_lock lock(mutex_);
  if (failed) {
    lost_.insert(command.device);
    timeline_.Failed(platform::Now(), command.command);
  } else {
    // With kGone the times are unknown, and the command counts as done.
    timeline_.Modelled(platform::Now(), command.command, began, ended);
  }
  CarryOut(std::move(lock));
}

void Driver::Gone() {
  Complain("the emulated GPU is gone; CUDA runs without its timing");
  std::unique_lock lock(mutex_);
  timeline_.Abandon(platform::Now());
  CarryOut(std::move(lock));
}

void Driver::Complain(const char* what) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) std::fprintf(stderr, "weir: %s\n", what);
}

void Driver::NoteEnds() {
  bool any = false;
  for (const Timeline::End& end : timeline_.TakeEnds()) {
    const auto found = open_.find(end.command);
    if (found == open_.end()) continue;
    Completion& completion = *found->second.completion;
    completion.complete = true;
    completion.failed = end.status < 0;
    completion.ended = end.times.ended;
    --found->second.stream->open;
    open_.erase(found);
    any = true;
  }
  if (any) completed_.notify_all();
}

void Driver::CarryOut(std::unique_lock<std::mutex> lock) {
  for (;;) {
    NoteEnds();
    for (const Timeline::Submission& one : timeline_.TakeSubmissions()) outbox_.push_back(one);
    // One thread at a time sends, and also sends the submissions of other threads, so that all keep their order.
    if (sending_ || outbox_.empty()) break;
    sending_ = true;
    const Timeline::Submission one = outbox_.front();
    outbox_.pop_front();
    lock.unlock();
    const bool sent = client_->Submit(
        {.device = one.device,
         .queue = one.lane,
         .engine = static_cast<std::uint8_t>(one.engine),
         .units = one.units,
         .work_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(one.work.count(), 0)),
         .bytes = one.bytes.count},
        [this, one](Instant began, Instant ended, Client::Ending ending) { Modelled(one, began, ended, ending); });
    lock.lock();
    sending_ = false;
    if (!sent) timeline_.Modelled(platform::Now(), one.command, {}, {});
  }
}

// -- Memory ----------------------------------------------------------------------------------------------------------

Result Driver::TakeRoom(std::uint32_t number, std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  Card& card = cards[number];
  if (bytes > card.model.memory.count || card.used > card.model.memory.count - bytes) return kOutOfMemory;
  card.used += bytes;
  lock.unlock();
  const Client::Room room = client_->Allocate(card.number, Bytes{bytes});
  if (room == Client::Room::kTaken || room == Client::Room::kGone) return kSuccess;
  lock.lock();
  card.used -= bytes;
  if (room != Client::Room::kLost) return kOutOfMemory;
  lost_.insert(card.number);
  lock.unlock();
  Complain("the emulated GPU is lost; its commands fail from now on");
  return kUnknown;
}

void Driver::GiveRoom(std::uint32_t number, std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    cards[number].used -= bytes;
  }
  client_->Free(cards[number].number, Bytes{bytes});
}

Result Driver::AllocateAt(int card, const std::shared_ptr<Context>& context, Kind kind, std::uint64_t bytes,
                          Pointer& pointer) {
  constexpr std::size_t kAlignment = 256;
  const bool on_card = card != Pool::kHost;
  const auto number = static_cast<std::uint32_t>(card);
  if (const Result error = on_card ? TakeRoom(number, bytes) : kSuccess; error != kSuccess) return error;
  void* memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  {
    const std::lock_guard lock(mutex_);
    if (memory != nullptr && memory_.size() < Registry<Event>::kMost) {
      pointer = static_cast<Pointer>(reinterpret_cast<std::uintptr_t>(memory));
      memory_[pointer] = {.kind = kind, .bytes = bytes, .context = OwnerOf(context), .card = card};
      return kSuccess;
    }
  }
  std::free(memory);
  if (on_card) GiveRoom(number, bytes);
  return kOutOfMemory;
}

Result Driver::Free(const std::shared_ptr<Context>& context, Kind kind, Pointer pointer) {
  std::unique_lock lock(mutex_);
  const auto is_of_kind = [&] {
    const auto found = memory_.find(pointer);
    return found != memory_.end() && (found->second.kind == Kind::kArray) == (kind == Kind::kArray);
  };
  if (kind != Kind::kArray && EndLeft(pointer)) return kSuccess;
  if (!is_of_kind()) return kInvalidValue;
  const Result result = kind == Kind::kPooled ? kSuccess : Wait(lock, *context, AllOf(*context));
  if (!is_of_kind()) return kInvalidValue;  // another thread has freed it
  const auto block = memory_.extract(pointer);
  lock.unlock();
  std::free(reinterpret_cast<void*>(static_cast<std::uintptr_t>(pointer)));
  if (block.mapped().card != Pool::kHost)
    GiveRoom(static_cast<std::uint32_t>(block.mapped().card), block.mapped().bytes);
  return result;
}

bool Driver::Find(Pointer pointer, int& card) {
  const std::lock_guard lock(mutex_);
  const auto after = memory_.upper_bound(pointer);
  if (after == memory_.begin()) return false;
  const auto& [first, block] = *std::prev(after);
  card = block.card;
  return block.kind != Kind::kArray && pointer - first < block.bytes;
}

bool Driver::Holds(Pointer pointer, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (addresses.MayUse(pointer, bytes)) return true;
  if (const auto next = graph_blocks_.upper_bound(pointer); next != graph_blocks_.begin()) {
    const std::shared_ptr<GraphBlock> block = std::prev(next)->second.lock();
    if (block != nullptr && pointer - block->pointer() <= block->room &&
        bytes <= block->room - (pointer - block->pointer()))
      return true;
  }
  const auto after = memory_.upper_bound(pointer);
  if (after == memory_.begin()) return false;
  const auto& [first, block] = *std::prev(after);
  return block.kind != Kind::kArray && pointer - first <= block.bytes && bytes <= block.bytes - (pointer - first);
}

}  // namespace weir::emulator::cuda
