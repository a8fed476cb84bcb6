// SPDX-License-Identifier: Apache-2.0
// The control API (docs/protocol/control-api.md) as calls: JSON in, JSON out; its errors become Error values.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "http/client.h"

namespace weir::cli {

class ControlClient {
 public:
  static constexpr Duration kTimeout = seconds(5);

  explicit ControlClient(std::string socket_path, Duration timeout = kTimeout)
      : socket_path_(std::move(socket_path)), timeout_(timeout) {}

  /// Each returns the reply, a JSON object.
  [[nodiscard]] Result<nlohmann::json> Get(const std::string& target) const;
  [[nodiscard]] Result<nlohmann::json> Post(const std::string& target, const nlohmann::json& body) const;
  [[nodiscard]] Result<nlohmann::json> Post(const std::string& target) const;
  [[nodiscard]] Result<nlohmann::json> Put(const std::string& target, const nlohmann::json& body) const;
  [[nodiscard]] Result<nlohmann::json> Patch(const std::string& target, const nlohmann::json& body) const;
  [[nodiscard]] Result<nlohmann::json> Delete(const std::string& target) const;

  /// The reply as it is. For what is not JSON.
  [[nodiscard]] Result<std::string> GetText(const std::string& target) const;

  [[nodiscard]] const std::string& socket_path() const { return socket_path_; }

 private:
  [[nodiscard]] Result<http::Answer> Call(const char* method, const std::string& target, std::string body) const;
  [[nodiscard]] Result<nlohmann::json> Ask(const char* method, const std::string& target, std::string body) const;

  std::string socket_path_;
  Duration timeout_;
};

using http::PercentEncode;

inline std::string VgpuTarget(std::string_view name) { return "/v1/vgpus/" + PercentEncode(name); }

/// Whether the daemon that did not answer may return. A live view then waits for it.
bool MayReturn(const Error& error);

}  // namespace weir::cli
