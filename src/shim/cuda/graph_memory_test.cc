// SPDX-License-Identifier: Apache-2.0
// What is claimed for graphs whose nodes allocate, on a driver whose pool reserves what the test says.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <list>
#include <utility>

#include "tests/harness/counted_memory.h"

// NOLINTBEGIN(readability-identifier-naming): the names are the driver's
extern "C" {
weir::shim::cuda::CudaResult cuGraphInstantiateWithFlags(weir::shim::cuda::CudaHandle*, weir::shim::cuda::CudaHandle,
                                                         unsigned long long);
weir::shim::cuda::CudaResult cuGraphInstantiateWithParams(weir::shim::cuda::CudaHandle*, weir::shim::cuda::CudaHandle,
                                                          void*);
weir::shim::cuda::CudaResult cuGraphExecDestroy(weir::shim::cuda::CudaHandle);
weir::shim::cuda::CudaResult cuGraphUpload(weir::shim::cuda::CudaHandle, weir::shim::cuda::CudaHandle);
weir::shim::cuda::CudaResult cuDeviceGraphMemTrim(int);
}
// NOLINTEND(readability-identifier-naming)

namespace weir::shim::cuda {
namespace {

constexpr int kKernel = 0, kChild = 4, kAllocates = 10, kFrees = 11;

struct FakeGraph;
struct FakeNode {
  int type = kKernel;
  std::uint64_t address = 0, bytes = 0;
  int device = 0;
  FakeGraph* child = nullptr;
};
struct FakeGraph {
  std::vector<FakeNode> nodes;
};

/// The pool of graphs, by device.
struct FakePools {
  std::map<int, std::uint64_t> reserved;
  std::map<int, std::uint64_t> next;  // what is reserved after the next launch or upload
  std::map<int, std::uint64_t> busy;  // of it, what a trim leaves
  int uploads = 0, trims = 0;
  CudaHandle working = nullptr;  // the stream whose work has not ended
};
FakePools graph_pools;
int capture_mode = 0;  // of the only thread

FakeNode Allocation(std::uint64_t address, std::uint64_t bytes, int device = 0) {
  return {.type = kAllocates, .address = address, .bytes = bytes, .device = device};
}
FakeNode Free(std::uint64_t address) { return {.type = kFrees, .address = address}; }

CudaResult Reserve() {
  ++graph_pools.uploads;
  for (const auto& [device, bytes] : graph_pools.next) graph_pools.reserved[device] = bytes;
  return kSuccess;
}

void SetGraphCalls() {
  SetCall(
      kCall_cuGraphGetNodes, +[](CudaHandle handle, CudaHandle* nodes, std::size_t* count) {
        auto& all = static_cast<FakeGraph*>(handle)->nodes;
        *count = all.size();
        for (std::size_t i = 0; nodes != nullptr && i < all.size(); ++i) nodes[i] = &all[i];
        return kSuccess;
      });
  SetCall(
      kCall_cuGraphNodeGetType,
      +[](CudaHandle node, int* type) { return *type = static_cast<FakeNode*>(node)->type, kSuccess; });
  SetCall(
      kCall_cuGraphMemAllocNodeGetParams, +[](CudaHandle handle, void* to) {
        const auto* node = static_cast<const FakeNode*>(handle);
        auto* bytes = static_cast<unsigned char*>(to);  // CUDA_MEM_ALLOC_NODE_PARAMS
        std::memcpy(bytes + 12, &node->device, sizeof node->device);
        std::memcpy(bytes + 104, &node->bytes, sizeof node->bytes);
        std::memcpy(bytes + 112, &node->address, sizeof node->address);
        return kSuccess;
      });
  SetCall(
      kCall_cuGraphMemFreeNodeGetParams, +[](CudaHandle node, CudaPointer* pointer) {
        return *pointer = static_cast<FakeNode*>(node)->address, kSuccess;
      });
  SetCall(
      kCall_cuGraphChildGraphNodeGetGraph,
      +[](CudaHandle node, CudaHandle* graph) { return *graph = static_cast<FakeNode*>(node)->child, kSuccess; });
  SetCall(
      kCall_cuGraphInstantiateWithFlags, +[](CudaHandle* executable, CudaHandle graph, unsigned long long) {
        return *executable = graph, kSuccess;  // one for each graph
      });
  SetCall(
      kCall_cuGraphInstantiateWithParams, +[](CudaHandle* executable, CudaHandle graph, void*) {
        *executable = graph;
        return Reserve();
      });
  SetCall(
      kCall_cuGraphExecDestroy, +[](CudaHandle) { return kSuccess; });
  SetCall(
      kCall_cuGraphUpload, +[](CudaHandle, CudaHandle) { return driver.fails ? kRefuses : Reserve(); });
  SetCall(
      kCall_cuDeviceGraphMemTrim, +[](int device) {
        ++graph_pools.trims;
        graph_pools.reserved[device] = std::min(graph_pools.reserved[device], graph_pools.busy[device]);
        return kSuccess;
      });
  SetCall(
      kCall_cuStreamQuery, +[](CudaHandle stream) {
        EXPECT_EQ(capture_mode, 2) << "another thread's capture forbids the question in other modes";
        return stream != nullptr && stream == graph_pools.working ? kNotReady : kSuccess;
      });
  SetCall(
      kCall_cuThreadExchangeStreamCaptureMode, +[](int* mode) { return std::swap(*mode, capture_mode), kSuccess; });
  SetCall(
      kCall_cuDeviceGetGraphMemAttribute, +[](int device, int attribute, void* value) {
        if (attribute != 2) return kRefuses;
        return *static_cast<std::uint64_t*>(value) = graph_pools.reserved[device], kSuccess;
      });
}

class GraphMemory : public CountedMemory {
 protected:
  GraphMemory() {
    SetGraphCalls();
    graph_pools = {};
    for (const int device : {0, 1}) cuDeviceGraphMemTrim(device);
    gate = {};
    graph_pools = {};
  }
  ~GraphMemory() override {
    for (FakeGraph& graph : graphs_) cuGraphExecDestroy(&graph);
  }
  CudaHandle Executable(std::vector<FakeNode> nodes) {
    graphs_.push_back({std::move(nodes)});
    CudaHandle executable = nullptr;
    EXPECT_EQ(cuGraphInstantiateWithFlags(&executable, &graphs_.back(), 0), kSuccess);
    return executable;
  }
  /// A launch as far as memory is concerned, after which the driver has reserved `reserved`.
  static CudaResult Run(CudaHandle executable, std::uint64_t reserved, CudaHandle stream = nullptr) {
    graph_pools.next[0] = reserved;
    return cuGraphUpload(executable, stream);
  }

