// SPDX-License-Identifier: Apache-2.0
// The device as the GL driver sees it. emulator_port.cc implements it with the emulator; tests have their own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/units.h"
#include "emulator/gl/stream.h"

namespace weir::emulator::gl {

class Port {
 public:
  /// Called once, on another thread. Times are those of the device's clock, which is CLOCK_MONOTONIC.
  using Done = std::function<void(Instant began, Instant ended)>;

  virtual ~Port() = default;
  /// False, and `done` is not called: the emulator is gone, or the device is lost.
  virtual bool Submit(Duration work, Done done) = 0;
  /// `done` is called when everything submitted before is complete and the display shows the frame. That is at least
  /// `interval` vertical blanks after the frame before.
  virtual bool Present(unsigned interval, Done done) = 0;
  /// For a forked child process: closes its copy of the parent's connection.
  virtual void CloseInChild() noexcept {}
  [[nodiscard]] virtual FrameCost cost() const = 0;
  /// How many batches the device's queue takes. A further one must wait until one of them is complete.
  [[nodiscard]] virtual std::size_t queue_depth() const = 0;
  /// False: programs are not rendered.
  [[nodiscard]] virtual bool drawn() const = 0;
  [[nodiscard]] virtual std::string name() const = 0;
};

/// Callbacks about the end of the device. They are called on another thread.
struct Fates {
  std::function<void()> gone;  // the emulator has gone
  std::function<void()> lost;  // the device is lost, or was reset; called before the completions that it fails
};

/// Connects to the emulator that this process's environment names. Null: this failed, and `error` says why.
std::unique_ptr<Port> ConnectPort(Fates fates, std::string& error);

}  // namespace weir::emulator::gl
