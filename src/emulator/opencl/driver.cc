// SPDX-License-Identifier: Apache-2.0
#include "emulator/opencl/driver.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "emulator/process_client.h"
#include "platform/clock.h"

namespace weir::emulator::cl {
namespace {

std::atomic<Driver*> the_driver{nullptr};
/// The table of a forked child process. It is made before the fork, because after it a child may call few functions.
cl_icd_dispatch calls_of_child{};

/// The error of PoCL's event if it has failed, otherwise CL_COMPLETE.
cl_int FailureOf(cl_event native) {
  cl_int status = CL_QUEUED;
  const cl_int asked =
      Pocl().clGetEventInfo(native, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  return asked == CL_SUCCESS && status < 0 ? status : CL_COMPLETE;
}

}  // namespace

Event* EventOf(cl_event handle) {
  auto* event = reinterpret_cast<Event*>(handle);
  return event != nullptr && event->dispatch == *reinterpret_cast<cl_icd_dispatch**>(Driver::The().platform()) &&
                 event->magic == Event::kMagic
             ? event
             : nullptr;
}

// -- Start -----------------------------------------------------------------------------------------------------------

Driver::Driver(std::unique_ptr<Client> client, Backend backend, std::vector<Device> devices)
    : client_(std::move(client)), backend_(std::move(backend)), devices_(std::move(devices)), cpu_(backend_.workers) {
  for (const Device& device : devices_)
    if (device.model.lost) lost_.insert(device.number);
}

Driver& Driver::The() { return *the_driver.load(std::memory_order_acquire); }

std::unique_ptr<Driver> Driver::Make(std::string& error) {
  auto process = ConnectThisProcess();
  if (!process) {
    error = process.error().message;
    return nullptr;
  }
  std::vector<Device> devices;
  for (const std::uint32_t number : process->devices)
    devices.push_back({.native = nullptr, .number = number, .model = process->client->devices()[number]});
  auto backend = LoadBackend(devices.size());
  if (!backend) {
    error = backend.error().message;
    return nullptr;
  }
  for (std::size_t i = 0; i < devices.size(); ++i) devices[i].native = backend->devices[i];
  std::unique_ptr<Driver> driver(new Driver(std::move(process->client), std::move(*backend), std::move(devices)));
  process->gone->Watch([gone = driver.get()] { gone->Gone(); });
  return driver;
}

void Driver::AfterForkInChild() {
  The().in_child_ = true;
  *The().backend_.table = calls_of_child;
  The().client_->CloseInChild();
}

/// Whether PoCL computes a command that was added before `end`; 0: before this call, which sets it. Also true if
/// another thread holds the lock: whether PoCL computes is not known then.
bool Driver::Computing(CommandId& end) {
  // A signal handler that exits may have interrupted a call that holds the lock.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return true;
  if (end == 0) end = timeline_.Next();
  return timeline_.Computing(end);
}

/// Waits until PoCL has computed what it was given. LLVM's static objects, some of which it makes when it first
/// compiles a kernel, end when the program exits: a thread of PoCL that compiled a kernel meanwhile would crash the
/// program.
void Driver::AwaitComputing() {
  if (in_child_) return;
  CommandId end = 0;  // other threads may still add commands
  const Instant begin = platform::Now(), until = begin + Duration{exit_patience_ns_.load()};
  while (Computing(end) && platform::Now() < until) std::this_thread::sleep_for(milliseconds(5));
  exit_patience_ns_ -= (platform::Now() - begin).count();
}

/// Objects of a thread end before static ones do, whenever these were made: those of a thread that exits, and those of
/// a thread that ends by itself. The main thread exits when it ends. Another thread must not wait when it only ends,
/// and which of the two it does can't be seen. If PoCL may compute, it adds a handler that waits: an exit calls
/// handlers in the reverse order of their registration, and has called none when the thread's objects end. If the
/// thread only ends, the handler stays, and a later exit from any thread waits for what PoCL computes then.
void Driver::AwaitComputingAtExit() {
  struct AtThreadEnd {
    ~AtThreadEnd() {
      CommandId end = 0;
      if (::gettid() == ::getpid())
        The().AwaitComputing();
      else if (The().Computing(end))
        static_cast<void>(std::atexit([] { The().AwaitComputing(); }));
    }
  };
  thread_local const AtThreadEnd kAtThreadEnd;
}

bool Driver::Start() {
  static const bool kStarted = [] {
    std::string error = "out of memory";
    try {
      if (Driver* driver = Make(error).release()) {  // never deleted: the client's thread may use it
        the_driver.store(driver, std::memory_order_release);
        const Status replaced = Replace(*driver->backend_.table);
        calls_of_child = *driver->backend_.table;
        FailAllCalls(calls_of_child);
        if (replaced && ::pthread_atfork(nullptr, nullptr, AfterForkInChild) == 0) return true;
        error = replaced ? "out of memory" : replaced.error().message;
      }
    } catch (...) {
    }
    std::fprintf(stderr, "weir: no emulated GPU: %s\n", error.c_str());
    return false;
  }();
  return kStarted;
}

const Driver::Device* Driver::Find(cl_device_id device) const {
  const auto found = std::ranges::find(devices_, device, &Device::native);
  return found == devices_.end() ? nullptr : &*found;
}

// -- Queues ----------------------------------------------------------------------------------------------------------

void Driver::AddQueue(cl_command_queue native, const Device& device, cl_command_queue_properties properties) {
  auto queue = std::make_shared<Queue>();
  queue->native = native;
  queue->device = device.number;
  queue->in_order = (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0;
  queue->profiling = (properties & CL_QUEUE_PROFILING_ENABLE) != 0;
  const std::lock_guard lock(mutex_);
  queue->id = timeline_.AddQueue(device.number, queue->in_order, device.model.queue_depth);
  queues_[native] = std::move(queue);
}

std::shared_ptr<Queue> Driver::FindQueue(cl_command_queue native) {
  const std::lock_guard lock(mutex_);
  const auto found = queues_.find(native);
  return found == queues_.end() ? nullptr : found->second;
}

void Driver::RemoveQueue(const Queue& queue) {
  const std::lock_guard lock(mutex_);
  timeline_.RemoveQueue(queue.id);
  queues_.erase(queue.native);
}

// -- Commands --------------------------------------------------------------------------------------------------------

cl_int Driver::TakeWaitList(cl_uint count, const cl_event* events, WaitList& out) {
  if ((count == 0) != (events == nullptr)) return CL_INVALID_EVENT_WAIT_LIST;
  for (cl_uint i = 0; i < count; ++i) {
    const Event* event = EventOf(events[i]);
    if (event == nullptr) return CL_INVALID_EVENT_WAIT_LIST;
    out.events.push_back(event);
    out.natives.push_back(event->native);
    out.ids.push_back(event->id);
  }
  const std::lock_guard lock(mutex_);
  for (const Event* event : out.events)
    if (event->complete && event->status < 0) return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  return CL_SUCCESS;
}

/// Makes the event of a command that PoCL has accepted, and adds the command to the timeline. The command can no longer
/// be refused.
cl_int Driver::Given(const std::shared_ptr<Queue>& queue, CommandKind kind, const WaitList& waits, cl_event native,
                     cl_event* out, std::unique_lock<std::mutex> order, std::shared_lock<std::shared_mutex> no_failure,
                     bool wait) {
  AwaitComputingAtExit();
  auto* event = new Event;
  event->dispatch = backend_.table;
  event->refs = 2;  // one of the driver until the command is complete, and one of the caller
  event->native = native;
  event->queue = queue;
  event->type = kind.type;
  event->when_complete = std::move(kind.when_complete);
  std::unique_lock lock(mutex_);
  auto before = Timeline::Before::kGood;
  for (const Event* one : waits.events)
    if (one->complete && one->status < 0)
      before = std::max(before, one->lost ? Timeline::Before::kLost : Timeline::Before::kFailed);
  const CommandId id = timeline_.Add(platform::Now(), queue->id, kind.order, kind.work, waits.ids, before);
  event->id = id;
  events_.emplace(id, event);
  order.unlock();
  if (no_failure.owns_lock()) no_failure.unlock();
  CarryOut(std::move(lock));
  static_assert(sizeof(void*) >= sizeof(CommandId));
  if (Pocl().clSetEventCallback(native, CL_COMPLETE, OnComputed, reinterpret_cast<void*>(id)) != CL_SUCCESS)
    Computed(id, native, CL_OUT_OF_RESOURCES);
  int status = CL_COMPLETE;
  if (wait) {
    Pocl().clFlush(queue->native);
    status = Wait(*event);
  }
  if (out != nullptr)
    *out = HandleOf(event);
  else
    Release(*event);
  return status < 0 ? status : CL_SUCCESS;
}

void CL_CALLBACK Driver::OnComputed(cl_event native, cl_int status, void* id) {
  try {
    The().Computed(reinterpret_cast<CommandId>(id), native, status);
  } catch (...) {
    Complain("out of memory; a command of OpenCL does not end");
  }
}

void Driver::Computed(CommandId id, cl_event native, cl_int status) {
  // PoCL 3.1 calls back with CL_COMPLETE for an event that had failed before the callback was set.
  if (status >= 0) status = FailureOf(native);
  const Duration cpu = cpu_.Take();
  std::unique_lock lock(mutex_);
  timeline_.Computed(platform::Now(), id, status, cpu);
  CarryOut(std::move(lock));
  if (status < 0) LookForFailures();
}

void Driver::LookForFailures() {
  std::vector<Event*> open;
  {
    const std::lock_guard lock(mutex_);
    for (const CommandId id : timeline_.Open())
      if (const auto found = events_.find(id); found != events_.end()) {
        Retain(*found->second);
        open.push_back(found->second);
      }
  }
  for (Event* event : open) {
    if (const cl_int status = FailureOf(event->native); status < 0) {
      std::unique_lock lock(mutex_);
      timeline_.Computed(platform::Now(), event->id, status, Duration{});
      CarryOut(std::move(lock));
    }
    Release(*event);
  }
}

void Driver::Modelled(const Timeline::Submission& command, Instant began, Instant ended, Client::Ending ending) {
  std::unique_lock lock(mutex_);
  switch (ending) {
    case Client::Ending::kGone:  // the command counts as done; its times are unknown
    case Client::Ending::kDone: timeline_.Modelled(platform::Now(), command.command, began, ended); break;
    case Client::Ending::kLost: lost_.insert(command.device); [[fallthrough]];
    case Client::Ending::kFull: timeline_.Failed(platform::Now(), command.command); break;
  }
  CarryOut(std::move(lock));
  if (ending == Client::Ending::kLost) Complain("the emulated GPU is lost; its commands fail from now on");
}

bool Driver::Lost(std::uint32_t device) {
  const std::lock_guard lock(mutex_);
  return lost_.contains(device);
}

void Driver::Gone() {
  std::unique_lock lock(mutex_);
  timeline_.Abandon(platform::Now());
  CarryOut(std::move(lock));
  Complain("the emulated GPU is gone; OpenCL runs without its timing");
}

void Driver::Complain(const char* what) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) std::fprintf(stderr, "weir: %s\n", what);
}

void Driver::NoteEnds(std::vector<Event*>& ended) {
  const std::size_t before = ended.size();
  for (const Timeline::End& end : timeline_.TakeEnds()) {
    const auto found = events_.find(end.command);
    if (found == events_.end()) continue;
    Event* event = found->second;
    events_.erase(found);
    event->complete = true;
    event->status = end.status;
    event->lost = end.lost;
    event->times = end.times;
    for (const Event::Callback& callback : std::exchange(event->callbacks, {}))
      Tell(*event, end.status < 0 ? end.status : callback.at, callback);
    ended.push_back(event);
  }
  if (ended.size() > before) completed_.notify_all();
}

/// Calls the program's callbacks for CL_SUBMITTED.
void Driver::NoteSubmission(CommandId id) {
  const auto found = events_.find(id);
  if (found == events_.end()) return;
  Event& event = *found->second;
  std::erase_if(event.callbacks, [&](const Event::Callback& callback) {
    if (callback.at != CL_SUBMITTED) return false;
    Tell(event, CL_SUBMITTED, callback);
    return true;
  });
}

void Driver::CarryOut(std::unique_lock<std::mutex> lock) {
  std::vector<Event*> ended;
  for (;;) {
    NoteEnds(ended);
    for (const Timeline::Submission& one : timeline_.TakeSubmissions()) outbox_.push_back(one);
    // One thread at a time sends, and also sends the submissions of other threads, so that all keep their order.
    if (sending_ || outbox_.empty()) break;
    sending_ = true;
    const Timeline::Submission one = outbox_.front();
    outbox_.pop_front();
    NoteSubmission(one.command);
    lock.unlock();
    const bool sent = client_->Submit(
        {.device = one.device,
         .queue = one.lane,
         .engine = static_cast<std::uint8_t>(one.engine),
         .units = one.units,
         .work_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(one.work.count(), 0)),
         .bytes = one.bytes.count},
        [this, one](Instant began, Instant end, Client::Ending ending) { Modelled(one, began, end, ending); });
    lock.lock();
    sending_ = false;
    if (!sent) timeline_.Modelled(platform::Now(), one.command, {}, {});
  }
  lock.unlock();
  for (Event* event : ended) {
    if (event->when_complete) event->when_complete();
    Release(*event);
  }
}