  std::list<FakeGraph> graphs_;
  int first_ = 0, second_ = 0;
  const CudaHandle stream_ = &first_, other_stream_ = &second_;
};

TEST_F(GraphMemory, CountsWhenTheGraphIsLaunchedAsWhatTheDriverHasReserved) {
  const CudaHandle graph = Executable({Allocation(0x1000, 100), {}, Free(0x1000)});
  EXPECT_EQ(gate.held, 0U) << "an executable graph has no memory";
  EXPECT_EQ(Run(graph, 128), kSuccess);
  EXPECT_EQ(gate.held, 128U);
  EXPECT_EQ(Run(graph, 128), kSuccess);
  EXPECT_EQ(gate.held, 128U);
}

TEST_F(GraphMemory, ThatTheLimitHasNoRoomForIsNotAskedOfTheDriver) {
  gate.limit = 99;
  const CudaHandle graph = Executable({Allocation(0x1000, 100), Free(0x1000)});
  EXPECT_EQ(Run(graph, 100), kOutOfMemory);
  EXPECT_EQ(graph_pools.uploads, 0);
  EXPECT_EQ(gate.held, 0U);
  gate.limit = 100;
  EXPECT_EQ(Run(graph, 100), kSuccess);
  EXPECT_EQ(gate.held, 100U);
}

TEST_F(GraphMemory, OfNodesWithTheSameAddressIsNeededOnce) {
  gate.limit = 150;
  FakeGraph child{{Allocation(0x5000, 30), Free(0x5000)}};
  const CudaHandle graph = Executable({Allocation(0x1000, 100),
                                       Free(0x1000),
                                       Allocation(0x1000, 80),
                                       Free(0x1000),
                                       Allocation(0x1050, 40),
                                       Free(0x1050),
                                       {.type = kChild, .child = &child}});
  EXPECT_EQ(Run(graph, 150), kSuccess) << "0x1000 to 0x1078, and the child's";
  gate.limit = 149;
  cuDeviceGraphMemTrim(0);
  EXPECT_EQ(Run(graph, 150), kOutOfMemory);
}

TEST_F(GraphMemory, IsNotNeededAgainInTheSameStream) {
  gate.limit = 100;
  const CudaHandle first = Executable({Allocation(0x1000, 100), Free(0x1000)});
  const CudaHandle second = Executable({Allocation(0x2000, 90), Free(0x2000)});
  EXPECT_EQ(Run(first, 100, stream_), kSuccess);
  graph_pools.busy[0] = 100;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Run(first, 100, stream_), kSuccess);
    EXPECT_EQ(Run(second, 100, stream_), kSuccess);
  }
  EXPECT_EQ(gate.held, 100U);
  EXPECT_EQ(graph_pools.trims, 0);
  EXPECT_EQ(Run(second, 190, other_stream_), kOutOfMemory) << "both may run at a time";
}

