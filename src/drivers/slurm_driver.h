// SPDX-License-Identifier: Apache-2.0
// Slurm. Shares are licences of a pool. The pool's size is the upper limit of what is sold (slurm.conf:
// Licenses=vgpu:16). A reservation that belongs to the operator holds back the licences that are not sellable now.
// Slurm accepts a pool below the used amount, kills no job, and starts no new one until usage has fallen. (The number
// of a gres can't change under running jobs: Slurm drains the node.)
#pragma once

#include "drivers/command_output.h"
#include "drivers/engine_driver.h"

namespace weir::drivers {

struct SlurmSettings {
  std::string licence;      // the pool
  std::string reservation;  // used by this driver only
  std::string node;         // only jobs on this node get vGPUs; empty: all jobs that hold the licence
};

/// `gpu` is not used with Slurm: a driver has one pool, and a pool stands for one device.
class SlurmDriver final : public EngineDriver {
 public:
  static constexpr Duration kCommandTimeout = seconds(5);

  /// kInvalidArgument: Slurm does not know a name.
  static Result<SlurmDriver> Make(SlurmSettings settings, CommandRunner run);

  /// The pool may be smaller than `shares`; it then limits the sale.
  Status Publish(const std::string& gpu, std::int64_t shares) override;
  Status SetSellable(const std::string& gpu, std::int64_t shares) override;
  Result<Usage> ReadUsage(const std::string& gpu) override;
  /// One job's grant; empty: the job holds no licence of the pool or does not run.
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