// -- Events ----------------------------------------------------------------------------------------------------------

cl_event Driver::AddUserEvent(cl_event native) {
  auto* event = new Event;
  event->dispatch = backend_.table;
  event->refs = 2;
  event->native = native;
  event->type = CL_COMMAND_USER;
  const std::lock_guard lock(mutex_);
  event->id = timeline_.AddUserEvent(platform::Now());
  events_.emplace(event->id, event);
  return HandleOf(event);
}

cl_int Driver::SetUserEvent(Event& event, cl_int status) {
  if (event.queue != nullptr) return CL_INVALID_EVENT;
  if (status > CL_COMPLETE) return CL_INVALID_VALUE;
  std::unique_lock failing(failing_, std::defer_lock);
  if (status < 0) failing.lock();
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(event.status_set, true)) return CL_INVALID_OPERATION;
  }
  const cl_int error = Pocl().clSetUserEventStatus(event.native, status);
  std::unique_lock lock(mutex_);
  timeline_.SetUserEvent(platform::Now(), event.id, status);
  if (failing.owns_lock()) failing.unlock();
  CarryOut(std::move(lock));
  if (status < 0) LookForFailures();
  return error;
}

int Driver::Wait(const Event& event) {
  std::unique_lock lock(mutex_);
  completed_.wait(lock, [&] { return event.complete; });
  return event.status;
}

