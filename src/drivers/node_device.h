// SPDX-License-Identifier: Apache-2.0
// One device of a node through the node's control API (docs/protocol/control-api.md): its offer, and the vGPUs of an
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
  /// Sends a request to the node's daemon; tests substitute it.
  using Ask = std::function<Result<http::Answer>(const http::Call& call)>;

  /// `device` empty: the node's only device; kInvalidArgument if it has several.
  static Result<NodeDevice> Find(Ask ask, std::string device, std::string prefix);

  [[nodiscard]] const std::string& name() const { return device_; }
  /// kNotFound: the device has gone; kBusy: it kept changing while it was read.
  [[nodiscard]] Result<NodeView> See() const;
  /// kMakeVgpu (no effect if it exists), kResize, kSqueeze, kRemoveVgpu (succeeds if it does not exist).
  [[nodiscard]] Status Do(const Action& action) const;

 private:
  NodeDevice(Ask ask, std::string device, std::string prefix)
      : ask_(std::move(ask)), device_(std::move(device)), prefix_(std::move(prefix)) {}

  Ask ask_;
  std::string device_;
  std::string prefix_;
};

}  // namespace weir::drivers
