// SPDX-License-Identifier: Apache-2.0
// Counts what a run launches, where its client asked for that: how many groups of how many items, with how much local
// memory and which buffers, for how long on the device. The host's own clEnqueueNDRangeKernel and the few functions
// that say what its arguments are stand before the loader's: modules call them, and they call on. They do nothing more
// for runs that are not measured, but that they know how large buffers are.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "modules/host/device_context.h"
#include "modules/launch_loads.h"

namespace weir::modules {

class LaunchMeter {
 public:
  static constexpr std::size_t kPendingMax = 65'536;  // launches that have not ended

  /// Of launches on that queue, which tells times (CL_QUEUE_PROFILING_ENABLE), until Take. `capacity`: the device's.
  static std::shared_ptr<LaunchMeter> Watch(cl_command_queue queue, cl_device_id device, const core::Loads& capacity);
  ~LaunchMeter();
  LaunchMeter(const LaunchMeter&) = delete;
  LaunchMeter& operator=(const LaunchMeter&) = delete;

  /// Takes over the event.
  void Saw(cl_event event, cl_kernel kernel, cl_uint dimensions, const std::size_t* global, const std::size_t* local);
  /// Once, when the queue is finished. None: nothing was launched there, or not all of it could be timed.
  std::optional<MeasuredLoads> Take(Duration run);

 private:
  struct PendingLaunch {
    cl_event event = nullptr;
    Launch launch{};
  };

  LaunchMeter(cl_command_queue queue, cl_device_id device, const core::Loads& capacity)
      : queue_(queue), device_(device), loads_(capacity) {}
  /// What has ended is counted. With the lock held.
  void Fold();

  const cl_command_queue queue_;
  const cl_device_id device_;
  std::mutex mutex_;  // a module may have threads
  LaunchLoads loads_;
  std::vector<PendingLaunch> pending_;
  std::size_t fold_at_ = 1'024;
  bool whole_ = true;  // all that was launched is counted
};

}  // namespace weir::modules
