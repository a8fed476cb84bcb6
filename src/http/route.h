// SPDX-License-Identifier: Apache-2.0
// The path of a request, compared with the paths of an API.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/message.h"

namespace weir::http {

/// Refers to the request, which must outlive it.
class Route {
 public:
  explicit Route(const Request& request);

  /// Whether the request has this path. A part of the pattern that is '*' stands for any part.
  [[nodiscard]] bool At(std::string_view pattern) const;
  /// Whether the request also has one of these methods, as "GET" or "GET PUT".
  [[nodiscard]] bool Is(std::string_view methods, std::string_view pattern) const;
  /// A part of the path, counted from 0: part 2 of /v1/vgpus/a is "a". Empty: the path has no such part.
  [[nodiscard]] std::string Part(std::size_t index) const;

  /// The error (kNotFound) for a request with a path that the API does not have. `page` documents the API.
  [[nodiscard]] Error NotFound(std::string_view page) const;
  /// The error (kInvalidArgument) for a path that exists, but not with this method.
  [[nodiscard]] Error WrongMethod(std::string_view methods) const;

 private:
  // One part more than the longest path of an API, so that a longer path matches none.
  static constexpr std::size_t kPartsMax = 6;
  struct Parts {
    std::array<std::string_view, kPartsMax> part{};
    std::size_t count = 0;
    explicit Parts(std::string_view path);
  };

  const Request& request_;
  Parts parts_;
};

}  // namespace weir::http
