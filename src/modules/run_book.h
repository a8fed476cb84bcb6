// SPDX-License-Identifier: Apache-2.0
// The runs of a node, from their requests to their results: attempts, lost hosts, time limits. Pure: events in, actions
// out, `now` is an argument. core::RunQueue decides which run starts and where. Page: docs/modules.md
//
//   Submit ──▶ waiting ──▶ running ──▶ done
//                 ▲           │ ├────▶ failed   the kernel failed, its module crashed, or the time limit passed
//                 │           │
//                 └───────────┘  the host ended for another reason: the run starts again, at most three times,
//                                and alone on a device, so that another run's crash cannot end it twice
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "core/placement/run_queue.h"
#include "modules/launch_loads.h"

namespace weir::modules {

/// A client's request.
struct RunSpec {
  std::string module{}, blob{}, kernel{}, arguments{};
  std::string input{};       // blob name; empty: none
  std::string device{};      // by name; empty: any
  std::string request{};     // the request's text: two runs with the same text are the same run
  std::uint64_t tenant = 0;  // owner of the residual data
  core::RunNeed need{};
  bool measured = false;            // `need` contains the time alone, so that placement may learn from the run
  bool measure = false;             // the host is asked to measure the loads of its launches
  Duration time_max = seconds(60);  // limit for one attempt
  friend bool operator==(const RunSpec&, const RunSpec&) = default;
};

enum class RunStage : std::uint8_t { kWaiting, kRunning, kDone, kFailed };
std::string_view NameOf(RunStage stage);

struct Run {
  core::RunId number{};
  std::string id{};
  RunSpec spec{};
  RunStage stage = RunStage::kWaiting;
  unsigned attempt = 0;  // number of the last started attempt
  DeviceId device{};     // the device it runs on, or ran on last
  std::string device_name{};
  Instant started{}, ended{};
  std::string output{}, text{};
  std::optional<Error> error{};
  double ran_beside = 0;  // mean number of other runs on its device during the last attempt
  std::optional<MeasuredLoads> measured{};

  [[nodiscard]] bool over() const { return stage == RunStage::kDone || stage == RunStage::kFailed; }
};

struct BookAction {
  enum class Kind : std::uint8_t {
    kStart,    // start `run` on `device`
    kEndHost,  // end the host of `device`, which has been removed here already
    kOver,     // `run` is done or failed
  };
  Kind kind = Kind::kStart;
  core::RunId run{};
  DeviceId device{};
  friend bool operator==(const BookAction&, const BookAction&) = default;
};

/// How a run ended, as its host reports it.
struct RunResult {
  std::string output{}, text{};
  std::optional<Error> error{};
  std::optional<MeasuredLoads> measured{};
};

class RunBook {
 public:
  static constexpr std::size_t kRunsMax = 10'000;  // includes ended runs that were not acknowledged
  static constexpr unsigned kAttemptsMax = 4;

  explicit RunBook(std::unique_ptr<core::Placement> placement) : queue_(std::move(placement)) {}

  /// kAlreadyExists, kInvalidArgument.
  Status AddDevice(DeviceId device, const std::string& name, const core::DeviceCapacity& capacity, Instant now,
                   std::vector<BookAction>& actions);
  /// The device's host has ended. `guilty` is the run that caused it, 0 if unknown; that run fails with `why`. No
  /// effect if the device is unknown.
  void LoseDevice(DeviceId device, core::RunId guilty, const Error& why, Instant now, std::vector<BookAction>& actions);

  /// A repeated id with the same request has no effect. kAlreadyExists: the id belongs to a different request;
  /// kResourceExhausted: too many runs. A run that needs more memory than any device has fails at once.
  Result<const Run*> Submit(const std::string& id, const RunSpec& spec, Instant now, std::vector<BookAction>& actions);
  /// Ends a run of that device. A result for any other run is ignored, because hosts are not trusted.
  void Finish(DeviceId device, core::RunId run, RunResult result, Instant now, std::vector<BookAction>& actions);
  /// Forgets the run. If it is running, its device's host is ended (kEndHost). False: there is no such run.
  bool Remove(const std::string& id, Instant now, std::vector<BookAction>& actions);
  /// Ends runs that have exceeded their time limit.
  void Tick(Instant now, std::vector<BookAction>& actions);
  /// When Tick must be called next.
  [[nodiscard]] std::optional<Instant> NextDeadline() const;

  [[nodiscard]] const Run* Find(const std::string& id) const;
  [[nodiscard]] const Run* Find(core::RunId run) const;
  /// Null unless the run is running on that device, whose host alone may report it.
  [[nodiscard]] const Run* FindRunning(DeviceId device, core::RunId run) const;
  [[nodiscard]] std::vector<const Run*> Runs() const;          // in order of submission
  [[nodiscard]] bool UsesBlob(const std::string& blob) const;  // by a run that has not ended

  struct DeviceView {
    DeviceId id{};
    std::string name{};
    core::DeviceCapacity capacity{};
    std::size_t running = 0, waiting = 0;  // waiting: runs that name this device
  };
  [[nodiscard]] std::vector<DeviceView> Devices() const;
  [[nodiscard]] std::size_t waiting() const { return queue_.waiting(); }
  /// What placement has learned; null: the placement does not learn.
  [[nodiscard]] const core::InterferenceModel* model() const { return queue_.model(); }

 private:
  struct Device {
    std::string name{};
    core::DeviceCapacity capacity{};
  };

  [[nodiscard]] std::vector<core::RunId> Running() const;
  void CarryOut(Instant now, const std::vector<core::RunAction>& decided, std::vector<BookAction>& actions);
  void End(Run& run, RunStage stage, Instant now, std::vector<BookAction>& actions);

  core::RunQueue queue_;
  std::map<DeviceId, Device> devices_;
  std::map<core::RunId, Run> runs_;
  std::map<std::string, core::RunId> numbers_;
  Bytes largest_{};  // memory of the largest device so far
  std::uint64_t last_number_ = 0;
};

}  // namespace weir::modules
