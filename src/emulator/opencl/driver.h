// SPDX-License-Identifier: Apache-2.0
// The driver of a process: its connection to the emulator, the timeline, and the code that applies the timeline's
// decisions.
//
//   program's threads ─┐                                      ┌─▶ the emulator, sent by one thread at a time
//   PoCL's threads ────┼─▶ timeline (one lock) ─▶ submissions ┘
//   client's thread ───┘            └─▶ ends ─▶ threads that wait; callbacks, on a thread of their own
//
// Nothing is submitted, no callback is called and no function of PoCL is called with the lock held.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/client.h"
#include "emulator/opencl/backend.h"
#include "emulator/opencl/costs.h"
#include "emulator/opencl/objects.h"
#include "emulator/opencl/timeline.h"
#include "emulator/opencl/worker_cpu.h"

namespace weir::emulator::cl {

/// The events of a wait list.
struct WaitList {
  std::vector<const Event*> events;
  std::vector<cl_event> natives;
  std::vector<CommandId> ids;
};

/// What the timeline and the event need to know of a command.
struct CommandKind {
  cl_command_type type = 0;
  Work work{};
  Timeline::Order order = Timeline::Order::kCommand;
  std::function<void()> when_complete{};
};

class Driver {
 public:
  /// A device, as programs see it.
  struct Device {
    cl_device_id native = nullptr;
    std::uint32_t number = 0;  // the emulator's number of the device
    ClientDevice model;
  };

  /// The driver, after Start. Never destroyed, because threads of the program may use it while the program exits.
  static Driver& The();
  /// At the first call, connects to the emulator and loads PoCL. False: there is no device; a line on stderr says why.
  static bool Start();

  [[nodiscard]] cl_platform_id platform() const { return backend_.platform; }
  [[nodiscard]] const std::vector<Device>& devices() const { return devices_; }
  /// Null: the device is not one of this driver.
  [[nodiscard]] const Device* Find(cl_device_id device) const;
  [[nodiscard]] KernelWork CostOf(std::string_view name, std::uint64_t items) const {
    return WorkOf(client_->kernels(), client_->kernel_factor(), name, items);
  }

  // Queues.
  void AddQueue(cl_command_queue native, const Device& device, cl_command_queue_properties properties);
  [[nodiscard]] std::shared_ptr<Queue> FindQueue(cl_command_queue native);
  void RemoveQueue(const Queue& queue);

  // Commands.
  cl_int TakeWaitList(cl_uint count, const cl_event* events, WaitList& out);
  /// `give` enqueues the command at PoCL; its arguments are the size of the wait list, the wait list and the event, and
  /// it returns a status. With `wait` the call returns when the command is complete.
  template <typename Give>
  cl_int Enqueue(cl_command_queue native, CommandKind kind, cl_uint count, const cl_event* events, cl_event* out,
                 Give give, bool wait = false);

  // Events.
  cl_event AddUserEvent(cl_event native);
  cl_int SetUserEvent(Event& event, cl_int status);
  int Wait(const Event& event);
  cl_int Finish(const Queue& queue);
  cl_int StatusOf(const Event& event);
  std::optional<Times> TimesOf(const Event& event);
  void AddCallback(Event& event, const Event::Callback& callback);
  static void Retain(Event& event) { event.refs.fetch_add(1, std::memory_order_relaxed); }
  static void Release(Event& event);

  /// Whether a device is lost, or was reset while this process used it. It stays lost until the process ends.
  [[nodiscard]] bool Lost(std::uint32_t device);

  // Memory of a device. CL_MEM_OBJECT_ALLOCATION_FAILURE: there is no room; CL_OUT_OF_RESOURCES: the device is lost.
  // When the emulator is gone, there is always room.
  cl_int TakeMemory(const Device& device, std::uint64_t bytes);
  void GiveMemory(std::uint32_t device, std::uint64_t bytes);

