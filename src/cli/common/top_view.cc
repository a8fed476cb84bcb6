// SPDX-License-Identifier: Apache-2.0
#include "cli/common/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/common/text_units.h"

namespace weir::cli {
namespace {

constexpr std::size_t kBarColumns = 10;
constexpr std::size_t kSparkColumns = 20;  // minimum; wider sparklines are tried first
constexpr std::array<std::size_t, 2> kWiderSparks{kHistorySamples, 40};
constexpr std::size_t kProgramsMax = 3;  // programs shown by name; of further ones only the number is shown

Style StyleOfState(std::string_view state) {
  if (state == "running") return Style::kGood;
  if (state == "waiting") return Style::kAccent;
  if (state == "paused") return Style::kWarning;
  return Style::kFaint;
}

std::string ProgramsText(const VgpuView& v) {
  std::string text;
  for (std::size_t i = 0; i < v.processes.size() && i < kProgramsMax; ++i)
    text += fmt::format("{}{}({})", i == 0 ? "" : " ", v.processes[i].program, v.processes[i].pid);
  if (v.processes.size() > kProgramsMax) text += fmt::format(" and {} more", v.processes.size() - kProgramsMax);
  return text;
}

/// A received value beside the promised one, in a style that shows whether the promise is kept.
struct Got {
  std::string text;
  Style style = Style::kPlain;
};
Got Compare(std::string got, double promised, const char* unit, bool kept, Glyphs glyphs) {
  const bool ascii = glyphs == Glyphs::kAscii;
  const char* mark = kept ? (ascii ? "ok" : "✓") : (ascii ? "LOW" : "✗");
  return {fmt::format("{}/{:g} {} {}", got, promised, unit, mark), kept ? Style::kGood : Style::kBad};
}

/// The mean of a vGPU's processes, where `share` is the sum over their threads.
double OfEachProcess(const VgpuView& v, double share) {
  return std::min(share / static_cast<double>(std::max<std::size_t>(v.processes.size(), 1)), 1.0);
}

/// Whether the rate is below the promised one because the program waits for other vGPUs, and not because it wants fewer
/// frames.
bool WaitsForOthers(const VgpuView& v, const VgpuHistory& history) {
  constexpr double kSome = 0.1;  // fraction of the vGPU's frames, or of its time
  return history.BrokenFraction() >= kSome || v.window.wait_share >= kSome;
}

Got RateOf(const VgpuView& v, const VgpuHistory& history, Glyphs glyphs) {
  // Allows for the variation of an average over one second.
  constexpr double kWaver = 0.97;
  const std::string got = fmt::format("{:.1f}", v.window.fps);
  const char* unit = RateUnit(v);
  const double promised = PromisedRate(v);
  if (promised <= 0) return {fmt::format("{} {}", got, unit)};
  if (v.promise_ignored) return {fmt::format("{}/{:g} {} ignored", got, promised, unit), Style::kWarning};
  if (v.window.fps <= 0) return {fmt::format("{}/{:g} {}", got, promised, unit), Style::kFaint};  // no frames
  const bool kept = v.window.fps >= kWaver * promised;
  if (!kept && !WaitsForOthers(v, history)) return {fmt::format("{}/{:g} {}", got, promised, unit)};
  return Compare(got, promised, unit, kept, glyphs);
}

Got SlowestOf(const VgpuView& v, Glyphs glyphs) {
  const std::string got = fmt::format("{:.1f}", v.window.frame_ms_p99);
  const double promised_ms = MillisecondsOf(v.settings.latency);
  if (promised_ms <= 0 || v.promise_ignored || v.window.frame_ms_p99 <= 0) return {got};
  Got out = Compare(got, promised_ms, "", v.window.frame_ms_p99 <= promised_ms, glyphs);
  out.text.erase(out.text.find("  "), 1);  // Compare leaves a blank for the unit, which is empty
  return out;
}

double TopOf(const std::vector<double>& series, double least) {
  return std::max(least, series.empty() ? 0.0 : *std::max_element(series.begin(), series.end()));
}

std::string Late(const VgpuHistory& history, const VgpuView& v) {
  const bool promised = PromisedRate(v) > 0 || v.settings.latency > Duration{};
  return promised ? FormatPercent(history.LateFraction()) : "-";
}

struct Row {
  const VgpuView& v;
  const VgpuHistory& history;
  Glyphs glyphs;
  std::size_t spark_columns;
};

struct TopColumn {
  Table::Column column;
  int rank;  // the column with the highest rank is left out first; 0: always shown
  Cell (*cell)(const Row&);
};

Cell CellOf(const Got& got) { return {got.text, got.style}; }

constexpr auto kAlignRight = Table::Align::kRight;

// The list of all columns, in their order.
const std::array<TopColumn, 13>& Columns() {
  static const std::array<TopColumn, 13> kColumns{{
      {{"VGPU"},
       0,
       [](const Row& r) {
         return Cell{r.v.name, Style::kStrong};
       }},
      {{"STATE"},
       5,
       [](const Row& r) {
         return Cell{r.v.state, StyleOfState(r.v.state)};
       }},
      {{"GOT/PROMISED", kAlignRight}, 0, [](const Row& r) { return CellOf(RateOf(r.v, r.history, r.glyphs)); }},
      {{"RATE LATELY"},
       9,
       [](const Row& r) {
         return Cell{Sparkline(r.history.fps, TopOf(r.history.fps, PromisedRate(r.v)), r.spark_columns, r.glyphs),
                     Style::kAccent};
       }},
      {{"P50 ms", kAlignRight}, 6, [](const Row& r) { return Cell{fmt::format("{:.1f}", r.v.window.frame_ms_p50)}; }},
      {{"P99 ms", kAlignRight}, 2, [](const Row& r) { return CellOf(SlowestOf(r.v, r.glyphs)); }},
      {{"GPU", kAlignRight}, 1, [](const Row& r) { return Cell{FormatPercent(r.v.window.gpu_use)}; }},
      {{""},
       8,
       [](const Row& r) {
         return Cell{Bar(r.v.window.gpu_use, kBarColumns, r.glyphs), Style::kAccent};
       }},
      {{"WEIGHT/CAP", kAlignRight},
       7,
       [](const Row& r) {
         return Cell{fmt::format("{}/{}", r.v.settings.weight, FormatPercent(r.v.settings.cap.Fraction()))};
       }},
      {{"LATE", kAlignRight},
       3,
       [](const Row& r) {
         return Cell{Late(r.history, r.v), r.history.LateFraction() > 0.01 ? Style::kWarning : Style::kPlain};
       }},
      {{"WAIT", kAlignRight},
       4,
       [](const Row& r) { return Cell{FormatPercent(OfEachProcess(r.v, r.v.window.wait_share))}; }},
      {{"PACE", kAlignRight},
       10,
       [](const Row& r) { return Cell{FormatPercent(OfEachProcess(r.v, r.v.window.pace_share))}; }},
      {{"PROGRAMS"},
       11,
       [](const Row& r) {
         return Cell{ProgramsText(r.v), Style::kFaint};
       }},
  }};
  return kColumns;
}

Table MakeTable(const Snapshot& snapshot, const TopHistory& history, Glyphs glyphs, int rank_max,
                std::size_t spark_columns = kSparkColumns) {
  std::vector<Table::Column> shown;
  for (const TopColumn& one : Columns())
    if (one.rank <= rank_max) shown.push_back(one.column);
  Table table(std::move(shown));
  for (const VgpuView& v : snapshot.vgpus) {
    const Row row{v, history.OfVgpu(v.name), glyphs, spark_columns};
    std::vector<Cell> cells;
    for (const TopColumn& one : Columns())
      if (one.rank <= rank_max) cells.push_back(one.cell(row));
    table.Add(std::move(cells));
  }
  return table;
}

std::size_t WidthOf(const std::string& text) {
  std::size_t width = 0;
  for (const std::string& line : SplitList(text, '\n')) width = std::max(width, DisplayWidth(line));
  return width;
}

/// The table with as many columns as fit.
std::string RenderTable(const Snapshot& snapshot, const TopHistory& history, const TopOptions& options) {
  // The names of programs may be long. If this many columns are left for them, they are cut and not left out.
  constexpr std::size_t kProgramsColumns = 12;
  int rank = 0;
  for (const TopColumn& one : Columns()) rank = std::max(rank, one.rank);
  const auto width = [&](int rank_max, std::size_t spark_columns) {
    return WidthOf(MakeTable(snapshot, history, options.glyphs, rank_max, spark_columns).Render(false));
  };
  const auto make = [&](int rank_max, std::size_t spark_columns) {
    return MakeTable(snapshot, history, options.glyphs, rank_max, spark_columns).Render(options.color);
  };
  if (options.columns == 0) return make(rank, kSparkColumns);
  for (const std::size_t spark_columns : kWiderSparks)
    if (width(rank - 1, spark_columns) + 2 + kProgramsColumns <= options.columns) return make(rank, spark_columns);
  const bool cut = width(rank - 1, kSparkColumns) + 2 + kProgramsColumns <= options.columns;
  while (!cut && rank > 0 && width(rank, kSparkColumns) > options.columns) --rank;
  return make(rank, kSparkColumns);
}

std::string DeviceLine(const DeviceView& d, const std::vector<double>& use, const TopOptions& options) {
  constexpr std::size_t kWide = 140;
  const std::size_t spark_columns = options.columns >= kWide ? kHistorySamples : kSparkColumns;
  return fmt::format("{}  {}{}{}  GPU {} {:>4}  {}\n", Styled(Printable(d.name), Style::kStrong, options.color),
                     Styled(Printable(d.policy), Style::kAccent, options.color), d.policy_params.empty() ? "" : " ",
                     Printable(d.policy_params), Bar(d.gpu_use, kBarColumns, options.glyphs), FormatPercent(d.gpu_use),
                     Styled(Sparkline(use, 1, spark_columns, options.glyphs), Style::kAccent, options.color));
}

/// Cuts lines that are too wide for the terminal, and leaves out lines for which it has no room.
std::string Fit(const std::string& text, const TopOptions& options) {
  std::vector<std::string> lines = SplitList(text, '\n');
  lines.pop_back();  // the empty text after the last line end
  if (options.rows > 1 && lines.size() > options.rows) {
    const std::size_t left_out = lines.size() - (options.rows - 1);
    lines.resize(options.rows - 1);
    lines.push_back(fmt::format("and {} more", left_out));
  }
  std::string out;
  for (const std::string& line : lines) {
    const bool cut = options.columns > 0 && DisplayWidth(line) > options.columns;  // escapes count: cutting is harmless
    out += (cut ? CutLine(line, options.columns) + (options.color ? "\x1b[0m" : "") : line) + '\n';
  }
  return out;
}

}  // namespace

std::string RenderTop(const Snapshot& snapshot, const TopHistory& history, const TopOptions& options) {
  std::string out;
  for (const DeviceView& d : snapshot.devices) out += DeviceLine(d, history.UseOfDevice(d.name), options);
  out += '\n';
  out += snapshot.vgpus.empty() ? "no vGPUs; run a program with 'weir run -- PROGRAM'\n"
                                : RenderTable(snapshot, history, options);
  constexpr std::size_t kBesideMap = 48, kMapColumns = 64;
  const std::size_t map_columns =
      options.columns == 0 ? kMapColumns : std::max(options.columns, kBesideMap + kSparkColumns) - kBesideMap;
  for (const MemoryMapView& map : snapshot.memory)
    out += '\n' + MemoryLines(map, snapshot.vgpus, map_columns, options.color, options.glyphs);
  return Fit(out, options);
}

}  // namespace weir::cli
