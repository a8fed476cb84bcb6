// SPDX-License-Identifier: Apache-2.0
// The meter of last resort, and the choice among the meters that need no API.
#include <optional>
#include <thread>
#include <utility>

#include "base/units.h"
#include "proto/attach_messages.h"
#include "shim/common/meter.h"

namespace weir::shim {
namespace {

class WallMeter final : public Meter {
 public:
  [[nodiscard]] proto::MeterKind kind() const override { return proto::MeterKind::kWallClock; }
  void BeforePresent(std::int64_t now_ns) override { before_ns = now_ns; }
  std::int64_t AfterPresent(std::int64_t now_ns, std::int64_t held_ns) override {
    const auto before = std::exchange(before_ns, std::nullopt);
    return before ? now_ns - *before - held_ns : 0;  // the meter may have been chosen during this present
  }

 private:
  static thread_local std::optional<std::int64_t> before_ns;  // several threads may present at once
};
thread_local std::optional<std::int64_t> WallMeter::before_ns;

}  // namespace

std::unique_ptr<Meter> MakeWallMeter() { return std::make_unique<WallMeter>(); }

std::unique_ptr<Meter> SoonWorkerMeter(const DeviceCpus& cpus, bool software) {
  constexpr int kLooks = 20;
  auto meter = MakeWorkerMeter(cpus);
  for (int i = 0; i < kLooks && !meter && software; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
    meter = MakeWorkerMeter(cpus);
  }
  return meter;
}

std::unique_ptr<Meter> ForcedMeter(const std::string& wanted, const DeviceCpus& cpus) {
  if (wanted == NameOf(proto::MeterKind::kWorkerCpuTime)) return MakeWorkerMeter(cpus);
  if (wanted == NameOf(proto::MeterKind::kPresentCpuTime)) return MakePresentCpuMeter(cpus);
  if (wanted == NameOf(proto::MeterKind::kWallClock)) return MakeWallMeter();
  return nullptr;
}

bool IsSoftwareRenderer(const std::string& renderer) {
  for (const char* name : {"llvmpipe", "softpipe", "SwiftShader"})
    if (renderer.find(name) != std::string::npos) return true;
  return false;
}

}  // namespace weir::shim
