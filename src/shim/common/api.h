// SPDX-License-Identifier: Apache-2.0
// What differs between the graphics APIs behind ProcessShim: what the device is called, which meter measures it, and
// how work is waited for. Its functions are called in the program's threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "proto/attach_messages.h"
#include "proto/gate_layout.h"
#include "shim/common/meter.h"

namespace weir::shim {

/// Sizes of ProcessShim's tables. An API that keeps something for a window or for the batches of a context has as many.
inline constexpr std::size_t kSurfaces = 64;
inline constexpr std::size_t kBatchLoops = 16;

class Api {
 public:
  virtual ~Api() = default;
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  /// The program's first call: finds out what the device is. `place`: where the call was made, in the API's own terms.
  virtual void Meet(const void* place) = 0;
  [[nodiscard]] virtual std::string Renderer() const = 0;
  [[nodiscard]] virtual bool Software() const = 0;
  /// Whether GL may draw through this API, so that its calls may be parts of GL's.
  [[nodiscard]] virtual bool MayBeInner() const { return false; }
  /// The best meter for the device. `wanted`: "auto", or the name of a kind to force.
  virtual std::unique_ptr<Meter> ChooseMeter(const DeviceCpus& cpus, const std::string& wanted) = 0;
  /// The meter of another context than the first call's; null: the process's meter serves all.
  virtual std::unique_ptr<Meter> MeterOfContext() { return nullptr; }

  // Called without a lock, because they may take long. Each wait has a bound.

  /// Waits until the work of the calling thread's frame has ended. False: it can't, or it has not ended.
  virtual bool AwaitWork() { return false; }
  /// Before the delay of a paced frame, so that the present's duration can be predicted. `surface`: below kSurfaces.
  virtual void Synchronise(proto::FrameSync, std::uint32_t /*surface*/) {}
  /// Hands recorded work to the device.
  virtual void Flush() {}
  /// Waits until the device has done the batch before this one. `loop`: below kBatchLoops.
  virtual void AwaitLastBatch(const void* /*context*/, std::uint32_t /*loop*/) {}

 protected:
  Api() = default;

 private:
  friend class ProcessShim;
  // Guarded by ProcessShim's lock.
  std::shared_ptr<Meter> meter_;
  const void* meter_context_ = nullptr;  // in which meter_ was made
  std::uint64_t described_ = 0;          // the agent's attach_count() when the device was last described

  std::atomic<std::int64_t> presented_ns_{0};    // its last present
  std::atomic<std::int64_t> first_inner_ns_{0};  // its first batch call that may be a part of a frame
};

}  // namespace weir::shim
