// SPDX-License-Identifier: Apache-2.0
// Counts a run's launches if its client asked for it: groups and items, local memory, buffers, and time on the device.
// The host exports clEnqueueNDRangeKernel and the few functions that set a kernel's arguments. Modules call these
// instead of the loader's, and they call the loader's. For runs that are not measured they only record the sizes of
// buffers.
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

  /// Meters the launches on `queue` until Take. The queue must have CL_QUEUE_PROFILING_ENABLE. `capacity` is the
  /// device's.
  static std::shared_ptr<LaunchMeter> Watch(cl_command_queue queue, cl_device_id device, const core::Loads& capacity);
  ~LaunchMeter();
  LaunchMeter(const LaunchMeter&) = delete;
  LaunchMeter& operator=(const LaunchMeter&) = delete;

  /// Records a launch. Takes ownership of the event.
  void Saw(cl_event event, cl_kernel kernel, cl_uint dimensions, const std::size_t* global, const std::size_t* local);
  /// Call once, after the queue is finished. Empty: nothing was launched on the queue, or not every launch could be
  /// timed.
  std::optional<MeasuredLoads> Take(Duration run);

 private:
  struct PendingLaunch {
    cl_event event = nullptr;
    Launch launch{};
  };

  LaunchMeter(cl_command_queue queue, cl_device_id device, const core::Loads& capacity)
      : queue_(queue), device_(device), loads_(capacity) {}
  /// Counts the launches that have ended. The lock must be held.
  void Fold();

  const cl_command_queue queue_;
  const cl_device_id device_;
  std::mutex mutex_;  // a module may call from several threads
  LaunchLoads loads_;
  std::vector<PendingLaunch> pending_;
  std::size_t fold_at_ = 1'024;
  bool whole_ = true;  // every launch was counted
};

}  // namespace weir::modules
