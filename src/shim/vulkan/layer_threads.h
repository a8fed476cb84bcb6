// SPDX-License-Identifier: Apache-2.0
// Finds the threads that run lavapipe's compute shaders. llvmpipe names its rasterizers "llvmpipe-N" and then starts as
// many threads for compute shaders, which have no name of their own. The layer names them, so that the meter of
// workers' CPU clocks, the tests and `top` recognise them.
//
//   threads by number:  main … | llvmpipe-0 llvmpipe-1  (unnamed) (unnamed)  …
//                              └ new during vkCreateDevice ┘ named llvmpipe-cs0, llvmpipe-cs1
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>

namespace weir::shim {

class DriverThreads {
 public:
  /// Notes the threads that exist.
  DriverThreads();
  /// Names the threads that llvmpipe has started since for compute shaders. A rasterizer gets its name only when it
  /// first runs, which a busy host may delay: waits for that, for two seconds at most. Does nothing if there are no new
  /// rasterizers, or if the process has more threads than this object notes.
  void NameNewWorkers() const;

 private:
  static constexpr std::size_t kMost = 1024;
  struct List {
    std::array<pid_t, kMost> tids{};
    std::size_t count = 0;  // more than kMost: too many
    [[nodiscard]] bool Has(pid_t tid) const;
  };
  static void Read(List& list);
  /// The new threads from the first rasterizer on.
  struct Row {
    std::size_t rasterizers = 0;
    std::size_t unnamed = 0;  // with the name of the thread that started them
    std::size_t early = 0;    // unnamed ones before the first rasterizer, which may be rasterizers that have not run
  };
  /// Names the first `most` of the unnamed ones.
  Row LookAtRow(const List& now, std::size_t most) const;

  List before_;
};

}  // namespace weir::shim