TEST_F(GraphMemory, OfGraphsThatHaveEndedIsTrimmedForOthers) {
  gate.limit = 100;
  const CudaHandle first = Executable({Allocation(0x1000, 100), Free(0x1000)});
  const CudaHandle second = Executable({Allocation(0x2000, 90), Free(0x2000)});
  EXPECT_EQ(Run(first, 100, stream_), kSuccess);
  EXPECT_EQ(Run(second, 90, other_stream_), kSuccess);
  EXPECT_EQ(gate.held, 90U);
  EXPECT_EQ(Run(first, 100, stream_), kSuccess) << "it needs memory again";
  EXPECT_EQ(gate.held, 100U);
}

TEST_F(GraphMemory, ThatAGraphOfAnotherStreamHasUsedMayBeNeededAgain) {
  gate.limit = 250;
  const CudaHandle first = Executable({Allocation(0x1000, 100), Free(0x1000)});
  const CudaHandle second = Executable({Allocation(0x2000, 100), Free(0x2000)});
  EXPECT_EQ(Run(first, 100, stream_), kSuccess);
  EXPECT_EQ(Run(second, 100, other_stream_), kSuccess) << "the first has ended";
  EXPECT_EQ(gate.held, 100U);
  gate.limit = 150;
  graph_pools.busy[0] = 100;
  EXPECT_EQ(Run(first, 200, stream_), kOutOfMemory) << "the second has not";
}

TEST_F(GraphMemory, ThatAGraphDoesNotFreeIsNeededByEachGraph) {
  gate.limit = 200;
  const CudaHandle first = Executable({Allocation(0x1000, 100)});
  const CudaHandle second = Executable({Allocation(0x2000, 100)});
  const CudaHandle third = Executable({Allocation(0x3000, 100)});
  EXPECT_EQ(Run(first, 100, stream_), kSuccess);
  EXPECT_EQ(Run(second, 200, stream_), kSuccess);
  graph_pools.busy[0] = 200;
  EXPECT_EQ(Run(third, 300, stream_), kOutOfMemory);
  EXPECT_EQ(Run(second, 200, stream_), kSuccess) << "the program has freed it, as it must before";
  EXPECT_EQ(gate.held, 200U);
}

