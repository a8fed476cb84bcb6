// SPDX-License-Identifier: Apache-2.0
// Measures the GPU time of a frame in the device's unit. In order of preference: CPU clocks of a renderer's workers,
// the presenting thread's clock, timestamps of the API (each API has its own), the wall clock. A meter that contradicts
// the wall clock is rejected, and the name of the meter in use is published with every figure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/attach_messages.h"
#include "proto/gate_layout.h"

namespace weir::shim {

class Meter {
 public:
  virtual ~Meter() = default;
  [[nodiscard]] virtual proto::MeterKind kind() const = 0;
  /// The program has called present: the frame is drawn. Synchronising, the pace and the gate follow this call.
  virtual void BeforePresent(std::int64_t now_ns) = 0;
  /// The driver's present has returned. `held_ns`: the time since BeforePresent spent by the pace and the gate. Returns
  /// the GPU time (ns of the device's unit) that became known since the last call.
  virtual std::int64_t AfterPresent(std::int64_t now_ns, std::int64_t held_ns = 0) = 0;
  /// Called in place of AfterPresent if the frame's work has ended before the driver's present is called. AfterPresent
  /// then follows that present, and returns the GPU time that has become known since this call.
  virtual std::int64_t AfterWork(std::int64_t now_ns, std::int64_t held_ns) { return AfterPresent(now_ns, held_ns); }
  /// Called once when a frame or batch is settled, after the calls above. The number of settled ones, this one
  /// included, whose GPU time is not known yet.
  [[nodiscard]] virtual int Unknown() { return 0; }
  /// True: the meter counts continuously, so it need not be read at a call that ends no batch.
  [[nodiscard]] virtual bool cumulative() const { return false; }
  /// True: only calls in the context in which the meter was made may use it.
  [[nodiscard]] virtual bool of_context() const { return false; }
  /// False once the meter has contradicted the wall clock; another meter must replace it.
  [[nodiscard]] virtual bool truthful() const { return true; }

  /// ProcessShim's: the attachment since which the meter's time is charged (gate::Agent::attach_count); 0: a new meter.
  std::uint64_t attachment = 0;
};

/// The CPUs of an embedded device.
struct DeviceCpus {
  proto::CpuMask mask{};
  [[nodiscard]] int Count() const;
  [[nodiscard]] bool Known() const { return Count() > 0; }
};

/// CPU time of the renderer's worker threads (named "llvmpipe-N"), divided by the CPUs of the device; also pins them to
/// those CPUs. Accurate to about 1 %, unlike llvmpipe's timer queries. Null when this process has no such thread.
std::unique_ptr<Meter> MakeWorkerMeter(const DeviceCpus& cpus);

/// CPU time of the presenting thread within present and synchronising, divided by the CPUs of the device. For a
/// software renderer that is configured to use no workers (LP_NUM_THREADS=0).
std::unique_ptr<Meter> MakePresentCpuMeter(const DeviceCpus& cpus);

/// Duration of synchronising and of the driver's present. Always available, but rarely accurate.
std::unique_ptr<Meter> MakeWallMeter();

/// Whether this is the name of a renderer that runs on CPUs.
bool IsSoftwareRenderer(const std::string& renderer);

/// As MakeWorkerMeter, for a renderer whose workers may not run yet. A worker sets its name when it starts, which on a
/// busy machine can be after the first frame's call. With `software`, waits at most 20 ms for the workers.
std::unique_ptr<Meter> SoonWorkerMeter(const DeviceCpus& cpus, bool software);

/// A meter of `wanted`'s kind (proto::NameOf) among those that need no API; null if `wanted` is another word.
std::unique_ptr<Meter> ForcedMeter(const std::string& wanted, const DeviceCpus& cpus);

}  // namespace weir::shim