 private:
  /// How long a program's exit waits for kernels that PoCL computes, in all.
  static constexpr Duration kExitPatience = seconds(10);

  Driver(std::unique_ptr<Client> client, Backend backend, std::vector<Device> devices);
  static std::unique_ptr<Driver> Make(std::string& error);
  static void AfterForkInChild();
  bool Computing(CommandId& end);
  void AwaitComputing();
  static void AwaitComputingAtExit();
  static void CL_CALLBACK OnComputed(cl_event native, cl_int status, void* id);

  cl_int Given(const std::shared_ptr<Queue>& queue, CommandKind kind, const WaitList& waits, cl_event native,
               cl_event* out, std::unique_lock<std::mutex> order, std::shared_lock<std::shared_mutex> no_failure,
               bool wait);
  void Computed(CommandId id, cl_event native, cl_int status);
  /// Looks for commands that have failed at PoCL without a callback: PoCL 3.1 does not call back for an event that
  /// fails because its wait list did.
  void LookForFailures();
  void Modelled(const Timeline::Submission& command, Instant began, Instant ended, Client::Ending ending);
  void Gone();
  static void Complain(const char* what);

  /// Applies what the timeline has decided, and unlocks.
  void CarryOut(std::unique_lock<std::mutex> lock);
  void NoteEnds(std::vector<Event*>& ended);
  void NoteSubmission(CommandId id);
  void Tell(Event& event, cl_int status, const Event::Callback& callback);
  void CallBack();

  const std::unique_ptr<Client> client_;
  const Backend backend_;
  const std::vector<Device> devices_;
  WorkerCpu cpu_;

  /// Shared while a command with a wait list is given to PoCL; exclusive while a user event fails. PoCL never runs a
  /// command that is given to it after an event of its wait list has failed.
  std::shared_mutex failing_;

  std::mutex mutex_;
  std::condition_variable completed_;
  Timeline timeline_;
  std::unordered_map<CommandId, Event*> events_;  // holds a reference to each event until its command is complete
  std::unordered_map<cl_command_queue, std::shared_ptr<Queue>> queues_;
  std::deque<Timeline::Submission> outbox_;
  std::set<std::uint32_t> lost_;  // devices
  bool sending_ = false;
  bool in_child_ = false;  // a child that was forked without exec: PoCL's threads are its parent's
  std::atomic<std::int64_t> exit_patience_ns_{kExitPatience.count()};  // what is left of it

  struct Told {
    Event* event;
    cl_int status;
    Event::Callback callback;
  };
  std::mutex told_mutex_;
  std::condition_variable told_changed_;
  std::deque<Told> told_;
  bool told_thread_ = false;
};

template <typename Give>
cl_int Driver::Enqueue(cl_command_queue native, CommandKind kind, cl_uint count, const cl_event* events, cl_event* out,
                       Give give, bool wait) {
  const std::shared_ptr<Queue> queue = FindQueue(native);
  if (queue == nullptr) return CL_INVALID_COMMAND_QUEUE;
  if (Lost(queue->device)) return CL_OUT_OF_RESOURCES;
  std::shared_lock no_failure(failing_, std::defer_lock);
  if (count > 0) no_failure.lock();
  WaitList waits;
  if (const cl_int error = TakeWaitList(count, events, waits); error != CL_SUCCESS) return error;
  std::unique_lock order(queue->order);
  cl_event given = nullptr;
  const cl_int error =
      give(static_cast<cl_uint>(waits.natives.size()), waits.natives.empty() ? nullptr : waits.natives.data(), &given);
  if (error != CL_SUCCESS) return error;
  return Given(queue, std::move(kind), waits, given, out, std::move(order), std::move(no_failure), wait);
}

/// Runs the body of a function that C calls.
template <typename Body>
cl_int Guarded(Body body) noexcept {
  try {
    return body();
  } catch (...) {
    return CL_OUT_OF_HOST_MEMORY;
  }
}

}  // namespace weir::emulator::cl