TEST_F(GraphMemory, IsKeptUntilTheProgramTrims) {
  const CudaHandle graph = Executable({Allocation(0x1000, 100), Free(0x1000)});
  EXPECT_EQ(Run(graph, 100), kSuccess);
  EXPECT_EQ(cuGraphExecDestroy(graph), kSuccess);
  EXPECT_EQ(gate.held, 100U);
  EXPECT_EQ(cuDeviceGraphMemTrim(0), kSuccess);
  EXPECT_EQ(gate.held, 0U);
}

TEST_F(GraphMemory, EndsWithAResetOfTheDevice) {
  const CudaHandle graph = Executable({Allocation(0x1000, 100), Free(0x1000)});
  EXPECT_EQ(Run(graph, 100), kSuccess);
  graph_pools.reserved[0] = 0;
  cuDevicePrimaryCtxReset_v2(0);
  EXPECT_EQ(gate.held, 0U);
}

TEST_F(GraphMemory, OfALaunchThatFailsIsGivenBack) {
  const CudaHandle graph = Executable({Allocation(0x1000, 100), Free(0x1000)});
  driver.fails = true;
  EXPECT_EQ(Run(graph, 100), kRefuses);
  EXPECT_EQ(gate.held, 0U);
}

TEST_F(GraphMemory, ThatTheDriverReservesBeyondTheLimitCountsAsSoonAsThereIsRoom) {
  gate.limit = 100;
  const CudaHandle graph = Executable({Allocation(0x1000, 100), Free(0x1000)});
  EXPECT_EQ(Run(graph, 128), kSuccess) << "the driver rounds up";
  EXPECT_EQ(gate.held, 100U);
  EXPECT_EQ(gate.refused, 0) << "no call of the program was";
  gate.limit = 200;
  EXPECT_EQ(Run(graph, 128), kSuccess);
  EXPECT_EQ(gate.held, 128U);
}

TEST_F(GraphMemory, IsOfTheDeviceOfTheNode) {
  const CudaHandle graph =
      Executable({Allocation(0x1000, 100, 0), Allocation(0x2000, 50, 1), Free(0x1000), Free(0x2000)});
  graph_pools.next[1] = 50;
  EXPECT_EQ(Run(graph, 100), kSuccess);
  EXPECT_EQ(gate.held, 150U);
  EXPECT_EQ(cuDeviceGraphMemTrim(0), kSuccess);
  EXPECT_EQ(gate.held, 50U);
  EXPECT_EQ(cuDeviceGraphMemTrim(1), kSuccess);
  EXPECT_EQ(gate.held, 0U);
}

TEST_F(GraphMemory, IsClaimedWhereInstantiatingUploads) {
  struct {
    unsigned long long flags;
    CudaHandle stream, node;
    int result;
  } upload{.flags = 2, .stream = stream_, .node = nullptr, .result = 0};
  gate.limit = 100;
  graphs_.push_back({{Allocation(0x1000, 100), Free(0x1000)}});
  CudaHandle executable = nullptr;
  graph_pools.next[0] = 100;
  gate.held = 1;
  EXPECT_EQ(cuGraphInstantiateWithParams(&executable, &graphs_.back(), &upload), kOutOfMemory);
  EXPECT_EQ(graph_pools.uploads, 0);
  gate.held = 0;
  EXPECT_EQ(cuGraphInstantiateWithParams(&executable, &graphs_.back(), &upload), kSuccess);
  EXPECT_EQ(gate.held, 100U);
  graph_pools.busy[0] = 100;
  EXPECT_EQ(Run(executable, 100, stream_), kSuccess) << "it has its memory";
}

