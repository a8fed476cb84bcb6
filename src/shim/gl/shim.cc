// SPDX-License-Identifier: Apache-2.0
#include "shim/gl/shim.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "platform/clock.h"

extern "C" char* program_invocation_short_name;  // NOLINT: glibc's

namespace weir::shim {
namespace {

/// What is kept on the caller's stack between the two halves of a present.
struct Pass {
  gate::Ticket ticket;
  std::uint32_t surface;
  bool gated;
  std::int64_t begin_ns;
  std::int64_t present_ns;
};
static_assert(sizeof(Pass) <= sizeof(weir_gl_present));
static_assert(alignof(Pass) <= alignof(weir_gl_present));

class Lock {
 public:
  explicit Lock(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Lock() { pthread_mutex_unlock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace

GlShim::GlShim(std::string attach_path, std::string wanted_meter)
    : agent_(std::move(attach_path), proto::Api::kGl, program_invocation_short_name),
      wanted_meter_(std::move(wanted_meter)) {}

void GlShim::BeforePresent(weir_gl_present& present, std::uint64_t surface, weir_gl_get_proc get_proc) noexcept {
  Pass& pass = *new (&present) Pass{};
  if (!agent_.Wanted()) return;
  try {
    pass.present_ns = platform::NowNs();
    pass.ticket = agent_.Enter(pass.present_ns);
    pass.gated = pass.ticket.attachment != nullptr;
    const Lock lock(mutex_);
    if (!pass.gated) return ExplainOnce();
    if (described_ != agent_.attach_count()) PrepareMeter(get_proc, pass.present_ns);
    pass.surface = SurfaceIndex(surface);
    const std::int64_t before_ns = surfaces_[pass.surface].end_ns;
    // Windows that share an entry, or threads that share a window, may have presented while this one waited.
    pass.begin_ns = before_ns != 0 ? std::min(before_ns, pass.present_ns) : pass.present_ns;
    meter_->BeforePresent(pass.present_ns + pass.ticket.wait_ns);
  } catch (...) {
    // Out of memory, at worst. The ticket, if there is one, is settled in AfterPresent.
  }
}

void GlShim::AfterPresent(weir_gl_present& present) noexcept {
  const Pass& pass = *std::launder(reinterpret_cast<Pass*>(&present));
  if (!pass.gated) return;
  const std::int64_t end_ns = platform::NowNs();
  std::int64_t gpu_ns = 0;
  try {
    const Lock lock(mutex_);
    surfaces_[pass.surface].end_ns = end_ns;
    if (meter_ != nullptr) {
      gpu_ns = meter_->AfterPresent(end_ns);
      if (!meter_->truthful()) {
        std::fprintf(stderr, "weir: GPU timestamps of '%s' contradict the wall clock, or don't come; not used\n",
                     renderer_.c_str());
        meter_ = MakeWallMeter();
        agent_.Describe(meter_->kind(), renderer_.c_str());
      }
    }
  } catch (...) {
    gpu_ns = 0;
  }
  agent_.Leave(pass.ticket, {.surface = pass.surface,
                             .begin_ns = pass.begin_ns,
                             .present_ns = pass.present_ns,
                             .end_ns = end_ns,
                             .gpu_ns = gpu_ns});
}

// At every attach. What was rendered while nobody kept books is charged to nobody.
void GlShim::PrepareMeter(weir_gl_get_proc get_proc, std::int64_t now_ns) {
  if (meter_ == nullptr) {
    gl_ = LookUpGl(get_proc);
    renderer_ = gl_.Renderer();
    meter_ = ChooseMeter(gl_, DeviceCpus{agent_.device_cpus()}, wanted_meter_);
  } else {
    meter_->AfterPresent(now_ns);
  }
  agent_.Describe(meter_->kind(), renderer_.c_str());
  described_ = agent_.attach_count();  // last: what threw on the way is tried again at the next present
}

std::uint32_t GlShim::SurfaceIndex(std::uint64_t key) {
  for (std::size_t i = 0; i < kSurfaces; ++i) {
    if (surfaces_[i].key == key) return static_cast<std::uint32_t>(i);
    if (surfaces_[i].key != 0) continue;
    surfaces_[i].key = key;
    return static_cast<std::uint32_t>(i);
  }
  return kSurfaces - 1;
}

void GlShim::ExplainOnce() {
  if (explained_) return;
  explained_ = true;
  const std::string why = agent_.last_error();
  if (!why.empty()) std::fprintf(stderr, "weir: %s; running unthrottled until a daemon answers\n", why.c_str());
}

}  // namespace weir::shim
