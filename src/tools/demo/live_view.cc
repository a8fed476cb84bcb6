// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/live_view.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/common/table.h"
#include "cli/common/terminal.h"
#include "cli/common/text_units.h"

namespace weir::cli {
namespace {

constexpr const char* NameOf(Part part) {
  switch (part) {
    case Part::kWarmUp: return "warming up";
    case Part::kMeasuring: return "measuring";
    case Part::kFinishing: break;
  }
  return "finishing";
}

}  // namespace

LiveView::LiveView(std::FILE* out)
    : out_(out), in_place_(isatty(fileno(out)) != 0), color_(in_place_ && StdoutTakesColor()) {
  if (in_place_) fmt::print(out_, "\x1b[?25l");
}

LiveView::~LiveView() {
  if (!in_place_) return;
  std::fputs("\x1b[?25h", out_);
  std::fflush(out_);
}

void LiveView::Show(const Snapshot& snapshot, const std::string& policy, Part part, Duration elapsed, Duration span) {
  if (!in_place_) {
    next_line_ = std::max(next_line_, std::min(kLineEvery, span / 2));  // the first line appears after a moment
    if (part != Part::kMeasuring || elapsed < next_line_) return;
    next_line_ += kLineEvery;
    fmt::print(out_, "{}, {:.0f} of {:g} s:", policy, SecondsOf(elapsed), SecondsOf(span));
    for (const VgpuView& v : snapshot.vgpus)
      fmt::print(out_, "  {} {} at {:.0f} fps", Printable(v.name), FormatPercent(v.window.gpu_share), v.window.fps);
    fmt::print(out_, "\n");
    std::fflush(out_);
    return;
  }
  history_.Add(snapshot);
  const TopOptions view{color_, TerminalGlyphs(), SizeOfTerminal(fileno(out_)).columns, 0};
  const std::string picture = fmt::format(
      "{}: {} {:.1f} of {:.1f} s {}\n{}", Styled(policy, Style::kStrong, color_), NameOf(part), SecondsOf(elapsed),
      SecondsOf(span), Bar(SecondsOf(elapsed) / SecondsOf(span), 20), RenderTop(snapshot, history_, view));
  std::string drawn = lines_ == 0 ? "" : fmt::format("\x1b[{}A", lines_);
  lines_ = 0;
  for (const std::string& line : SplitList(picture, '\n')) {
    if (line.empty() && lines_ == static_cast<std::size_t>(std::count(picture.begin(), picture.end(), '\n'))) break;
    drawn += CutLine(line, view.columns) + "\x1b[0m\x1b[K\n";
    ++lines_;
  }
  fmt::print(out_, "{}\x1b[J", drawn);
  std::fflush(out_);
}

void LiveView::FinishPhase() {
  if (in_place_) fmt::print(out_, "\n");
  lines_ = 0;
  next_line_ = Duration(0);
}

}  // namespace weir::cli
