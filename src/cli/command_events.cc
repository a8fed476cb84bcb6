// SPDX-License-Identifier: Apache-2.0
// weir events: the node's decisions and their reasons.
#include <fmt/format.h>

#include <cstdio>
#include <deque>
#include <memory>

#include "cli/common/terminal.h"
#include "cli/event_text.h"
#include "cli/options.h"

namespace weir::cli {
namespace {

using nlohmann::json;

constexpr Duration kPollEvery = milliseconds(200);
constexpr int kPageEvents = 1000;

struct EventsFlags {
  std::int64_t last = 20;
  std::string vgpu;
  bool follow = false;
};

/// Reads the events after the last one that it has read. After a restart of the daemon, event numbers start at 1 again,
/// and the reader starts again as well.
class EventReader {
 public:
  explicit EventReader(ControlClient client) : client_(std::move(client)) {}

  /// One page of new events; empty: nothing new.
  Result<json> Next() {
    WEIR_TRY(json page, Page());
    const std::int64_t began = WholeField(page, "began_ns");
    restarted_ = began_ != 0 && began != began_;
    began_ = began;
    if (restarted_) {
      next_ = 0;
      WEIR_TRY(page, Page());
    }
    lost_ = WholeField(page, "lost");
    next_ = WholeField(page, "next");
    return page.value("events", json::array());
  }
  /// According to the last page.
  [[nodiscard]] bool restarted() const { return restarted_; }
  [[nodiscard]] std::int64_t lost() const { return lost_; }

 private:
  Result<json> Page() { return client_.Get(fmt::format("/v1/events?after={}&limit={}", next_, kPageEvents)); }

  ControlClient client_;
  std::int64_t next_ = 0, began_ = 0, lost_ = 0;
  bool restarted_ = false;
};

void Print(const Session& session, const EventsFlags& flags, const json& event) {
  if (!flags.vgpu.empty() && TextField(event, "vgpu") != flags.vgpu) return;
  if (session.json)
    fmt::print("{}\n", event.dump(-1, ' ', false, json::error_handler_t::replace));
  else
    fmt::print("{}", EventLine(EventFromJson(event), StdoutTakesColor()));
}

/// Prints the last events.
Status PrintLast(const Session& session, const EventsFlags& flags, EventReader& reader) {
  std::deque<json> last;
  while (true) {
    WEIR_TRY(const json page, reader.Next());
    if (page.empty()) break;
    for (const json& event : page) {
      if (!flags.vgpu.empty() && TextField(event, "vgpu") != flags.vgpu) continue;
      last.push_back(event);
      if (last.size() > static_cast<std::size_t>(flags.last)) last.pop_front();
    }
  }
  for (const json& event : last) Print(session, flags, event);
  return Ok();
}

Result<int> Follow(const Session& session, const EventsFlags& flags, EventReader& reader) {
  StopSignals signals;
  bool away = false;
  while (true) {
    std::fflush(stdout);
    if (signals.WaitFor(kPollEvery))
      return signals.StoppedByUser() ? 0 : signals.ExitCode();  // Ctrl-C is the normal end
    const auto page = reader.Next();
    if (!page) {
      if (!MayReturn(page.error())) return page.error();
      if (!away) Say("the daemon doesn't answer; waiting for it to return");
      away = true;
      continue;
    }
    if (reader.restarted())
      Say("the daemon was restarted; its events follow");
    else if (away)
      Say("the daemon answers again");
    away = false;
    if (reader.lost() > 0) Say(fmt::format("{} events were lost: the daemon keeps no more", reader.lost()));
    for (const json& event : *page) Print(session, flags, event);
  }
}

Result<int> Events(const Session& session, const EventsFlags& flags) {
  EventReader reader(session.client());
  WEIR_TRY_STATUS(PrintLast(session, flags, reader));
  if (!flags.follow) return 0;
  return Follow(session, flags, reader);
}

}  // namespace

void AddEvents(Command app, Session& session) {
  auto flags = std::make_shared<EventsFlags>();
  const Command command =
      AddCommand(app, "events", "Show what was sold, refused, moved and broken, with reasons",
                 "  weir events\n"
                 "  weir events --follow\n"
                 "  weir events -n 1000 --vgpu game\n"
                 "  weir events --follow -n 0 --json | jq -r 'select(.kind == \"broken\") | .vgpu'\n"
                 "\n"
                 "With --json each event is one line. docs/protocol/control-api.md explains the kinds.\n",
                 session);
  command.AddFlag("-f,--follow", flags->follow, "Continue with new events until Ctrl-C; waits while no daemon runs");
  command.AddWhole("-n,--last", "N", flags->last, "Number of latest events (default 20; the daemon keeps 10000)");
  command.Add("--vgpu", "NAME", flags->vgpu, "Only events of this vGPU");
  command.WhenGiven([flags, &session] { session.action = [flags, &session] { return Events(session, *flags); }; });
}

}  // namespace weir::cli
