// SPDX-License-Identifier: Apache-2.0
// What differs between the graphics APIs behind ProcessShim: the name of the device, the meter that measures it, and
// how to wait for work. The functions of Api are called in the program's threads.
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

/// Sizes of ProcessShim's tables of windows and of contexts with batches. An API's own tables for these have the same
/// sizes.
inline constexpr std::size_t kSurfaces = 64;
inline constexpr std::size_t kBatchLoops = 128;

class Api {
 public:
  virtual ~Api() = default;
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  /// Finds out what the device is. Called at the program's first call. `place`: the context or device of that call, as
  /// the API's own hooks pass it.
  virtual void Meet(const void* place) = 0;
  [[nodiscard]] virtual std::string Renderer() const = 0;
  [[nodiscard]] virtual bool Software() const = 0;
  /// Whether GL may draw through this API, so that calls of this API may be parts of GL's calls.
  [[nodiscard]] virtual bool MayBeInner() const { return false; }
  /// The best meter for the device. `wanted`: "auto", or the name of a kind to force.
  virtual std::unique_ptr<Meter> ChooseMeter(const DeviceCpus& cpus, const std::string& wanted) = 0;
  /// A meter for a context other than that of the first call; null: the process's meter serves all contexts.
  virtual std::unique_ptr<Meter> MeterOfContext() { return nullptr; }

  // Called without a lock, because they may take long. Each wait has a bound.

  /// Waits until the work of the calling thread's frame has ended. False: the API cannot wait for it, or the bound of
  /// the wait has passed.
  virtual bool AwaitWork() { return false; }
  /// Called before the delay of a paced frame, so that the present's duration can be predicted. `surface`: below
  /// kSurfaces.
  virtual void Synchronise(proto::FrameSync, std::uint32_t /*surface*/) {}
  /// Submits recorded work to the device.
  virtual void Flush() {}
  /// Whether AwaitLastBatch waits, so that a context has one batch in flight at most.
  [[nodiscard]] virtual bool AwaitsBatches() const { return false; }
  /// Waits until the device has completed the batch before this one. `loop`: below kBatchLoops.
  virtual void AwaitLastBatch(const void* /*context*/, std::uint32_t /*loop*/) {}

 protected:
  Api() = default;
  /// The kind of the meter in use; kNone: none was chosen yet. From any thread.
  [[nodiscard]] proto::MeterKind meter_kind() const noexcept { return meter_kind_.load(std::memory_order_relaxed); }

 private:
  friend class ProcessShim;
  // Guarded by ProcessShim's lock.
  std::shared_ptr<Meter> meter_;
  const void* meter_context_ = nullptr;  // the context in which meter_ was made
  std::uint64_t described_ = 0;          // the agent's attach_count() when the device was last described

  std::atomic<proto::MeterKind> meter_kind_{proto::MeterKind::kNone};
  std::atomic<std::int64_t> presented_ns_{0};    // time of this API's last present
  std::atomic<std::int64_t> first_inner_ns_{0};  // time of the first batch call that may be a part of a frame
};

}  // namespace weir::shim