// Another stream's graph that fits beside it begins a round, in which nothing is known of it.
TEST_F(GraphMemory, OfAGraphThatStillRunsInItsStreamIsNotNeededAgain) {
  gate.limit = 150;
  const CudaHandle first = Executable({Allocation(0x1000, 100), Free(0x1000)});
  const CudaHandle small = Executable({Allocation(0x2000, 10), Free(0x2000)});
  EXPECT_EQ(Run(first, 128, stream_), kSuccess);
  graph_pools.working = stream_;
  graph_pools.busy[0] = 128;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Run(small, 128, other_stream_), kSuccess);
    EXPECT_EQ(Run(first, 128, stream_), kSuccess);
    EXPECT_EQ(gate.held, 128U);
  }
  EXPECT_EQ(capture_mode, 0);
  const CudaHandle next = Executable({Allocation(0x3000, 20), Free(0x3000)});
  EXPECT_EQ(Run(next, 128, other_stream_), kSuccess);
  EXPECT_EQ(Run(first, 228, other_stream_), kOutOfMemory) << "it has not run there";
  graph_pools.working = nullptr;
  EXPECT_EQ(Run(first, 228, stream_), kOutOfMemory) << "what is left after the trim is another graph's";
}

TEST_F(GraphMemory, OfAGraphThatStillRunsIsNotNeededAgainAfterATrim) {
  gate.limit = 150;
  const CudaHandle first = Executable({Allocation(0x1000, 100), Free(0x1000)});
  const CudaHandle small = Executable({Allocation(0x2000, 10), Free(0x2000)});
  EXPECT_EQ(Run(small, 10, other_stream_), kSuccess);
  EXPECT_EQ(Run(first, 110, stream_), kSuccess);
  graph_pools.working = stream_;
  graph_pools.busy[0] = 100;
  EXPECT_EQ(cuDeviceGraphMemTrim(0), kSuccess);
  EXPECT_EQ(gate.held, 100U);
  EXPECT_EQ(Run(first, 100, stream_), kSuccess);
  EXPECT_EQ(gate.held, 100U);
}

// A reset of the device ends executable graphs, and the next ones may have their handles.
TEST_F(GraphMemory, IsNotOfTheNextGraphWithTheHandle) {
  gate.limit = 150;
  const CudaHandle graph = Executable({Allocation(0x1000, 100), Free(0x1000)});
  EXPECT_EQ(Run(graph, 100), kSuccess);
  graph_pools.reserved[0] = 0;
  cuDevicePrimaryCtxReset_v2(0);
  gate.limit = 10;
  EXPECT_EQ(Run(graph, 0), kSuccess) << "forgotten";
  gate.limit = 150;
  graphs_.back() = {{Allocation(0x1000, 100), Free(0x1000)}};
  CudaHandle executable = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&executable, &graphs_.back(), 0), kSuccess);
  gate.limit = 10;
  EXPECT_EQ(Run(executable, 100), kOutOfMemory);
  graphs_.back() = {{{}}};
  EXPECT_EQ(cuGraphInstantiateWithFlags(&executable, &graphs_.back(), 0), kSuccess);
  EXPECT_EQ(Run(executable, 0), kSuccess) << "it allocates nothing";
}

// A claim may wait for other processes.
TEST_F(GraphMemory, ThatIsBeingClaimedDoesNotStopOtherThreads) {
  const CudaHandle graph = Executable({Allocation(0x1000, 100), Free(0x1000)});
  const CudaHandle other = Executable({Allocation(0x2000, 100), Free(0x2000)});
  std::future<CudaResult> ended;
  bool in_time = false;
  int claims = 0;
  gate.claiming = [&] {
    if (++claims != 2) return;  // the second one is for what the driver reserves beyond the first
    ended = std::async(std::launch::async, [other] { return cuGraphExecDestroy(other); });
    in_time = ended.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  };
  EXPECT_EQ(Run(graph, 256), kSuccess);
  ended.wait();
  EXPECT_EQ(claims, 3) << "the other thread has counted it, too";
  EXPECT_TRUE(in_time);
  EXPECT_EQ(gate.held, 256U) << "once";
}

TEST_F(GraphMemory, OfAGraphWhoseLaunchIsRecordedIsNotClaimed) {
  gate.limit = 10;
  const CudaHandle graph = Executable({Allocation(0x1000, 100), Free(0x1000)});
  driver.captures = true;
  EXPECT_EQ(Run(graph, 0), kSuccess);
  EXPECT_EQ(gate.held, 0U);
}

}  // namespace
}  // namespace weir::shim::cuda
