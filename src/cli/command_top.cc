// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/common/terminal.h"
#include "cli/common/text_units.h"
#include "cli/common/top_view.h"
#include "cli/options.h"
#include "platform/clock.h"

namespace weir::cli {
namespace {

constexpr Duration kIntervalMin = milliseconds(100);
constexpr const char* kAwayText = "the daemon doesn't answer; waiting for it to return";

struct TopFlags {
  Duration interval = seconds(1);
  bool once = false;
  bool no_color = false;
};

Result<int> PrintJsonOnce(const ControlClient& client) {
  WEIR_TRY(const auto devices, client.Get("/v1/devices"));
  WEIR_TRY(const auto vgpus, client.Get("/v1/vgpus"));
  PrintJson({{"devices", devices.value("devices", nlohmann::json::array())},
             {"vgpus", vgpus.value("vgpus", nlohmann::json::array())}});
  return 0;
}

TopOptions OptionsOf(const TopFlags& flags) {
  const TerminalSize size = SizeOfTerminal(STDOUT_FILENO);
  const std::size_t rows = size.rows > 2 ? size.rows - 2 : 0;  // minus a blank line and the line about the key to quit
  return {StdoutTakesColor() && !flags.no_color, TerminalGlyphs(), size.columns, rows};
}

Result<int> PrintOnce(const Session& session, const TopFlags& flags) {
  if (session.json) return PrintJsonOnce(session.client());
  WEIR_TRY(const Snapshot snapshot, TakeSnapshot(session.client()));
  TopHistory history;
  history.Add(snapshot);
  TopOptions options = OptionsOf(flags);
  options.rows = 0;  // the user can scroll back
  fmt::print("{}", RenderTop(snapshot, history, options));
  return 0;
}

Result<int> PrintJsonForEver(const ControlClient& client, const TopFlags& flags) {
  WEIR_TRY_STATUS(PrintJsonOnce(client));  // at the start, a missing daemon is an error
  StopSignals signals;
  bool away = false;
  while (true) {
    std::fflush(stdout);
    if (signals.WaitFor(flags.interval)) return signals.StoppedByUser() ? 0 : signals.ExitCode();
    const auto printed = PrintJsonOnce(client);
    if (!printed && !MayReturn(printed.error())) return printed.error();
    if (!printed && !away) Say(kAwayText);
    away = !printed;
  }
}

/// Takes a new snapshot and redraws after each interval, and redraws when the terminal's size changes. While no daemon
/// answers, the last table stays.
Result<int> Live(const ControlClient& client, const TopFlags& flags) {
  WEIR_TRY(Snapshot snapshot, TakeSnapshot(client));  // an error is shown before the alternate screen
  StopSignals signals;
  const AlternateScreen screen(true);
  Keyboard keyboard(StdoutIsTerminal());
  const std::string hint = StdoutIsTerminal() ? fmt::format("\nevery {}; {} ends it\n", FormatDuration(flags.interval),
                                                            keyboard.fd() >= 0 ? "q" : "Ctrl-C")
                                              : "";
  TopHistory history;
  history.Add(snapshot);
  std::string away;
  while (true) {
    const Instant next = platform::Now() + flags.interval;
    for (bool show = true; platform::Now() < next;) {
      if (show) screen.Show(fmt::format("{}{}{}", RenderTop(snapshot, history, OptionsOf(flags)), away, hint));
      std::fflush(stdout);
      const Woke woke = signals.WaitForMore(std::max(next - platform::Now(), Duration(0)), keyboard.fd());
      if (woke == Woke::kStopSignal)
        return signals.StoppedByUser() ? 0 : signals.ExitCode();  // Ctrl-C is the normal end
      if (woke == Woke::kKey && keyboard.TakeQuit()) return 0;
      show = woke == Woke::kResize;
    }
    auto taken = TakeSnapshot(client);
    if (!taken && !MayReturn(taken.error())) return taken.error();
    away = taken ? "" : fmt::format("\n{}\n", kAwayText);
    if (!taken) continue;
    snapshot = *std::move(taken);
    history.Add(snapshot);
  }
}

Result<int> Top(const Session& session, const TopFlags& flags) {
  if (flags.once) return PrintOnce(session, flags);
  if (session.json) return PrintJsonForEver(session.client(), flags);
  return Live(session.client(), flags);
}

}  // namespace

void AddTop(Command app, Session& session) {
  auto flags = std::make_shared<TopFlags>();
  const Command command = AddCommand(
      app, "top", "Watch the use of each vGPU",
      "  weir top\n"
      "  weir top --interval 250ms\n"
      "  weir top --once --no-color\n"
      "\n"
      "KEYS\n"
      "  q ends it.\n"
      "\n"
      "COLUMNS\n"
      "  GOT/PROMISED  the rate of the last second, in frames (or tasks of a program that computes), and the promised\n"
      "                rate; whether the promise is kept, or that the policy ignores promised rates\n"
      "  RATE LATELY   the rate at the last 60 refreshes\n"
      "  P50, P99 ms   time between two presents in the last 10 s; P99 beside the promised latency\n"
      "  GPU           GPU time in the last second, as a part of the device\n"
      "  WEIGHT/CAP    the settings\n"
      "  LATE          late frames, as a part of the frames of the last 60 refreshes\n"
      "  WAIT          the part of the time that a process of the vGPU waits at the gate\n"
      "  PACE          the part of the time that a process is delayed to keep its rate\n"
      "  Columns that don't fit are left out, PROGRAMS first.\n",
      session);
  command.AddParsed("--interval", "TIME", flags->interval, ParseDuration, "Time between two refreshes (default 1 s)");
  command.AddFlag("--once", flags->once, "Print the table once and end");
  command.AddFlag("--no-color", flags->no_color, "No colours (NO_COLOR in the environment does it too)");
  command.WhenGiven([flags, &session] {
    if (flags->interval < kIntervalMin) RejectUsage("--interval: must be at least 100ms");
    session.action = [flags, &session] { return Top(session, *flags); };
  });
}

}  // namespace weir::cli
