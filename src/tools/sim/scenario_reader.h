// SPDX-License-Identifier: Apache-2.0
// Reads a table of a scenario file key by key. Every key is known or refused, with its line.
#pragma once

#include <fmt/format.h>

// Debian's library is built with exceptions, which Weir does not use, so only the headers are used.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/oversubscribe/oversell.h"
#include "core/schedule/policy.h"
#include "sim/scenario.h"

namespace weir::cli {

inline constexpr double kForever = 1e7;  // s; more than any run

/// Reads the keys of one table. The first fault is kept. A key that was not read is a fault.
class ScenarioReader {
 public:
  ScenarioReader(const toml::table& table, std::string place) : table_(table), place_(std::move(place)) {}

  template <typename T>
  void Text(const char* key, T& value) {
    if (const toml::node* node = Take(key)) {
      if (const auto text = node->value_exact<std::string>())
        value = *text;
      else
        Complain(*node, fmt::format("'{}' is not a text", key));
    }
  }
  void Number(const char* key, double& value, double min, double max) {
    const toml::node* node = Take(key);
    if (node == nullptr) return;
    const auto number = node->is_number() ? node->value<double>() : std::nullopt;
    if (!number || !std::isfinite(*number) || *number < min || *number > max)
      return Complain(*node, fmt::format("'{}' is not a number from {:g} to {:g}", key, min, max));
    value = *number;
  }
  void Whole(const char* key, auto& value, double min, double max) {
    double number = static_cast<double>(value);
    Number(key, number, min, max);
    if (number != std::floor(number)) Complain(*table_.get(key), fmt::format("'{}' is not a whole number", key));
    value = static_cast<std::remove_reference_t<decltype(value)>>(number);
  }
  void Flag(const char* key, bool& value) {
    if (const toml::node* node = Take(key)) {
      if (const auto flag = node->value_exact<bool>())
        value = *flag;
      else
        Complain(*node, fmt::format("'{}' is neither true nor false", key));
    }
  }
  /// Reads a duration in units of `unit_s` seconds.
  void Span(const char* key, Duration& value, double unit_s, double max_s = kForever) {
    double number = SecondsOf(value) / unit_s;
    Number(key, number, 0, max_s / unit_s);
    value = FromSeconds(number * unit_s);
  }
  void Names(const char* key, std::vector<std::string>& value) {
    const toml::node* node = Take(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr) return Complain(*node, fmt::format("'{}' is not a list", key));
    for (const toml::node& one : *array)
      if (const auto text = one.value_exact<std::string>())
        value.push_back(*text);
      else
        return Complain(one, fmt::format("'{}' holds something that is not a text", key));
  }
  void Numbers(const char* key, std::vector<double>& value) {
    const toml::node* node = Take(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr) return Complain(*node, fmt::format("'{}' is not a list", key));
    for (const toml::node& one : *array)
      if (const auto number = one.is_number() ? one.value<double>() : std::nullopt)
        value.push_back(*number);
      else
        return Complain(one, fmt::format("'{}' holds something that is not a number", key));
  }
  /// Reads a size in MiB, a whole number. A fraction of a MiB in `value` is dropped.
  void Memory(const char* key, Bytes& value) {
    std::uint64_t mb = value.count >> 20;
    Whole(key, mb, 0, 1 << 24);
    value = MiB(mb);
  }
  void Settings(engine::VgpuSettings& settings);
  /// Reads a policy with its parameters and checks them against the table of policies.
  void Policy(std::string& policy, core::PolicyParams& params);
  /// Reads how the device is sold, with the parameters of overselling.
  void Oversell(core::OversellMode& mode, core::PolicyParams& params);
  /// Reads how the device's memory is divided, with the parameters of elastic memory.
  void MemoryOfRun(sim::Run& run);
  const toml::table* Table(const char* key) {
    const toml::node* node = Take(key);
    if (node != nullptr && !node->is_table()) Complain(*node, fmt::format("'{}' is not a table", key));
    return node != nullptr ? node->as_table() : nullptr;
  }
  /// Calls `use` with a reader of each table of a list, and takes over its fault.
  template <typename F>
  void Each(const char* key, F use) {
    const toml::node* node = Take(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr || (!array->empty() && !array->is_array_of_tables()))
      return Complain(*node, fmt::format("'{}' is not a list of tables: write [[{}]]", key, key));
    for (const toml::node& one : *array) {
      ScenarioReader reader(*one.as_table(), place_);
      use(reader);
      if (auto status = reader.End(); !status && fault_.empty()) fault_ = status.error().message;
    }
  }
  template <typename F>
  void Sub(const char* key, F use) {
    if (const toml::table* table = Table(key)) {
      ScenarioReader reader(*table, place_);
      use(reader);
      if (auto status = reader.End(); !status && fault_.empty()) fault_ = status.error().message;
    }
  }
  [[nodiscard]] bool Has(const char* key) const { return table_.contains(key); }
  void Complain(const std::string& text) { Complain(table_, text); }
  /// The first fault, or an error about a key that was not read.
  Status End();
  const toml::table& table() const { return table_; }

 private:
  const toml::node* Take(const char* key) {
    taken_.insert(key);
    return table_.get(key);
  }
  void Complain(const toml::node& node, const std::string& text) {
    if (fault_.empty()) fault_ = fmt::format("{}:{}: {}", place_, node.source().begin.line, text);
  }

  const toml::table& table_;
  const std::string place_;
  std::set<std::string, std::less<>> taken_;
  std::string fault_;
};

}  // namespace weir::cli
