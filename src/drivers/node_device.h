// SPDX-License-Identifier: Apache-2.0
// One device of a node, by the node's control API (docs/protocol/control-api.md): what it sells, and the vGPUs of an
// engine's consumers.
#pragma once

#include <functional>
#include <string>

#include "drivers/driver_loop.h"
#include "drivers/shares.h"
#include "http/message.h"

namespace weir::drivers {

class NodeDevice {
 public:
  /// Asks the node's daemon; tests have their own.
  using Ask = std::function<Result<http::Answer>(const http::Call& call)>;

  /// `device` empty: the only one the node has; kInvalidArgument where it has several.
  static Result<NodeDevice> Find(Ask ask, std::string device, std::string prefix);

  [[nodiscard]] const std::string& name() const { return device_; }
  /// kNotFound where the device has gone; kBusy where it changed while it was looked at, again and again.
  [[nodiscard]] Result<NodeView> See() const;
  /// kMakeVgpu (one that is there already is left), kSetCap, kRemoveVgpu (one that isn't there is good).
  [[nodiscard]] Status Do(const Action& action) const;

 private:
  NodeDevice(Ask ask, std::string device, std::string prefix)
      : ask_(std::move(ask)), device_(std::move(device)), prefix_(std::move(prefix)) {}

  Ask ask_;
  std::string device_;
  std::string prefix_;
};

}  // namespace weir::drivers
