// SPDX-License-Identifier: Apache-2.0
// The runs of a node: which wait, which run where and beside whom, how each ended. Pure: events in, actions out, `now`
// an argument. Which device is core/placement's choice, unless the run names one. Page: docs/modules.md
//
//   Submit ──▶ waiting ──▶ running ──▶ done
//                 ▲           │ ├────▶ failed   it said so, its module crashed, or it took too long
//                 │           │
//                 └───────────┘  its host ended, and it is not to blame: again, at most three times
//                                and alone on a device, so that nobody else's crash meets it twice
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "core/placement/placement_table.h"
#include "modules/launch_loads.h"

namespace weir::modules {

/// What a client asks for.
struct RunSpec {
  std::string module{}, blob{}, kernel{}, arguments{};
  std::string input{};       // a blob; empty: none
  std::string device{};      // by name; empty: any
  std::string request{};     // as it was asked for: what makes two the same
  std::uint64_t tenant = 0;  // whose residual data it finds
  core::RunNeed need{};
  bool measured = false;            // `need` tells how long it takes alone, so that a placement may learn from it
  bool measure = false;             // its host is to say what its launches load
  Duration time_max = seconds(60);  // of one attempt
  friend bool operator==(const RunSpec&, const RunSpec&) = default;
};

enum class RunStage : std::uint8_t { kWaiting, kRunning, kDone, kFailed };
std::string_view NameOf(RunStage stage);

struct Run {
  core::RunId number{};
  std::string id{};
  RunSpec spec{};
  RunStage stage = RunStage::kWaiting;
  unsigned attempt = 0;  // of those that were started
  DeviceId device{};     // where it runs, or ran last
  std::string device_name{};
  Instant started{}, ended{};
  std::string output{}, text{};
  std::optional<Error> error{};
  double ran_beside = 0;  // how many others on the mean, while it ran last
  std::optional<MeasuredLoads> measured{};

  [[nodiscard]] bool over() const { return stage == RunStage::kDone || stage == RunStage::kFailed; }
  [[nodiscard]] bool alone() const { return attempt > 0; }  // a waiting one that has lost a host
};

struct BookAction {
  enum class Kind : std::uint8_t {
    kStart,    // `run` on `device`
    kEndHost,  // of `device`: the book has given the device up already
    kOver,     // `run` is done or failed
  };
  Kind kind = Kind::kStart;
  core::RunId run{};
  DeviceId device{};
  friend bool operator==(const BookAction&, const BookAction&) = default;
};

/// How a run ended by its own account.
struct RunResult {
  std::string output{}, text{};
  std::optional<Error> error{};
  std::optional<MeasuredLoads> measured{};
};

class RunBook {
 public:
  static constexpr std::size_t kRunsMax = 10'000;  // those that are over and not acknowledged count
  static constexpr unsigned kAttemptsMax = 4;

  explicit RunBook(std::unique_ptr<core::Placement> placement) : placement_(std::move(placement)) {}

  /// kAlreadyExists, kInvalidArgument.
  Status AddDevice(DeviceId device, const std::string& name, const core::DeviceCapacity& capacity, Instant now,
                   std::vector<BookAction>& actions);
  /// Its host has ended. `guilty` is the run that ended it, 0: nobody knows; `why` is what that run fails with.
  /// Nothing where the device is not there.
  void LoseDevice(DeviceId device, core::RunId guilty, const Error& why, Instant now, std::vector<BookAction>& actions);

  /// The same id and request again changes nothing. kAlreadyExists: that id with another one; kResourceExhausted: too
  /// many runs. One that needs more memory than any device has fails at once.
  Result<const Run*> Submit(const std::string& id, const RunSpec& spec, Instant now, std::vector<BookAction>& actions);
  /// Of a run that runs on that device; anything else is left out, as its host may say what it likes.
  void Finish(DeviceId device, core::RunId run, RunResult result, Instant now, std::vector<BookAction>& actions);
  /// Forgets it. One that runs costs its device's host. False: there is none.
  bool Remove(const std::string& id, Instant now, std::vector<BookAction>& actions);
  /// Runs that have taken longer than they may.
  void Tick(Instant now, std::vector<BookAction>& actions);
  /// When Tick has something to do next.
  [[nodiscard]] std::optional<Instant> NextDeadline() const;

  [[nodiscard]] const Run* Find(const std::string& id) const;
  [[nodiscard]] const Run* Find(core::RunId run) const;
  [[nodiscard]] std::vector<const Run*> Runs() const;          // in the order in which they came
  [[nodiscard]] bool UsesBlob(const std::string& blob) const;  // by one that is not over

  struct DeviceView {
    DeviceId id{};
    std::string name{};
    core::DeviceCapacity capacity{};
    std::size_t running = 0, waiting = 0;  // waiting: those that name it
  };
  [[nodiscard]] std::vector<DeviceView> Devices() const;
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  /// What the placement has learned; none: it learns nothing.
  [[nodiscard]] const core::InterferenceModel* model() const { return placement_->model(); }

 private:
  struct Device {
    std::string name{};
    core::DeviceCapacity capacity{};
    Instant at{};  // up to when its runs' company is reckoned
  };

  void Advance(DeviceId id, Instant now);
  DeviceId ChooseDevice(const Run& run, core::RunNeed& need);
  void StartWhatFits(Instant now, std::vector<BookAction>& actions);
  void Start(Run& run, const core::RunNeed& need, DeviceId device, Instant now, std::vector<BookAction>& actions);
  void Close(Run& run, bool learn, Instant now);
  void End(Run& run, RunStage stage, Instant now, std::vector<BookAction>& actions);

  std::unique_ptr<core::Placement> placement_;
  core::ClusterState cluster_;
  std::map<DeviceId, Device> devices_;
  std::map<core::RunId, Run> runs_;
  std::map<std::string, core::RunId> numbers_;
  std::map<core::RunId, core::Company> company_;  // of those that run
  std::deque<core::RunId> waiting_;
  Bytes largest_{};  // memory of any device that was ever there: one may be away for a moment
  std::uint64_t last_number_ = 0;
};

}  // namespace weir::modules
