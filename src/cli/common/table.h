// SPDX-License-Identifier: Apache-2.0
// A table for a terminal: columns as wide as their widest cell, two blanks apart.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::cli {

enum class Style : std::uint8_t { kPlain, kStrong, kFaint, kGood, kWarning, kBad, kAccent };

/// `text` in the colour of the style, or unchanged without colour.
std::string Styled(std::string_view text, Style style, bool color);

struct Cell {
  std::string text;
  Style style = Style::kPlain;
};

class Table {
 public:
  enum class Align : std::uint8_t { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// `row` must have as many cells as there are columns.
  void Add(std::vector<Cell> row);
  /// A blank line between groups of rows.
  void AddGap() { rows_.emplace_back(); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }

  /// Lines that end with '\n'. Texts are made printable, because a tenant's program may have any name.
  [[nodiscard]] std::string Render(bool color) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// `text` with control characters (escape sequences would steer the terminal) and invalid UTF-8 replaced by '?'.
std::string Printable(std::string_view text);

/// The columns of valid UTF-8 on a terminal, at one for each code point.
std::size_t DisplayWidth(std::string_view text);

/// Characters that the terminal's font is assumed to have.
enum class Glyphs : std::uint8_t { kUnicode, kAscii };

/// A bar of `width` columns filled to `fraction` (0 … 1) in eighths, "███▌    ", or with "####....".
std::string Bar(double fraction, std::size_t width, Glyphs glyphs = Glyphs::kUnicode);

/// The last `width` values, each as a column with its fraction of `top` as height: "▁▂▅█", or "_.=#". Fewer values are
/// aligned to the right, where the newest one is.
std::string Sparkline(std::span<const double> values, double top, std::size_t width, Glyphs glyphs = Glyphs::kUnicode);

/// The first `columns` columns of a line; escape sequences have no width.
std::string CutLine(std::string_view line, std::size_t columns);

}  // namespace weir::cli
