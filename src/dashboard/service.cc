// SPDX-License-Identifier: Apache-2.0
#include "dashboard/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "dashboard/page.h"
#include "http/async_client.h"
#include "http/json_api.h"

namespace weir::dashboard {
namespace {

using http::EventStream;
using nlohmann::ordered_json;

constexpr const char* kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::int64_t NowMs() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The value of a query's only part: "device=a" is {"device", "a"}. Names need no decoding: access.cc accepts others
/// only percent-encoded, and neither a vGPU nor a device has such a name.
std::pair<std::string, std::string> OnlyPart(const std::string& query) {
  const std::size_t equals = std::min(query.find('='), query.size());
  return {query.substr(0, equals), query.substr(std::min(equals + 1, query.size()))};
}

}  // namespace

Service::Service(boost::asio::io_context& loop, std::string control, std::string node)
    : loop_(loop),
      control_(std::move(control)),
      node_(std::move(node)),
      look_(loop, control_,
            {.seen = [this](Sight sight) { OnSeen(std::move(sight)); },
             .away = [this](const std::string& why) { OnAway(why); }}) {}

void Service::Start(Site site) {
  site_ = std::move(site);
  look_.Start();
}

http::Limits Service::Limits() {
  http::Limits limits{.request_bytes = kBodyBytesMax, .connections = 128, .connections_per_address = 96};
  limits.refuse = [this](const http::Request& head) { return Refusal(head); };
  limits.headers = {{"Content-Security-Policy", kContentSecurityPolicy},
                    {"X-Content-Type-Options", "nosniff"},
                    {"Referrer-Policy", "no-referrer"},
                    {"Cache-Control", "no-store"}};
  limits.too_large = TooLarge();
  return limits;
}

std::optional<http::Reply> Service::Refusal(const http::Request& head) const {
  if (!site_) return http::ErrorReply(Fail(Errc::kUnavailable, "the dashboard does not serve yet"));
  const Decision decision = Decide(*site_, head);
  if (decision.accepted()) return std::nullopt;
  return ReplyOf(decision);
}

void Service::Handle(const http::Request& request, const http::Respond& respond) {
  if (auto refusal = Refusal(request)) return respond(std::move(*refusal));
  const Decision decision = Decide(*site_, request);
  switch (decision.subject) {
    case Subject::kPage: {
      const PageFile* const file = FindPage(request.path);
      if (file == nullptr) return respond(http::ErrorReply(Fail(Errc::kInternal, "this file is missing")));
      return respond({200, std::string(file->content_type), std::string(file->content)});
    }
    case Subject::kStream: return OpenStream(respond);
    case Subject::kHistory: return respond(HistoryReply(request));
    case Subject::kControl: return PassOn(request, decision.target, respond);
  }
}

void Service::OpenStream(const http::Respond& respond) {
  DropEnded();
  if (pages_.size() >= kStreamsMax)
    return respond(http::ErrorReply(
        Fail(Errc::kUnavailable, fmt::format("{} pages are open, which is the most; close one", kStreamsMax))));
  auto stream = std::make_shared<EventStream>([this, alive = std::weak_ptr(alive_)] {
    if (alive.lock()) DropEnded();
  });
  const ordered_json hello{{"format", 1},
                           {"weir", WEIR_VERSION},
                           {"node", node_},
                           {"read_only", site_->read_only},
                           {"tick_ms", kWatchedEvery.count()}};
  stream->Send(EventStream::Format("hello", CompactText(hello)));
  Page& page = pages_.emplace_back(Page{.stream = stream});
  if (!why_away_.empty()) {
    page.told_away = true;
    stream->Send(EventStream::Format("away", CompactText(ordered_json{{"message", why_away_}})));
  }
  look_.WantLists();
  look_.SetWatched(true);
  respond({.content_type = EventStream::kContentType, .body = {}, .events = std::move(stream)});
}

http::Reply Service::HistoryReply(const http::Request& request) const {
  if (request.query.empty()) return {200, "application/json", history_.OfDevices(NowMs())};
  const auto [key, name] = OnlyPart(request.query);
  if (key != "device" && key != "vgpu")
    return http::ErrorReply(
        Fail(Errc::kInvalidArgument, "the history takes ?device=NAME or ?vgpu=NAME, not '" + request.query + "'"));
  auto text = key == "device" ? history_.OfDevice(NowMs(), name) : history_.OfVgpu(NowMs(), name);
  if (!text) return http::ErrorReply(text.error());
  return {200, "application/json", std::move(*text)};
}

void Service::PassOn(const http::Request& request, const std::string& target, const http::Respond& respond) {
  if (asked_ >= kAskedMax)
    return respond(http::ErrorReply(Fail(Errc::kUnavailable, "too many requests wait for the daemon; try again")));
  ++asked_;
  const http::Call call{.method = request.method,
                        .target = target,
                        .body = request.method == "GET" ? std::string() : request.body,
                        .if_absent = "start it with 'weir serve'"};
  http::AskUnixAsync(loop_, control_, call, kDaemonAnswersWithin, kLookBytesMax,
                     [this, alive = std::weak_ptr(alive_), respond](Result<http::Answer> answer) {
                       if (!alive.lock()) return;
                       --asked_;
                       if (!answer) return respond(http::ErrorReply(answer.error()));
                       respond({answer->status, "application/json", std::move(answer->body)});
                     });
}

void Service::OnSeen(Sight sight) {
  history_.Add(sight.at_ms, sight.samples);
  if (sight.names) history_.SeeNames(*sight.names);
  const bool is_back = !std::exchange(why_away_, {}).empty();
  const EventStream::Text lists = sight.lists ? EventStream::Format("lists", *sight.lists) : nullptr;
  const EventStream::Text tick = EventStream::Format("tick", sight.tick);
  EventStream::Text events;
  if (!sight.events.empty() || sight.events_lost > 0) {
    std::vector<const DecisionEvent*> all;
    for (const DecisionEvent& event : sight.events) all.push_back(&event);
    events = EventStream::Format("events", CompactText(EventsJson(sight.events_lost, all)));
  }
  history_.AddEvents(sight.events_lost, std::move(sight.events));
  bool lists_wanted = false;
  for (Page& page : pages_) {
    if (is_back && std::exchange(page.told_away, false)) page.stream->Send(EventStream::Format("back", "{}"));
    if (lists) {
      page.stream->Send(lists);
      page.has_lists = true;
    }
    if (page.has_lists) page.stream->Send(tick);
    if (events) page.stream->Send(events);
    lists_wanted = lists_wanted || !page.has_lists;
  }
  if (lists_wanted) look_.WantLists();
  DropEnded();
}

void Service::OnAway(const std::string& why) {
  why_away_ = why.empty() ? "the daemon does not answer" : why;
  const EventStream::Text away = EventStream::Format("away", CompactText(ordered_json{{"message", why_away_}}));
  for (Page& page : pages_)
    if (!std::exchange(page.told_away, true)) page.stream->Send(away);
  DropEnded();
}

void Service::DropEnded() {
  std::erase_if(pages_, [](const Page& page) { return page.stream->ended(); });
  look_.SetWatched(!pages_.empty());
}

}  // namespace weir::dashboard
