// SPDX-License-Identifier: Apache-2.0
// The device as the GL driver sees it: emulator_port.cc is the emulator's; tests have their own.
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
  /// `done` is called when everything submitted before it is complete and the display shows it: at the vertical blank
  /// that is `interval` or more after that of the frame before.
  virtual bool Present(unsigned interval, Done done) = 0;
  /// In a child process that was forked: gives up the connection, which is the parent's.
  virtual void CloseInChild() noexcept {}
  [[nodiscard]] virtual FrameCost cost() const = 0;
  /// False: programs are not rendered.
  [[nodiscard]] virtual bool drawn() const = 0;
  [[nodiscard]] virtual std::string name() const = 0;
};

/// What the device's fate is told to, on another thread.
struct Fates {
  std::function<void()> gone;  // the emulator has gone
  std::function<void()> lost;  // the device is lost, or was reset: before the completions that tell so are called
};

/// Connects to the emulator of this process's environment. Null, and `error` says why: there is none.
std::unique_ptr<Port> ConnectPort(Fates fates, std::string& error);

}  // namespace weir::emulator::gl
