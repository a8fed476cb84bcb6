// SPDX-License-Identifier: Apache-2.0
// The work around a present: gate, meter, record. One object for each process. The same around the batches of a program
// that presents nothing (docs/off-screen.md) is in batches.cc.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "core/schedule/batch_bounds.h"
#include "core/schedule/frame_pacer.h"
#include "core/schedule/present_watch.h"
#include "gate/agent.h"
#include "shim/gl/hooks.h"
#include "shim/gl/meter.h"

namespace weir::shim {

class GlShim {
 public:
  GlShim(std::string attach_path, std::string wanted_meter);

  void BeforePresent(weir_gl_present& present, std::uint64_t surface, weir_gl_place place) noexcept;
  void AfterPresent(weir_gl_present& present) noexcept;
  /// Around a call that may end a batch, in a thread that presents nothing.
  void BeforeBatchCall(weir_gl_present& present, weir_gl_call call, weir_gl_place place) noexcept;
  void AfterBatchCall(weir_gl_present& present) noexcept;
  void AbandonInChild() noexcept { agent_.AbandonInChild(); }

 private:
  struct Pass;

  /// The last present and the pace of each window; windows beyond the table's size share its last entry.
  struct Surface {
    std::uint64_t key = 0;
    std::int64_t end_ns = 0;    // of the last frame's record
    std::int64_t start_ns = 0;  // when the program began its frame, after the delay
    std::int64_t start_delay_ns = 0;
    std::uint64_t presents_before = 0;  // of all windows, at its last one
    core::FramePacer pacer;
    core::PresentWatch watch;
    GlFunctions::GlSync fence = nullptr;  // inserted after the last paced frame
  };
  static constexpr std::size_t kSurfaces = 64;

  struct BatchPass;

  /// The batches of one context. A context beyond the table's size replaces the one that was silent for longest.
  struct BatchLoop {
    const void* context = nullptr;
    std::int64_t called_ns = 0;  // its last call
    std::int64_t end_ns = 0;     // of the last batch's record
    core::BatchBounds bounds;
    GlFunctions::GlSync fence = nullptr;  // inserted after the last batch
    std::unique_ptr<Meter> meter;         // null: the process's
    std::int64_t known_ns = 0;            // GPU time that calls have found and no batch was charged
  };
  static constexpr std::size_t kBatchLoops = 16;

  std::uint32_t SurfaceIndex(std::uint64_t key);
  void KeepPace(Pass& pass);
  bool WorthSynchronising(const Pass& pass);
  std::int64_t SubmitAt(const Pass& pass);
  bool Settle(const Pass& pass, std::int64_t end_ns) noexcept;
  void DelayStart(const Pass& pass) noexcept;
  void Synchronise(proto::FrameSync wanted, std::uint32_t surface);
  void FinishFirst(Pass& pass);
  bool WaitForWork();
  std::int64_t TakeGpuTime(std::int64_t known_ns);
  std::int64_t TakeStartDelay(const Pass& pass);
  void Leave(const Pass& pass, std::int64_t end_ns, std::int64_t gpu_ns, std::int64_t start_delay_ns);
  void PrepareMeter(weir_gl_place place, std::int64_t now_ns);
  void ExplainOnce();
  void SayOffScreen(bool off_screen);

  std::uint32_t BatchLoopOf(const void* context, std::int64_t now_ns);
  BatchLoop* StillLoop(const BatchPass& pass);
  std::unique_ptr<Meter>& MeterOf(BatchLoop& loop);
  void PassGate(BatchPass& pass, weir_gl_place place);
  void AwaitLastBatch(const BatchPass& pass);
  std::int64_t TakeBatchTime(BatchLoop& loop, std::int64_t now_ns, std::int64_t held_ns);

  gate::Agent agent_;
  const std::string wanted_meter_;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  // guards the members below
  std::array<Surface, kSurfaces> surfaces_{};
  GlFunctions gl_;  // constant after the lookup
  std::unique_ptr<Meter> meter_;
  std::string renderer_;
  bool software_ = false;
  std::uint64_t described_ = 0;  // agent_.attach_count() of the last Describe
  bool explained_ = false;
  std::uint64_t presents_ = 0;     // of all windows
  std::int64_t uncharged_ns_ = 0;  // GPU time that became known after its frame was charged

  std::array<BatchLoop, kBatchLoops> loops_{};
  const void* meter_context_ = nullptr;  // in which meter_ was made
  std::int64_t presented_ns_ = 0;        // the process's last present
  bool off_screen_ = false;              // as the daemon was told
};

}  // namespace weir::shim
