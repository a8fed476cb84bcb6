// SPDX-License-Identifier: Apache-2.0
// Runs kernels alone and beside each other on one device of a node's weir-modules, and says what they took. Page:
// docs/placement.md, "Measuring kernels"
//
//   each kernel: a run that is not counted ─▶ one whose launches are ─▶ one run after another, alone ─▶ median
//   each pair:   both at once, each started again when it is done, until each has run beside the other often enough
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
  std::string device{};   // by name; empty: the first one that serves
  bool declared = false;  // loads as kernels' tables say them; else as launches are counted, where they are
  std::uint32_t rounds = 3;
  Duration time_max = seconds(60);  // of one run
};

/// A run that the service has; it is forgotten when this goes, and ended where it runs.
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
  std::vector<std::string> left_out{};  // kernels and pairs, and why
};

class Profiler {
 public:
  /// `say` is told of each step, in words; `stopping` may become true at any time: then runs are deleted.
  Profiler(modules::ModuleClient& client, const std::atomic<bool>& stopping,
           std::function<void(const std::string&)> say)
      : client_(client), stopping_(stopping), say_(std::move(say)) {}

  /// Errors name the kernels; of a run that failed they have its code. Of `all` kernels what fails is left out.
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
  /// Until both sides are settled, or one has failed.
  void RepeatBeside(Side& own, const Side& other, std::atomic<bool>& over);
  /// One run to its end. What was held before is let go when it has been handed in, so that no time passes between two.
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
