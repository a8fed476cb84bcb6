// SPDX-License-Identifier: Apache-2.0
// Polls the node at a fixed cadence, for all pages and for the history, and reports when the daemon does not answer.
// Runs in its owner's loop and does not block it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "dashboard/samples.h"

namespace weir::dashboard {

/// The interval of polls ("looks") while a page is open, and while none is.
inline constexpr std::chrono::milliseconds kWatchedEvery{250};
inline constexpr std::chrono::milliseconds kUnwatchedEvery{1000};
/// While a page is open, lists are requested after this time even if the layout is the same.
inline constexpr Duration kListsEvery = seconds(5);
/// The daemon must answer within this time.
inline constexpr Duration kLookAnswersWithin = seconds(2);
inline constexpr std::uint64_t kLookBytesMax = std::uint64_t{32} << 20;

/// The time until the next look. Looks are in the middle of the clock's spans of `every`, so that each span has one
/// look, even if a look is up to half a span late. Pure.
std::chrono::milliseconds UntilNextLook(std::int64_t utc_ms, std::chrono::milliseconds every);

/// The result of a look.
struct Sight {
  std::int64_t at_ms = 0;  // UTC
  Samples samples;
  std::string tick;                            // the data of the event `tick`
  std::optional<std::string> lists;            // the data of the event `lists`, if they were requested
  std::optional<std::vector<VgpuName>> names;  // as in the lists, if they were requested
  std::uint64_t events_lost = 0;
  std::vector<DecisionEvent> events;  // since the last look
};

class Look {
 public:
  struct Hears {
    std::function<void(Sight)> seen;
    std::function<void(const std::string& why)> away;  // called for each look that fails
  };
  Look(boost::asio::io_context& loop, std::string control, Hears hears);
  Look(const Look&) = delete;
  Look& operator=(const Look&) = delete;

  void Start() { Arm(); }
  /// Whether a page is open.
  void SetWatched(bool watched);
  /// Makes the next look request the lists.
  void WantLists() { want_lists_ = true; }

 private:
  using Json = nlohmann::json;
  void Arm();
  void Begin();
  void Ask(const std::string& target, void (Look::*then)(const Json&));
  void OnSamples(const Json& body);
  void OnDevices(const Json& body);
  void OnVgpus(const Json& body);
  void AskEvents();
  void OnEvents(const Json& body);
  void End();
  void Fail(const std::string& why);

  boost::asio::io_context& loop_;
  boost::asio::steady_timer timer_;
  const std::string control_;
  const Hears hears_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  bool watched_ = false;
  bool looking_ = false;
  bool want_lists_ = true;
  std::uint64_t layout_ = 0;        // as of the last lists
  Instant lists_at_{};              // when the lists were last requested
  std::int64_t began_ns_ = 0;       // identifies the daemon whose events were read
  std::uint64_t events_after_ = 0;  // number of the last event that was read
  int event_pages_ = 0;             // pages of events that this look has requested
  Sight sight_;
  Json devices_;
};

}  // namespace weir::dashboard
