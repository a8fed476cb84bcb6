// SPDX-License-Identifier: Apache-2.0
#include "http/route.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::http {

/// Divides a path: the parts of "/v1/vgpus/a/pause" are "v1", "vgpus", "a" and "pause".
Route::Parts::Parts(std::string_view path) {
  while (!path.empty() && count < kPartsMax) {
    if (path.front() == '/') path.remove_prefix(1);
    const std::size_t end = std::min(path.find('/'), path.size());
    if (end > 0) part[count++] = path.substr(0, end);
    path.remove_prefix(end);
  }
}

Route::Route(const Request& request) : request_(request), parts_(request.path) {}

bool Route::At(std::string_view pattern) const {
  const Parts wanted(pattern);
  if (wanted.count != parts_.count) return false;
  for (std::size_t i = 0; i < wanted.count; ++i)
    if (wanted.part[i] != "*" && wanted.part[i] != parts_.part[i]) return false;
  return true;
}

bool Route::Is(std::string_view methods, std::string_view pattern) const {
  if (request_.method.find(' ') != std::string::npos) return false;
  const std::string words = " " + std::string(methods) + " ";
  return words.find(" " + request_.method + " ") != std::string::npos && At(pattern);
}

std::string Route::Part(std::size_t index) const {
  return index < parts_.count ? std::string(parts_.part[index]) : std::string();
}

Error Route::NotFound(std::string_view page) const {
  return Fail(Errc::kNotFound, fmt::format("no {} {} in this API; see {}", request_.method, request_.path, page));
}

Error Route::WrongMethod(std::string_view methods) const {
  return Fail(Errc::kInvalidArgument,
              fmt::format("{} {}: this path takes only {}", request_.method, request_.path, methods));
}

}  // namespace weir::http
