// SPDX-License-Identifier: Apache-2.0
// A port of the emulated GL driver with the device model in the program's own process, in real time: for tests of the
// driver without the emulator. The environment describes the device:
//
//   WEIR_MODEL_FRAME_US   fixed cost of a frame; without it, the cost is measured
//   WEIR_MODEL_DRAWN=0    nothing is rendered
//   WEIR_MODEL_TRUTH      file that gets, at the end of the process, "COMMANDS BUSY_NS"
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/device/device_model.h"
#include "emulator/gl/port.h"
#include "platform/clock.h"

namespace weir::emulator::gl {
namespace {

constexpr Duration kRefresh = FromSeconds(1.0 / 60);

class ModelPort final : public Port {
 public:
  ModelPort() : thread_([this] { Run(); }) {}
  ModelPort(const ModelPort&) = delete;
  ~ModelPort() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  std::size_t queue_depth() const override { return 1024; }  // the model has no limit
  bool Submit(Duration work, Done done) override {
    const std::lock_guard lock(mutex_);
    const Instant now = Advance();
    core::DeviceCommand command;
    command.tag = ++last_tag_;
    command.work = work;
    if (!model_.Submit(now, command)) return false;
    waits_.emplace(command.tag, std::move(done));
    changed_.notify_all();
    return true;
  }
  bool Present(unsigned interval, Done done) override {
    const std::lock_guard lock(mutex_);
    presents_.push_back({last_tag_, kRefresh * interval, std::move(done)});
    changed_.notify_all();
    return true;
  }
  FrameCost cost() const override {
    const char* us = std::getenv("WEIR_MODEL_FRAME_US");
    return us != nullptr ? FrameCost{.fixed = microseconds(std::atoi(us))} : FrameCost{};
  }
  bool drawn() const override {
    const char* drawn = std::getenv("WEIR_MODEL_DRAWN");
    return drawn == nullptr || *drawn != '0';
  }
  std::string name() const override { return "Model"; }

  void WriteTruth() {
    const char* path = std::getenv("WEIR_MODEL_TRUTH");
    if (path == nullptr) return;
    const std::lock_guard lock(mutex_);
    const Instant now = Advance();
    std::ofstream(path) << last_tag_ - model_.Outstanding(0) << ' '
                        << model_.Busy(core::EngineKind::kCompute, now).count() << '\n';
  }

 private:
  struct Shown {
    std::uint64_t after;  // the last command that was submitted before
    Duration interval;
    Done done;
  };

  Instant Advance() {
    const Instant now = platform::Now();
    model_.Advance(now, completed_);
    return now;
  }
  /// The next frame that the display shows, and when. kNoEvent: none is complete.
  Instant NextBlank() {
    if (presents_.empty() || (!waits_.empty() && waits_.begin()->first <= presents_.front().after))
      return core::DeviceModel::kNoEvent;
    if (blank_ == Instant{}) {
      const Instant next{(platform::Now().time_since_epoch() / kRefresh + 1) * kRefresh};
      blank_ = std::max(next, last_blank_ + presents_.front().interval);
    }
    return blank_;
  }
  void Run() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      const Instant now = Advance();
      std::vector<std::pair<Done, std::pair<Instant, Instant>>> ready;
      for (const core::DeviceCompletion& one : std::exchange(completed_, {})) {
        const auto wait = waits_.find(one.command.tag);
        ready.push_back({std::move(wait->second), {one.began, one.ended}});
        waits_.erase(wait);
      }
      while (NextBlank() <= now) {
        last_blank_ = std::exchange(blank_, Instant{});
        ready.push_back({std::move(presents_.front().done), {last_blank_, last_blank_}});
        presents_.pop_front();
      }
      lock.unlock();
      for (auto& [done, times] : ready) done(times.first, times.second);
      lock.lock();
      if (!ready.empty() || !completed_.empty()) continue;
      const Instant next = std::min(model_.NextEvent(), NextBlank());
      if (next == core::DeviceModel::kNoEvent)
        changed_.wait(lock);
      else if (next > platform::Now())
        changed_.wait_for(lock, next - platform::Now());
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  core::DeviceModel model_{core::DeviceConfig{}};
  std::vector<core::DeviceCompletion> completed_;
  std::map<std::uint64_t, Done> waits_;  // by tag
  std::deque<Shown> presents_;
  Instant blank_{}, last_blank_{};
  std::uint64_t last_tag_ = 0;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

std::unique_ptr<Port> ConnectPort(Fates /*fates*/, std::string& /*error*/) {
  static ModelPort* port = nullptr;  // the driver that owns it is never destroyed
  auto made = std::make_unique<ModelPort>();
  port = made.get();
  std::atexit([] { port->WriteTruth(); });
  return made;
}

}  // namespace weir::emulator::gl
