// SPDX-License-Identifier: Apache-2.0
// Memory of graphs whose nodes allocate. The driver has a pool for them on each device, of which it says how many bytes
// it has reserved. It reserves memory when a graph is launched or uploaded, and keeps it when the graph has ended and
// when it is destroyed, until the program trims the pool or resets the device:
//
//   instantiated ──▶ launch: what it may need is claimed ──▶ the driver reserves ──▶ the claim becomes what is reserved
//                        ▲            │
//                        │            └─ no room: the pool is trimmed, once; still none: CUDA_ERROR_OUT_OF_MEMORY,
//                        │               unless the graph was launched in this stream last, and the stream still works
//                        └─ again, in the same stream: it needs nothing more
//
// Nodes whose lifetimes do not overlap have the same address, so that what a graph needs at a time is the union of its
// nodes' addresses. Graphs that are launched in one stream use the same memory if they free all of it.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/cuda/claims.h"
#include "shim/cuda/streams.h"

namespace weir::shim::cuda {

/// What a graph needs of each device's pool.
struct GraphNeeds {
  struct One {
    int device = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<One> each;
  bool keeps = false;  // a node's memory is not freed in the graph
};

GraphNeeds NeedsOf(CudaHandle graph);

/// An executable graph was made. What was known of an earlier one with its handle is forgotten: graphs also end with
/// their context.
void NoteExecutable(CudaHandle executable, const GraphNeeds& needs);
/// It is about to end, and its handle may be used again. Returns what it needs.
GraphNeeds ForgetExecutable(CudaHandle executable);
/// The device was reset: all graphs that need memory of it have ended.
void ForgetExecutables(int device);

/// Counts what the driver has reserved on the device now. If it has become less, each graph may need memory again.
void CountGraphMemory(int device);

/// A launch or an upload of an executable graph.
class GraphUse {
 public:
  GraphUse(CudaHandle executable, CudaHandle stream, bool per_thread);
  /// Of a graph that is not known by a handle yet.
  GraphUse(const GraphNeeds& needs, CudaHandle stream, bool per_thread);
  ~GraphUse();
  GraphUse(const GraphUse&) = delete;
  GraphUse& operator=(const GraphUse&) = delete;

  [[nodiscard]] bool granted() const { return granted_; }
  /// The driver has begun the graph: its memory is reserved.
  void Begun() { begun_ = true; }

 private:
  void Begin(CudaHandle stream, bool per_thread);
  [[nodiscard]] bool TryClaim(bool runs);
  void End();

  CudaHandle executable_ = nullptr;
  GraphNeeds needs_;
  StreamKey key_;
  std::vector<GraphNeeds::One> missing_;  // of needs_, what the pools may have to grow by
  std::uint64_t claimed_ = 0;             // for all of missing_, and not yet given to a pool
  bool granted_ = true, begun_ = false;
};

}  // namespace weir::shim::cuda
