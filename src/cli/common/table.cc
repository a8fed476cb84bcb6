// SPDX-License-Identifier: Apache-2.0
#include "cli/common/table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace weir::cli {
namespace {

constexpr std::array<std::string_view, 7> kEscapes{"",         "\x1b[1m",  "\x1b[2m", "\x1b[32m",
                                                   "\x1b[33m", "\x1b[31m", "\x1b[36m"};

/// Bytes of the UTF-8 sequence at the front of `text`; 0 when it isn't valid (overlong, surrogate, cut off).
std::size_t SequenceLength(std::string_view text, std::uint32_t& code_point) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return code_point = first, 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  code_point = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0U) != 0x80) return 0;
    code_point = code_point << 6 | (next & 0x3FU);
  }
  constexpr std::array<std::uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  return code_point < kLeast[length] || surrogate || code_point > 0x10FFFF ? 0 : length;
}

}  // namespace

std::string Styled(std::string_view text, Style style, bool color) {
  const std::string_view escape = kEscapes[static_cast<std::size_t>(style)];
  if (!color || escape.empty() || text.empty()) return std::string(text);
  return std::string(escape) + std::string(text) + "\x1b[0m";
}

std::string Printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::uint32_t code_point = 0;
    const std::size_t length = SequenceLength(text, code_point);
    const bool control = code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
    if (length == 0 || control)
      out += '?';
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::size_t DisplayWidth(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; }));
}

void Table::Add(std::vector<Cell> row) {
  WEIR_CHECK(row.size() == columns_.size());
  for (Cell& cell : row) cell.text = Printable(cell.text);
  rows_.push_back(std::move(row));
}

std::string Table::Render(bool color) const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = DisplayWidth(columns_[c].title);
    for (const auto& row : rows_)
      if (!row.empty()) width = std::max(width, DisplayWidth(row[c].text));
    widths.push_back(width);
  }
  std::string out;
  auto add_line = [&](auto&& cell_at) {
    std::string line;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const Cell cell = cell_at(c);
      const std::string padding(widths[c] - DisplayWidth(cell.text), ' ');
      const bool right = columns_[c].align == Align::kRight;
      const bool last = c + 1 == columns_.size();
      line += (right ? padding : "") + Styled(cell.text, cell.style, color) + (right || last ? "" : padding) +
              (last ? "" : "  ");
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  add_line([&](std::size_t c) { return Cell{columns_[c].title, Style::kStrong}; });
  for (const auto& row : rows_) {
    if (row.empty())
      out += '\n';
    else
      add_line([&](std::size_t c) { return row[c]; });
  }
  return out;
}

std::string Bar(double fraction, std::size_t width, Glyphs glyphs) {
  constexpr std::array<const char*, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clamped = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0;
  if (glyphs == Glyphs::kAscii) {
    const auto full = static_cast<std::size_t>(std::lround(clamped * static_cast<double>(width)));
    return std::string(full, '#') + std::string(width - full, '.');
  }
  const auto eighths = static_cast<std::size_t>(std::lround(clamped * static_cast<double>(width) * 8));
  std::string bar;
  for (std::size_t i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kEighths[eighths % 8];
  return bar + std::string(width - DisplayWidth(bar), ' ');
}

std::string Sparkline(std::span<const double> values, double top, std::size_t width, Glyphs glyphs) {
  constexpr std::array<const char*, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<const char*, 8> kAscii{"_", ".", ":", "-", "=", "+", "*", "#"};
  const auto& levels = glyphs == Glyphs::kUnicode ? kBlocks : kAscii;
  values = values.last(std::min(values.size(), width));
  std::string line(width - values.size(), ' ');
  for (const double value : values) {
    const double part = top > 0 && std::isfinite(value) ? std::clamp(value / top, 0.0, 1.0) : 0.0;
    line += levels[static_cast<std::size_t>(std::lround(part * static_cast<double>(levels.size() - 1)))];
  }
  return line;
}

std::string CutLine(std::string_view line, std::size_t columns) {
  std::string out;
  std::size_t used = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      const std::size_t end = std::min(line.find('m', i), line.size() - 1);
      out += line.substr(i, end - i + 1);
      i = end;
      continue;
    }
    const bool starts = (static_cast<unsigned char>(line[i]) & 0xC0U) != 0x80;
    if (starts && ++used > columns) continue;
    if (used <= columns) out += line[i];
  }
  return out;
}

}  // namespace weir::cli
