// SPDX-License-Identifier: Apache-2.0
#include "cli/common/frame_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/common/views.h"

namespace weir::cli {
namespace {

using nlohmann::json;

struct RowColumn {
  const char* name;
  std::int64_t FrameRow::*field;
  bool needed = false;
};
constexpr std::array kRowColumns{
    RowColumn{"pid", &FrameRow::pid, true},
    RowColumn{"surface", &FrameRow::surface},
    RowColumn{"begin_ns", &FrameRow::begin_ns, true},
    RowColumn{"present_ns", &FrameRow::present_ns, true},
    RowColumn{"submit_ns", &FrameRow::submit_ns},
    RowColumn{"end_ns", &FrameRow::end_ns, true},
    RowColumn{"gpu_ns", &FrameRow::gpu_ns},
    RowColumn{"sync_ns", &FrameRow::sync_ns},
    RowColumn{"pace_ns", &FrameRow::pace_ns},
    RowColumn{"wait_ns", &FrameRow::wait_ns},
    RowColumn{"predicted_ns", &FrameRow::predicted_ns},
    RowColumn{"interval_ns", &FrameRow::interval_ns},
    RowColumn{"start_delay_ns", &FrameRow::start_delay_ns},
};
using Positions = std::array<std::optional<std::size_t>, kRowColumns.size()>;

Error Unreadable(const std::string& what) {
  return Fail(Errc::kProtocol,
              fmt::format("cannot read the daemon's frames: {}; is it of another version than this weir?", what));
}

Result<Positions> FindColumns(const json& reply) {
  const auto names = reply.find("columns");
  if (names == reply.end() || !names->is_array()) return Unreadable("its reply names no columns");
  Positions positions;
  for (std::size_t i = 0; i < kRowColumns.size(); ++i) {
    const auto found = std::find(names->begin(), names->end(), json(kRowColumns[i].name));
    if (found != names->end())
      positions[i] = static_cast<std::size_t>(found - names->begin());
    else if (kRowColumns[i].needed)
      return Unreadable(fmt::format("there is no column '{}'", kRowColumns[i].name));
  }
  return positions;
}

Result<FrameRow> RowFromJson(const json& fields, const Positions& positions) {
  FrameRow row;
  for (std::size_t i = 0; i < kRowColumns.size(); ++i) {
    if (!positions[i]) continue;
    const bool number = fields.is_array() && *positions[i] < fields.size() && fields[*positions[i]].is_number_integer();
    if (!number) return Unreadable(fmt::format("a row has no whole number in its column '{}'", kRowColumns[i].name));
    row.*kRowColumns[i].field = fields[*positions[i]].get<std::int64_t>();
  }
  if (!positions[4]) row.submit_ns = row.present_ns;
  const bool in_order = 0 <= row.begin_ns && row.begin_ns <= row.present_ns && row.present_ns <= row.submit_ns &&
                        row.submit_ns <= row.end_ns && 0 <= row.start_delay_ns &&
                        row.start_delay_ns <= row.present_ns - row.begin_ns;
  if (!in_order) return Unreadable("the times of a row are not in order");
  return row;
}

}  // namespace

Result<FrameRows> FrameRowsFromJson(const json& reply) {
  const auto list = reply.find("frames");
  if (list == reply.end() || !list->is_array()) return Unreadable("its reply contains no list of them");
  FrameRows out{WholeField(reply, "next"), WholeField(reply, "lost"), {}};
  WEIR_TRY(const Positions positions, FindColumns(reply));
  out.rows.reserve(list->size());
  for (const json& fields : *list) {
    WEIR_TRY(const FrameRow row, RowFromJson(fields, positions));
    out.rows.push_back(row);
  }
  return out;
}

}  // namespace weir::cli
