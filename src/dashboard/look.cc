// SPDX-License-Identifier: Apache-2.0
#include "dashboard/look.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "http/async_client.h"
#include "http/json_api.h"
#include "platform/clock.h"

namespace weir::dashboard {
namespace {

constexpr std::uint64_t kEventsOfAPage = 1000;
constexpr int kEventPagesMax = 12;  // the daemon keeps 10,000 events

std::int64_t UtcMs() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::chrono::milliseconds UntilNextLook(std::int64_t utc_ms, std::chrono::milliseconds every) {
  const std::int64_t step = every.count(), middle = step / 2;
  const std::int64_t since = ((utc_ms - middle) % step + step) % step;  // the last middle of a span
  return std::chrono::milliseconds(step - since);
}

Look::Look(boost::asio::io_context& loop, std::string control, Hears hears)
    : loop_(loop), timer_(loop), control_(std::move(control)), hears_(std::move(hears)) {}

void Look::SetWatched(bool watched) {
  if (std::exchange(watched_, watched) == watched || looking_) return;
  Arm();
}

void Look::Arm() {
  timer_.expires_after(UntilNextLook(UtcMs(), watched_ ? kWatchedEvery : kUnwatchedEvery));
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error) {
    if (!error && alive.lock()) Begin();
  });
}

void Look::Begin() {
  looking_ = true;
  sight_ = {};
  event_pages_ = 0;
  Ask("/v1/samples", &Look::OnSamples);
}

void Look::Ask(const std::string& target, void (Look::*then)(const Json&)) {
  const http::Call call{.method = "GET", .target = target, .if_absent = "start it with 'weir serve'"};
  const auto heard = [this, alive = std::weak_ptr(alive_), target, then](Result<http::Answer> answer) {
    if (!alive.lock()) return;
    if (!answer) return Fail(answer.error().message);
    const auto body = http::ObjectOf(*answer, fmt::format("asked the daemon at {} for GET {}", control_, target));
    if (!body) return Fail(body.error().message);
    (this->*then)(*body);
  };
  http::AskUnixAsync(loop_, control_, call, kLookAnswersWithin, kLookBytesMax, heard);
}

void Look::OnSamples(const Json& body) {
  auto samples = SamplesFrom(body);
  if (!samples) return Fail(samples.error().message);
  sight_.at_ms = UtcMs();
  sight_.samples = std::move(*samples);
  Json tick = body;
  tick["at_ms"] = sight_.at_ms;
  sight_.tick = CompactText(tick);
  const bool late = watched_ && platform::Now() - lists_at_ >= kListsEvery;
  if (!want_lists_ && !late && sight_.samples.layout == layout_) return AskEvents();
  want_lists_ = false;
  lists_at_ = platform::Now();
  Ask("/v1/devices", &Look::OnDevices);
}

void Look::OnDevices(const Json& body) {
  devices_ = body.value("devices", Json());
  if (!devices_.is_array()) return Fail("the daemon's answer is malformed: it has no list of devices");
  Ask("/v1/vgpus", &Look::OnVgpus);
}

void Look::OnVgpus(const Json& body) {
  auto names = VgpuNamesFrom(body);
  if (!names) return Fail(names.error().message);
  sight_.names = std::move(*names);
  sight_.lists = CompactText(Json{{"devices", std::exchange(devices_, Json())}, {"vgpus", body.at("vgpus")}});
  // If the layout has changed since the samples, the next look notices it.
  layout_ = sight_.samples.layout;
  AskEvents();
}

void Look::AskEvents() {
  ++event_pages_;
  Ask(fmt::format("/v1/events?after={}&limit={}", events_after_, kEventsOfAPage), &Look::OnEvents);
}

void Look::OnEvents(const Json& body) {
  auto page = EventPageFrom(body);
  if (!page) return Fail(page.error().message);
  if (page->began_ns != began_ns_) {
    // Another daemon answers, whose events are numbered from 1. Its lists may differ although its layout has the same
    // number.
    const bool other = std::exchange(began_ns_, page->began_ns) != 0;
    want_lists_ = want_lists_ || (other && !sight_.lists);
    if (std::exchange(events_after_, 0) != 0) return AskEvents();
  }
  events_after_ = page->next;
  sight_.events_lost += page->lost;
  const bool more = page->events.size() >= kEventsOfAPage && event_pages_ < kEventPagesMax;
  sight_.events.insert(sight_.events.end(), std::make_move_iterator(page->events.begin()),
                       std::make_move_iterator(page->events.end()));
  if (more) return AskEvents();
  End();
}

void Look::End() {
  looking_ = false;
  Arm();
  hears_.seen(std::move(sight_));
}

void Look::Fail(const std::string& why) {
  looking_ = false;
  want_lists_ = true;
  Arm();
  hears_.away(why);
}

}  // namespace weir::dashboard
