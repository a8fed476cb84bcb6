// SPDX-License-Identifier: Apache-2.0
#include "cli/oversell_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "cli/common/table.h"
#include "cli/common/text_units.h"

namespace weir::cli {
namespace {

constexpr auto kRight = Table::Align::kRight;

/// A percentage rounded down, so that the shown offer can be bought.
std::string AtMost(double part) { return fmt::format("{:.0f} %", std::floor(part * 100 + 1e-6)); }

/// An amount in the currency of the prices; never "-0.0000".
std::string Money(double amount) { return fmt::format("{:.4f}", std::round(amount * 1e4) / 1e4 + 0.0); }

}  // namespace

std::string OfferText(const DeviceView& device) {
  const auto& o = device.oversell;
  if (!o.on()) return "any cap: selling is off";
  const double most = std::max(o.guaranteed, o.oversold);
  const std::string why = o.reason.empty() ? "" : ": " + o.reason;
  if (most < 0.01) return "nothing but best effort" + why;
  if (o.oversold <= o.guaranteed) return fmt::format("{}, guaranteed{}", AtMost(most), why);
  if (o.guaranteed < 0.01) return fmt::format("{}, oversold{}", AtMost(most), why);
  return fmt::format("{}, oversold; {} guaranteed{}", AtMost(most), AtMost(o.guaranteed), why);
}

std::string OversellText(const DeviceView& device, const std::vector<VgpuView>& vgpus, bool color) {
  const auto& o = device.oversell;
  std::string out;
  auto line = [&out](const char* name, const std::string& value) {
    out += fmt::format("{:<14}{}\n", name, Printable(value));
  };
  line("device", device.name);
  line("selling", o.mode.empty() ? "unknown: the daemon is older than this weir" : o.mode);
  line("can be sold", OfferText(device));
  line("sold", FormatPercent(o.sold));
  if (o.on()) {
    line("load", FormatPercent(o.load));
    line("earned", fmt::format("{} = {} - {} penalty - {} cost", Money(o.net), Money(o.revenue), Money(o.penalty),
                               Money(o.cost)));
    line("broken", fmt::format("{} of {} with programs", FormatDuration(FromSeconds(o.broken_s)),
                               FormatDuration(FromSeconds(o.sold_s))));
  }
  Table table(
      {{"VGPU"}, {"SOLD AS"}, {"CEILING", kRight}, {"CAP NOW", kRight}, {"USE", kRight}, {"PROMISE"}, {"FPS", kRight}});
  for (const VgpuView& v : vgpus)
    if (v.device == device.name)
      table.Add({{v.name, Style::kStrong},
                 {o.on() ? v.sale : "-"},
                 {FormatPercent(v.settings.cap.Fraction())},
                 {FormatPercent(v.cap_now)},
                 {FormatPercent(v.window.gpu_use)},
                 {PromiseText(v)},
                 {fmt::format("{:.1f}", v.window.fps)}});
  return table.empty() ? out : out + "\n" + table.Render(color);
}

std::string OversellParamsText(const std::vector<ParamView>& params, const std::vector<DeviceView>& devices,
                               bool color) {
  std::vector<Table::Column> columns{{"PARAMETER"}};
  for (const DeviceView& device : devices) columns.push_back({device.name, kRight});
  columns.insert(columns.end(), {{"DEFAULT", kRight}, {"RANGE"}, {"WHAT IT IS"}});
  Table table(std::move(columns));
  for (const ParamView& param : params) {
    std::vector<Cell> row{{param.name, Style::kStrong}};
    for (const DeviceView& device : devices) {
      const auto found = std::ranges::find(device.oversell.params, param.name, &std::pair<std::string, double>::first);
      row.push_back({found == device.oversell.params.end() ? "-" : fmt::format("{:g}", found->second)});
    }
    row.insert(row.end(), {{DefaultText(param)}, {RangeText(param)}, {param.summary}});
    table.Add(std::move(row));
  }
  return table.Render(color);
}

}  // namespace weir::cli
