// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/text_units.h"
#include "cli/top_view.h"

namespace weir::cli {
namespace {

constexpr Duration kIntervalMin = milliseconds(100);

struct Flags {
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

Result<int> Top(const Session& session, const Flags& flags) {
  const ControlClient client = session.client();
  const bool color = StdoutTakesColor() && !flags.no_color;
  if (flags.once) {
    if (session.json) return PrintJsonOnce(client);
    WEIR_TRY(const Snapshot snapshot, TakeSnapshot(client));
    fmt::print("{}", RenderTop(snapshot, color));
    return 0;
  }
  WEIR_TRY_STATUS(TakeSnapshot(client));  // an error is shown before the screen is taken
  StopSignals signals;
  const AlternateScreen screen(!session.json);
  while (true) {
    if (session.json) {
      WEIR_TRY_STATUS(PrintJsonOnce(client));
    } else {
      WEIR_TRY(const Snapshot snapshot, TakeSnapshot(client));
      screen.Home();
      fmt::print("{}\n", RenderTop(snapshot, color));
      if (StdoutIsTerminal()) fmt::print("every {}; Ctrl-C ends it\n", FormatDuration(flags.interval));
    }
    std::fflush(stdout);
    if (signals.WaitFor(flags.interval))
      return signals.Asked() ? 0 : signals.ExitCode();  // Ctrl-C is how it is meant to end
  }
}

}  // namespace

void AddTop(CLI::App& app, Session& session) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = AddCommand(
      app, "top", "Watch who gets what",
      "  weir top\n"
      "  weir top --interval 250ms\n"
      "  weir top --once --no-color\n"
      "\n"
      "COLUMNS\n"
      "  PROMISE the rate or latency promised; FPS of the last second; MEAN and P99 of a frame's latency (the time\n"
      "  between two presents) in the last 10 s; GPU of the device's capacity; SHARE of what all vGPUs used;\n"
      "  WAIT of wall time at the gate; LATE frames that broke the promise, since the vGPU was made.\n",
      session);
  AddParsed(*command, "--interval", "TIME", flags->interval, ParseDuration, "Time between two pictures (default 1 s)");
  command->add_flag("--once", flags->once, "Print one picture and end");
  command->add_flag("--no-color", flags->no_color, "No colours (NO_COLOR in the environment does it too)");
  command->callback([flags, &session] {
    if (flags->interval < kIntervalMin) throw CLI::ValidationError("--interval", "must be at least 100ms");
    session.action = [flags, &session] { return Top(session, *flags); };
  });
}

}  // namespace weir::cli