cl_int Driver::Finish(const Queue& queue) {
  std::unique_lock lock(mutex_);
  const CommandId until = timeline_.Last(queue.id);
  completed_.wait(lock, [&] { return timeline_.Done(queue.id, until); });
  return lost_.contains(queue.device) ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

cl_int Driver::StatusOf(const Event& event) {
  const std::lock_guard lock(mutex_);
  if (event.complete) return event.status;
  switch (timeline_.PhaseOf(event.id)) {
    case Timeline::Phase::kQueued: return CL_QUEUED;
    case Timeline::Phase::kSubmitted: return CL_SUBMITTED;
    case Timeline::Phase::kRunning:
    case Timeline::Phase::kComplete: return CL_RUNNING;  // the driver is still handling the end
  }
  return CL_QUEUED;
}

std::optional<Times> Driver::TimesOf(const Event& event) {
  const std::lock_guard lock(mutex_);
  if (!event.complete) return std::nullopt;
  return event.times;
}

void Driver::AddCallback(Event& event, const Event::Callback& callback) {
  const std::lock_guard lock(mutex_);
  const auto phase = timeline_.PhaseOf(event.id);
  if (event.complete)
    Tell(event, event.status < 0 ? event.status : callback.at, callback);
  else if ((callback.at == CL_SUBMITTED && phase != Timeline::Phase::kQueued) ||
           (callback.at == CL_RUNNING && phase == Timeline::Phase::kRunning))
    Tell(event, callback.at, callback);
  else
    event.callbacks.push_back(callback);
}

void Driver::Release(Event& event) {
  if (event.refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Pocl().clReleaseEvent(event.native);
  event.magic = 0;
  delete &event;
}

// -- Callbacks -------------------------------------------------------------------------------------------------------

/// Queues a callback for the thread of callbacks, which calls it without a lock. Requires the lock.
void Driver::Tell(Event& event, cl_int status, const Event::Callback& callback) {
  Retain(event);
  const std::lock_guard lock(told_mutex_);
  told_.push_back({&event, status, callback});
  told_changed_.notify_one();
  if (std::exchange(told_thread_, true)) return;
  // The thread of callbacks blocks all signals, so that only threads of the program handle the program's signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this] { CallBack(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Driver::CallBack() {
  ::pthread_setname_np(::pthread_self(), "weir-cl-events");
  std::unique_lock lock(told_mutex_);
  for (;;) {
    told_changed_.wait(lock, [this] { return !told_.empty(); });
    const Told told = told_.front();
    told_.pop_front();
    lock.unlock();
    told.callback.call(HandleOf(told.event), told.status, told.callback.data);
    Release(*told.event);
    lock.lock();
  }
}

// -- Memory ----------------------------------------------------------------------------------------------------------

cl_int Driver::TakeMemory(const Device& device, std::uint64_t bytes) {
  switch (client_->Allocate(device.number, Bytes{bytes})) {
    case Client::Room::kTaken:
    case Client::Room::kGone: return CL_SUCCESS;
    case Client::Room::kNone: return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    case Client::Room::kLost: break;
  }
  const std::lock_guard lock(mutex_);
  lost_.insert(device.number);
  return CL_OUT_OF_RESOURCES;
}

void Driver::GiveMemory(std::uint32_t device, std::uint64_t bytes) { client_->Free(device, Bytes{bytes}); }

}  // namespace weir::emulator::cl
