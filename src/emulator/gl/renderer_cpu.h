// SPDX-License-Identifier: Apache-2.0
// CPU time that Mesa's software renderer has used in this process.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <cstdint>
#include <map>

#include "base/units.h"

namespace weir::emulator::gl {

class RendererCpu {
 public:
  /// CPU time of all the renderer's threads since this object was made. It never decreases.
  Duration Used() noexcept;

 private:
  void Look(std::int64_t now_ns);
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::map<pid_t, std::int64_t> threads_;  // CPU time at the last look
  std::int64_t used_ns_ = 0;
  std::int64_t scanned_ns_ = 0;
};

}  // namespace weir::emulator::gl
