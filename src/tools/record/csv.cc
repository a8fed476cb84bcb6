// SPDX-License-Identifier: Apache-2.0
#include "tools/record/csv.h"

#include <fmt/format.h>

#include <array>

#include "cli/common/table.h"

namespace weir::cli {
namespace {

constexpr const char* kUnknown = "NA";

/// The input from which the values of a row are computed.
struct CsvFrame {
  const FrameRow& row;
  const ProcessView& process;
  std::int64_t start_ns;
  std::int64_t between_presents_ns;  // -1: the surface's previous present is unknown
  double target_ms;
};

std::string Ms(std::int64_t ns) { return fmt::format("{:.4f}", static_cast<double>(ns) * 1e-6); }
std::string Known(bool known, std::int64_t ns) { return known ? Ms(ns) : kUnknown; }

/// A text cell, quoted if necessary. The text is a name that a tenant chooses, so it may contain any character.
std::string Text(const std::string& text) {
  std::string out;
  for (const char c : Printable(text)) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out.find_first_of(",\"") == std::string::npos ? out : '"' + out + '"';
}

bool HasBegin(const CsvFrame& f) { return f.row.begin_ns < f.row.present_ns; }
bool CountsBusyTime(const CsvFrame& f) {
  return f.process.meter == "worker-cpu-time" || f.process.meter == "present-cpu-time";
}
bool HasTimestamps(const CsvFrame& f) { return f.process.meter == "timer-query"; }

/// The interface that presented, as PresentMon's PresentRuntime.
std::string Runtime(const CsvFrame& f) {
  if (f.process.api == "gl") return "GL";
  if (f.process.api == "vulkan") return "Vulkan";
  return "Other";
}

std::string Nothing(const CsvFrame&) { return kUnknown; }

struct CsvColumn {
  const char* name;
  std::string (*value)(const CsvFrame&);
};

// The list of all columns; docs/record.md describes each. PresentMon's own columns come first, in its order.
constexpr std::array kCsvColumns{
    CsvColumn{"Application", [](const CsvFrame& f) { return Text(f.process.program); }},
    CsvColumn{"ProcessID", [](const CsvFrame& f) { return fmt::format("{}", f.row.pid); }},
    CsvColumn{"SwapChainAddress", [](const CsvFrame& f) { return fmt::format("0x{:X}", f.row.surface); }},
    CsvColumn{"PresentRuntime", Runtime},
    CsvColumn{"CPUStartTime", [](const CsvFrame& f) { return Ms(f.row.begin_ns - f.start_ns); }},
    CsvColumn{"MsBetweenAppStart", [](const CsvFrame& f) { return Known(HasBegin(f), f.row.end_ns - f.row.begin_ns); }},
    CsvColumn{
        "MsCPUBusy",
        [](const CsvFrame& f) { return Known(HasBegin(f), f.row.present_ns - f.row.begin_ns - f.row.start_delay_ns); }},
    CsvColumn{"MsCPUWait", [](const CsvFrame& f) { return Ms(f.row.end_ns - f.row.present_ns); }},
    CsvColumn{"MsGPULatency", Nothing},
    CsvColumn{"MsGPUTime", [](const CsvFrame& f) { return Known(HasTimestamps(f), f.row.gpu_ns); }},
    CsvColumn{"MsGPUBusy", [](const CsvFrame& f) { return Known(CountsBusyTime(f), f.row.gpu_ns); }},
    CsvColumn{"MsGPUWait", Nothing},
    CsvColumn{"DisplayLatency", Nothing},
    CsvColumn{"DisplayedTime", Nothing},
    CsvColumn{"MsAnimationError", Nothing},
    CsvColumn{"AnimationTime", Nothing},
    CsvColumn{"MsClickToPhotonLatency", Nothing},
    CsvColumn{"MsAllInputToPhotonLatency", Nothing},
    CsvColumn{"MsBetweenPresents",
              [](const CsvFrame& f) { return Known(f.between_presents_ns >= 0, f.between_presents_ns); }},
    CsvColumn{"MsInPresentAPI", [](const CsvFrame& f) { return Ms(f.row.end_ns - f.row.submit_ns); }},
    CsvColumn{"MsBetweenDisplayChange", Nothing},
    CsvColumn{"MsUntilDisplayed", Nothing},
    CsvColumn{"MsRenderPresentLatency", Nothing},
    CsvColumn{"TimeInSeconds",
              [](const CsvFrame& f) {
                return fmt::format("{:.6f}", static_cast<double>(f.row.present_ns - f.start_ns) * 1e-9);
              }},
    CsvColumn{"MsWeirGPU", [](const CsvFrame& f) { return Ms(f.row.gpu_ns); }},
    CsvColumn{"MsWeirSync", [](const CsvFrame& f) { return Ms(f.row.sync_ns); }},
    CsvColumn{"MsWeirPace", [](const CsvFrame& f) { return Ms(f.row.pace_ns); }},
    CsvColumn{"MsWeirWait", [](const CsvFrame& f) { return Ms(f.row.wait_ns); }},
    CsvColumn{"MsWeirStartDelay", [](const CsvFrame& f) { return Ms(f.row.start_delay_ns); }},
    CsvColumn{"MsWeirPredictedPresent",
              [](const CsvFrame& f) { return Known(f.row.predicted_ns > 0, f.row.predicted_ns); }},
    CsvColumn{"MsWeirTarget",
              [](const CsvFrame& f) {
                if (f.row.interval_ns > 0) return Ms(f.row.interval_ns);
                return f.target_ms > 0 ? fmt::format("{:.4f}", f.target_ms) : std::string(kUnknown);
              }},
};

}  // namespace

std::string CsvHeader() {
  std::string line;
  for (const CsvColumn& column : kCsvColumns) line += fmt::format("{}{}", line.empty() ? "" : ",", column.name);
  return line + '\n';
}

std::string CsvRows::Row(const FrameRow& row, const ProcessView& process) {
  Last& last = last_[{row.pid, row.surface}];
  // The time between presents is known only for consecutive frames. If a frame between them was lost, it is not.
  const bool neighbours = last.end_ns > 0 && last.end_ns == row.begin_ns;
  const CsvFrame frame{row, process, start_ns_, neighbours ? row.present_ns - last.present_ns : -1, target_ms_};
  last = {row.present_ns, row.end_ns};
  std::string line;
  for (const CsvColumn& column : kCsvColumns) {
    if (!line.empty()) line += ',';
    line += column.value(frame);
  }
  return line + '\n';
}

}  // namespace weir::cli
