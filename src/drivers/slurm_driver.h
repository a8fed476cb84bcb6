// SPDX-License-Identifier: Apache-2.0
// Slurm: shares are licences of a pool as large as what may ever be sold (slurm.conf: Licenses=vgpu:16), and what isn't
// sellable now is held back by a reservation of the operator's. Lowering below what is used is accepted by Slurm, kills
// nobody, and starts no new job until usage has fallen. (The number of a gres can't be changed under running jobs: the
// node is drained.)
#pragma once

#include "drivers/command_output.h"
#include "drivers/engine_driver.h"

namespace weir::drivers {

struct SlurmSettings {
  std::string licence;      // the pool
  std::string reservation;  // the driver's own
  std::string node;         // only jobs on this node have vGPUs here; empty: all that hold the licence
};

/// `gpu` is not said to Slurm: a driver has one pool, and a pool one device.
class SlurmDriver final : public EngineDriver {
 public:
  static constexpr Duration kCommandTimeout = seconds(5);

  /// kInvalidArgument for names that Slurm doesn't know.
  static Result<SlurmDriver> Make(SlurmSettings settings, CommandRunner run);

  /// A pool smaller than `shares` is good: then no more than that can be sold.
  Status Publish(const std::string& gpu, std::int64_t shares) override;
  Status SetSellable(const std::string& gpu, std::int64_t shares) override;
  Result<Usage> ReadUsage(const std::string& gpu) override;
  /// What one job has; nothing where it holds none of the pool, or doesn't run.
  Result<std::optional<Grant>> GrantOf(std::uint32_t job);

 private:
  SlurmDriver(SlurmSettings settings, CommandRunner run) : settings_(std::move(settings)), run_(std::move(run)) {}
  Result<std::string> Ask(const std::vector<std::string>& argv, std::string_view attempted) const;
  [[nodiscard]] Result<std::int64_t> Total() const;
  [[nodiscard]] Result<std::int64_t> Hold() const;
  [[nodiscard]] Status Hold(std::int64_t licences, bool create) const;
  [[nodiscard]] Result<std::vector<Grant>> Jobs(const std::vector<std::string>& filter) const;

  SlurmSettings settings_;
  CommandRunner run_;
};

}  // namespace weir::drivers
