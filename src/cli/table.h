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

/// `text` in that style's colour, or as it is.
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

  /// As many cells as there are columns.
  void Add(std::vector<Cell> row);
  /// A blank line between groups of rows.
  void AddGap() { rows_.emplace_back(); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }

  /// Lines, each ended by '\n'. Texts are made printable: a tenant's program may carry any name.
  [[nodiscard]] std::string Render(bool color) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// `text` with control characters (escape sequences would steer the terminal) and invalid UTF-8 replaced by '?'.
std::string Printable(std::string_view text);

/// Columns that valid UTF-8 takes on a terminal, at one a code point.
std::size_t DisplayWidth(std::string_view text);

/// What a terminal's font is expected to have.
enum class Glyphs : std::uint8_t { kUnicode, kAscii };

/// A bar of `width` columns filled to `fraction` (0 … 1) in eighths, "███▌    ", or with "####....".
std::string Bar(double fraction, std::size_t width, Glyphs glyphs = Glyphs::kUnicode);

/// The last `width` of the values, each a column as high as its part of `top`: "▁▂▅█", or "_.=#". Fewer values are put
/// to the right, where the newest one is.
std::string Sparkline(std::span<const double> values, double top, std::size_t width, Glyphs glyphs = Glyphs::kUnicode);

/// The first `columns` of a line; escape sequences take none.
std::string CutLine(std::string_view line, std::size_t columns);

}  // namespace weir::cli
