// SPDX-License-Identifier: Apache-2.0
// The text in which a DRM driver of Linux reports a client's use: /proc/PID/fdinfo/FD of a file that the client has
// opened (the kernel's document "drm-usage-stats"). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"

namespace weir::account {

struct DrmClient {
  std::string driver;                                     // such as "amdgpu"
  std::string pdev;                                       // the PCI address; empty: the device has none
  std::uint64_t id = 0;                                   // the same for all descriptors of one open file
  std::vector<std::pair<std::string, Duration>> engines;  // busy times by name
  /// The driver counts only cycles, as Intel's xe does. Cycles are not read.
  bool counts_cycles = false;

  [[nodiscard]] Duration Sum() const;
  friend bool operator==(const DrmClient&, const DrmClient&) = default;
};

inline constexpr std::size_t kFdinfoBytesMax = 16 * 1024;
inline constexpr std::size_t kFdinfoEnginesMax = 64;

/// Empty: the text does not describe a DRM client, or a value is not a number.
std::optional<DrmClient> ParseFdinfo(std::string_view text);

std::string FdinfoText(const DrmClient& client);

}  // namespace weir::account
