// SPDX-License-Identifier: Apache-2.0
// The CPU and device time of a program's frames.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/simulation.h"

namespace weir::sim {
namespace {

Duration Drawn(Duration mean, double jitter, Prng& prng) {
  const double factor = 1 + jitter * (2 * prng.Uniform() - 1);
  return Duration{static_cast<std::int64_t>(static_cast<double>(mean.count()) * factor)};
}

}  // namespace

const Scene& Simulation::SceneOf(Loop& loop) {
  if (now_ < loop.scene_ends) return *loop.scene_now;
  const std::vector<Scene>& scenes = GateOf(loop).tenant->scenes;
  for (;;) {
    const Scene& scene = scenes[loop.scene];
    const bool last = loop.scene + 1 == scenes.size();
    const bool endless = scene.length == Duration{0} || (last && !GateOf(loop).tenant->repeat);
    loop.scene_now = &scene;
    loop.scene_ends = endless ? Instant::max() : loop.scene_began + scene.length;
    if (now_ < loop.scene_ends) return scene;
    loop.scene_began += scene.length;
    loop.scene = last ? 0 : loop.scene + 1;
  }
}

/// Draws the times of the next frame from the program's random stream, or takes the next recorded frame. Returns the
/// CPU time; the device time and the present's time are stored in `loop`.
Duration Simulation::DrawFrame(Loop& loop) {
  const Tenant& tenant = *GateOf(loop).tenant;
  constexpr Duration kLeastWork = microseconds(1);  // a frame always has a batch
  if (!tenant.recorded.empty()) {
    const std::vector<Demand>& frames =
        tenant.recorded[static_cast<std::size_t>(&loop - &loops_[GateOf(loop).first_loop])];
    const Demand& demand = frames[loop.frame++ % frames.size()];
    loop.cost = std::max(demand.gpu, kLeastWork);
    loop.present = demand.present;
    return demand.cpu;
  }
  const Scene& scene = SceneOf(loop);
  Duration cpu = Drawn(scene.cpu, scene.jitter, loop.prng);
  loop.cost = std::max(Drawn(scene.gpu, scene.jitter, loop.prng), kLeastWork);
  loop.present = tenant.present;
  ++loop.frame;
  if (scene.spike_every > 0 && loop.prng.Between(1, scene.spike_every) == 1) {
    loop.cost = Duration{static_cast<std::int64_t>(static_cast<double>(loop.cost.count()) * (1 + scene.spike))};
    cpu = Duration{static_cast<std::int64_t>(static_cast<double>(cpu.count()) * (1 + scene.spike))};
  }
  return cpu;
}

}  // namespace weir::sim
