// SPDX-License-Identifier: Apache-2.0
// Runs kernels alone and beside each other on one device of a node's weir-modules, and measures their times. Page:
// docs/placement.md, "Measuring kernels"
//
//   each kernel: a warm-up run ─▶ a run whose launches are counted ─▶ one run after another, alone ─▶ median
//   each pair:   both at once, each repeated until each has run beside the other often enough
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "modules/kernel_profile.h"
#include "modules/module_client.h"
#include "modules/run_tally.h"

namespace weir::cli {

struct ProfileOrder {
  std::vector<modules::KernelWork> works{};
  bool all = false;       // every registered kernel without arguments, instead of `works`
  std::string device{};   // by name; empty: the first device that is available
  bool declared = false;  // take loads from the kernels' tables; otherwise count launches where possible
  std::uint32_t rounds = 3;
  Duration time_max = seconds(60);  // limit of one run
};

/// A run that the service keeps. The destructor deletes it, which ends it if it is in progress.
class HeldRun {
 public:
  HeldRun(modules::ModuleClient& client, std::string target) : client_(client), target_(std::move(target)) {}
  ~HeldRun();
  HeldRun(const HeldRun&) = delete;
  HeldRun& operator=(const HeldRun&) = delete;

 private:
  modules::ModuleClient& client_;
  const std::string target_;
};

struct Profiled {
  modules::KernelProfile profile{};
  std::vector<std::string> left_out{};  // kernels and pairs that were left out, with reasons
};

class Profiler {
 public:
  /// `say` is called with a text for each step. `stopping` may become true at any time; runs are then deleted.
  Profiler(modules::ModuleClient& client, const std::atomic<bool>& stopping,
           std::function<void(const std::string&)> say)
      : client_(client), stopping_(stopping), say_(std::move(say)) {}

  /// Errors name the kernels, and have the code of a failed run. With `all`, kernels that fail are left out.
  Result<Profiled> Measure(const ProfileOrder& order);

 private:
  struct Side {
    const modules::ProfiledKernel& kernel;
    modules::RunTally tally;
    std::unique_ptr<HeldRun> held = nullptr;
    std::atomic<bool> settled = false;
    Status outcome = Ok();
  };

  Status ChooseDevice(const std::string& wanted);
  Status ChooseKernels(const ProfileOrder& order);
  Status MeasureLoads(modules::ProfiledKernel& kernel, std::unique_ptr<HeldRun>& held);
  Status MeasureAlone(modules::ProfiledKernel& kernel);
  Status MeasurePair(std::size_t first, std::size_t second);
  /// Repeats until both sides are settled or one has failed.
  void RepeatBeside(Side& own, const Side& other, std::atomic<bool>& over);
  /// Runs the kernel once to its end. `held` is replaced after the new run was submitted, so that there is no gap
  /// between two runs.
  Result<nlohmann::json> RunOnce(const modules::ProfiledKernel& kernel, const std::atomic<bool>& over,
                                 std::unique_ptr<HeldRun>& held, bool measure = false);
  void SayStep(const std::string& words);
  void LeaveOut(const std::string& words);

  modules::ModuleClient& client_;
  const std::atomic<bool>& stopping_;
  std::function<void(const std::string&)> say_;
  ProfileOrder order_{};
  Profiled out_{};
  std::size_t step_ = 0, steps_ = 0;
};

}  // namespace weir::cli
