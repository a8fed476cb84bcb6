// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "cli/common/text_units.h"
#include "cli/options.h"
#include "http/address.h"
#include "tools/demo/demo.h"

namespace weir::cli {
namespace {

constexpr Duration kPhaseMin = seconds(1);

constexpr const char* kDemoExamples =
    "  weir demo\n"
    "  weir demo --seconds 5 --policies none,reserve --report /tmp/report.html\n"
    "  weir demo --device emulated:four-cards     # twelve programs on four emulated GPUs\n"
    "  weir demo --seconds 600 --dashboard 127.0.0.1:8080    # prints an address to open in a browser\n"
    "\n"
    "WHAT IT DOES\n"
    "  Starts its own daemon and, without an X display, Xvfb. Runs glmark2 twice and glxgears once, with the\n"
    "  weights 50, 30 and 20, changes the policy while they run, and records what each got. Needs the packages\n"
    "  glmark2-x11, mesa-utils and xvfb. Ends with 0 only if every program ran to the end and showed frames.\n";

}  // namespace

void AddDemo(Command app, Session& session) {
  auto options = std::make_shared<DemoOptions>();
  const Command command = AddCommand(
      app, "demo", "Three unmodified programs share a device, under one policy after another", kDemoExamples, session);
  command.AddParsed("--seconds", "TIME", options->phase, ParseDuration, "Time under each policy (default 15)");
  command.AddParsed(
      "--policies", "LIST", options->policies,
      [](const std::string& text) -> Result<std::vector<std::string>> { return SplitList(text); },
      "Policies, in order (default none,proportional-share,sla-aware,hybrid)");
  command.Add("--report", "FILE", options->report,
              "Where to write the report; empty: nowhere (default demo-report.html)");
  command.Add(
      "--device", "DEVICE", options->device,
      "Device to share: embedded, nvidia:GPU, drm:GPU or emulated:FILE, as for 'weir serve' (default: embedded)");
  command.AddParsed("--device-cpus", "LIST", options->device_cpus, ParseCpuList,
                    "CPUs of the embedded device (default: all)");
  command.Add("--dashboard", "HOST:PORT", options->dashboard,
              "Show the demo in a browser while it runs, at this address of this machine; port 0: any free one");
  command.AddFlag("--xvfb", options->own_display, "Use Xvfb even where there is a display");
  command.AddFlag("--keep", options->keep, "Keep the temporary folder with the programs' and the daemon's logs");
  command.WhenGiven([options, &session] {
    if (options->phase < kPhaseMin) RejectUsage("--seconds: must be at least 1");
    for (const std::string& policy : options->policies)
      if (policy.empty()) RejectUsage("--policies: has an empty name in its list");
    if (!options->dashboard.empty()) {
      const auto address = http::ParseAddress(options->dashboard);
      if (!address) RejectUsage("--dashboard: " + address.error().message);
      if (const std::string problem = http::ProblemOfPage(*address, false); !problem.empty())
        RejectUsage("--dashboard: " + problem);
    }
    session.action = [options, &session] {
      options->json = session.json;
      return RunDemo(*options);
    };
  });
}

}  // namespace weir::cli
