// SPDX-License-Identifier: Apache-2.0
// Errors are values. Result<T> is a [[nodiscard]] subset of std::expected<T, Error> (C++20 with g++ 12 has none).
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/errc.h"

namespace weir {

/// Why an operation failed. `code` is for callers. `message` is for users: what was attempted, with which values, and
/// what to do about it.
struct Error {
  Errc code = Errc::kInternal;
  std::string message;
};

/// A value or an error. Asking for the one that it does not hold breaks an invariant and aborts (WEIR_CHECK).
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return WEIR_CHECK(has_value()), *std::get_if<0>(&state_); }
  const T& value() const& { return WEIR_CHECK(has_value()), *std::get_if<0>(&state_); }
  T&& value() && { return WEIR_CHECK(has_value()), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const& { return WEIR_CHECK(!has_value()), *std::get_if<1>(&state_); }
  [[nodiscard]] Error&& error() && { return WEIR_CHECK(!has_value()), std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

/// The result of an operation that has no value to return.
struct Unit {};
using Status = Result<Unit>;

inline Status Ok() { return Unit{}; }
inline Error Fail(Errc code, std::string message) { return Error{code, std::move(message)}; }

#define WEIR_CONCAT_INNER(a, b) a##b
#define WEIR_CONCAT(a, b) WEIR_CONCAT_INNER(a, b)

/// WEIR_TRY(auto fd, Open(path)): declares fd, or returns Open's error from this function.
#define WEIR_TRY(declaration, expression) WEIR_TRY_INNER(WEIR_CONCAT(weir_result_, __LINE__), declaration, expression)
#define WEIR_TRY_INNER(result, declaration, expression) \
  auto result = (expression);                           \
  if (!result) return std::move(result).error();        \
  declaration = std::move(result).value()

/// WEIR_TRY_STATUS(Write(fd)): continues on success, otherwise returns its error from this function.
#define WEIR_TRY_STATUS(expression)                          \
  do {                                                       \
    auto weir_status = (expression);                         \
    if (!weir_status) return std::move(weir_status).error(); \
  } while (false)

}  // namespace weir
