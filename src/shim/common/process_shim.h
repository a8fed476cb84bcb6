// SPDX-License-Identifier: Apache-2.0
// The work around a present: gate, meter, record. One object for each process, whichever APIs the process uses. The
// same work around the batches of a program that presents nothing (docs/off-screen.md) is in batches.cc.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "core/schedule/batch_bounds.h"
#include "core/schedule/frame_pacer.h"
#include "core/schedule/present_watch.h"
#include "gate/agent.h"
#include "platform/mutex.h"
#include "shim/common/api.h"
#include "shim/common/meter.h"
#include "shim/common/pass.h"

namespace weir::shim {

/// A call of a program that presents nothing, and what ends a batch there.
struct BatchCall {
  core::BatchBounds::Call kind = core::BatchBounds::Call::kEndsWork;
  bool flushes = false;  // the driver's function does not submit the work to the device, so the shim flushes
  bool is_task = true;   // the batch that the call ends counts as a task
  bool inner = false;    // the call may be a part of a frame or of another API's work, and is then free
};

class ProcessShim {
 public:
  /// `first`: the API of the call that creates the object; it is sent to the daemon.
  ProcessShim(std::string attach_path, std::string wanted_meter, proto::Api first);

  void BeforePresent(Api& api, weir_shim_pass& scratch, std::uint64_t surface, const void* context,
                     const void* place) noexcept;
  void AfterPresent(Api& api, weir_shim_pass& scratch) noexcept;
  /// Around a call that may end a batch, in a thread that presents nothing. Returns whether the call ends one, and has
  /// passed the gate.
  bool BeforeBatchCall(Api& api, weir_shim_pass& scratch, BatchCall call, const void* context,
                       const void* place) noexcept;
  void AfterBatchCall(Api& api, weir_shim_pass& scratch) noexcept;
  /// Charges the GPU time of batches that has become known since the last one, without passing the gate. For an API
  /// whose meter is told what it measures.
  void SettleBatches(Api& api) noexcept;
  /// Called before the program acquires the window's next image, while it holds `ahead` images that it has not
  /// presented. Waits until the window's next present may begin, for at most `most_ns`. Returns how long it waited.
  std::int64_t DelayImage(std::uint64_t surface, int ahead, std::int64_t most_ns) noexcept;
  /// Records that the process's GL draws through Vulkan (zink): from now on Vulkan's calls are parts of GL's frames and
  /// batches.
  void GlIsOnVulkan() noexcept { gl_on_vulkan_.store(true, std::memory_order_relaxed); }
  /// Called when a window is destroyed, because another window may get the same key.
  void ForgetSurface(std::uint64_t surface) noexcept;
  /// Whether threads of the program have to wait at the gate now.
  [[nodiscard]] bool Shares() const noexcept { return agent_.gated(); }
  /// For the device memory that the process holds. A process that has asked or allocated only counts as one that
  /// presents nothing. False: the vGPU's limit has no room for it.
  bool ClaimMemory(std::uint64_t bytes) noexcept;
  void ReleaseMemory(std::uint64_t bytes) noexcept { agent_.ReleaseMemory(bytes); }
  gate::MemoryUse UsedMemory() noexcept;
  [[nodiscard]] bool attached() const noexcept { return agent_.attached(); }
  void AbandonInChild() noexcept { agent_.AbandonInChild(); }

 private:
  struct Pass;

  /// The last present and the pace of each window; windows beyond the table's size share its last entry.
  struct Surface {
    std::uint64_t key = 0;
    std::int64_t end_ns = 0;    // of the last frame's record
    std::int64_t start_ns = 0;  // when the program began its frame, after the delay
    std::int64_t start_delay_ns = 0;
    std::uint64_t presents_before = 0;  // the value of presents_ at this window's last present
    core::FramePacer pacer;
    core::PresentWatch watch;
  };

  struct BatchPass;

  /// The batches of one context. A context beyond the table's size replaces the one whose last call is oldest.
  struct BatchLoop {
    const void* context = nullptr;
    std::int64_t called_ns = 0;  // time of the context's last call
    std::int64_t end_ns = 0;     // of the last batch's record
    core::BatchBounds bounds;
    std::unique_ptr<Meter> meter;  // null: the process's meter
    std::int64_t known_ns = 0;     // measured GPU time that no batch was charged yet
    std::uint64_t attachment = 0;  // since which it was measured
  };

  std::uint32_t SurfaceIndex(std::uint64_t key);
  void KeepPace(Api& api, Pass& pass);
  bool WorthSynchronising(const Pass& pass);
  std::int64_t SubmitAt(const Pass& pass);
  bool Settle(Api& api, const Pass& pass, std::int64_t end_ns) noexcept;
  void DelayStart(const Pass& pass) noexcept;
  void FinishFirst(Api& api, Pass& pass);
  std::int64_t TakeGpuTime(Api& api, std::int64_t known_ns);
  std::int64_t TakeStartDelay(const Pass& pass);
  /// What is known of a frame when it is charged.
  struct Settled {
    std::int64_t gpu_ns = 0, start_delay_ns = 0;
    int unknown = 0;  // frames whose GPU time is not known yet
  };
  void Leave(const Pass& pass, std::int64_t end_ns, const Settled& settled);
  static void SetMeter(Api& api, std::shared_ptr<Meter> meter);
  void UseWallMeter(Api& api, const char* why);
  void Begin(Meter& meter, std::int64_t now_ns);
  void PrepareMeter(Api& api, const void* context, const void* place);
  void ExplainOnce();
  void SayOffScreen(bool off_screen);
  void SayNothingPresented() noexcept;

  bool IsPartOfOther(Api& api, std::int64_t now_ns) const;
  std::uint32_t BatchLoopOf(const void* context, std::int64_t now_ns);
  BatchLoop* StillLoop(const BatchPass& pass);
  Meter& MeterOf(Api& api, BatchLoop& loop);
  void PassGate(Api& api, BatchPass& pass, const void* place);
  std::int64_t TakeBatchTime(Api& api, BatchLoop& loop, std::int64_t now_ns, std::int64_t held_ns);

  gate::Agent agent_;
  const std::string wanted_meter_;
  platform::Mutex mutex_;  // guards the members below, and those of each Api
  std::array<Surface, kSurfaces> surfaces_{};
  std::shared_ptr<Meter> cpu_clocks_;  // shared by all APIs, so that the workers of a process are counted once
  bool explained_ = false;
  std::uint64_t presents_ = 0;     // of all windows
  std::int64_t uncharged_ns_ = 0;  // GPU time that became known after its frame was charged

  std::array<BatchLoop, kBatchLoops> loops_{};
  bool off_screen_ = false;         // as last reported to the daemon
  std::uint32_t settled_loop_ = 0;  // of the last batch
  std::int64_t late_ns_ = 0;        // GPU time that SettleBatches has charged since then

  // Not guarded: a call that ends no batch reads these members without the lock.
  std::atomic<std::int64_t> presented_ns_{0};  // time of the process's last present
  std::atomic<bool> gl_on_vulkan_{false};
};

}  // namespace weir::shim
