// SPDX-License-Identifier: Apache-2.0
// Functions of the API: graphs. The nodes of a graph run in the order in which they were added.
#include <algorithm>

#include "emulator/cuda/driver.h"

using namespace weir::emulator::cuda;  // NOLINT(google-build-using-namespace): for the functions below alone

namespace {

constexpr unsigned long long kAutoFree = 1, kUpload = 2;
constexpr int kKernelNode = 0, kAllocationNode = 10, kFreeNode = 11;

/// CUDA_MEM_ALLOC_NODE_PARAMS.
struct AllocationNode {
  int type, handle_types, location_type, location;
  unsigned char others[72];
  const void* access;
  std::size_t access_count;
  std::size_t bytes;
  Pointer pointer;
};
static_assert(offsetof(AllocationNode, access) == 88);

/// CUDA_GRAPH_INSTANTIATE_PARAMS.
struct InstantiateParameters {
  unsigned long long flags;
  Handle upload_stream;
  Handle error_node;
  int result;
};

/// A node's handle is the number of its graph and its place there.
Handle NodeOf(Driver& driver, const std::shared_ptr<Graph>& graph, std::size_t place) {
  if (graph->number == 0) {
    graph->number = ++driver.graph_numbers;
    driver.numbered_graphs[graph->number] = graph;
  }
  return reinterpret_cast<Handle>(graph->number * Graph::kOperationsMax + place);
}

/// Null: there is no such node. Requires the lock.
const Operation* FindNode(Driver& driver, Handle node) {
  const auto value = reinterpret_cast<std::uintptr_t>(node);
  const auto found = driver.numbered_graphs.find(value / Graph::kOperationsMax);
  const std::shared_ptr<Graph> graph = found != driver.numbered_graphs.end() ? found->second.lock() : nullptr;
  const std::size_t place = value % Graph::kOperationsMax;
  return graph != nullptr && place < graph->operations.size() ? &graph->operations[place] : nullptr;
}

/// Runs the body with the lock and a node.
template <typename Body>
Result CallOnNode(Handle node, Body body) {
  return Call([&](Driver& driver) {
    const auto lock = driver.Lock();
    const Operation* operation = FindNode(driver, node);
    return operation == nullptr ? kInvalidValue : body(*operation);
  });
}

/// Runs the body with the lock and a graph that has room for another node.
template <typename Body>
Result AddNode(Handle handle, Handle* node, Body body) {
  return Call([&](Driver& driver) {
    if (node == nullptr) return kInvalidValue;
    const auto lock = driver.Lock();
    const std::shared_ptr<Graph> graph = driver.graphs.Find(handle);
    if (graph == nullptr) return kInvalidValue;
    if (graph->operations.size() >= Graph::kOperationsMax) return kOutOfMemory;
    const Result result = body(driver, *graph);
    if (result == kSuccess) *node = NodeOf(driver, graph, graph->operations.size() - 1);
    return result;
  });
}

std::shared_ptr<const Executable> FindExecutable(Driver& driver, Handle handle) {
  const auto lock = driver.Lock();
  return driver.executables.Find(handle);
}

Result Launch(Handle handle, Where where) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    const std::shared_ptr<const Executable> executable = FindExecutable(driver, handle);
    if (executable == nullptr) return kInvalidHandle;
    const bool uses_memory = executable->graph.UsesMemory();
    if (uses_memory)
      if (const Result error = driver.BeginGraph(*executable, stream); error != kSuccess) return error;
    Result result = kSuccess;
    for (const Operation& operation : executable->graph.operations)
      if (operation.is_work() && result == kSuccess) result = driver.Do(stream, operation);
    if (uses_memory) driver.EndGraph(*executable, stream, result == kSuccess);
    return result;
  });
}

/// Maps the graph's memory, and does no more.
Result Upload(Handle handle, Where where) {
  return CallInStream(where, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    const std::shared_ptr<const Executable> executable = FindExecutable(driver, handle);
    if (executable == nullptr) return kInvalidHandle;
    if (!executable->graph.UsesMemory()) return kSuccess;
    const Result result = driver.BeginGraph(*executable, stream);
    if (result == kSuccess) driver.EndGraph(*executable, stream, false);
    return result;
  });
}

Result Instantiate(Handle* handle, Handle graph, unsigned long long flags) {
  return CallInContext([&](Driver& driver, const std::shared_ptr<Context>&) {
    if (handle == nullptr) return kInvalidValue;
    const auto lock = driver.Lock();
    const std::shared_ptr<Graph> source = driver.graphs.Find(graph);
    if (source == nullptr) return kInvalidHandle;
    *handle = driver.executables.Add(
        std::make_shared<const Executable>(Executable{.graph = *source, .frees_itself = (flags & kAutoFree) != 0}));
    return *handle == nullptr ? kOutOfMemory : kSuccess;
  });
}

Result InstantiateWith(Handle* handle, Handle graph, InstantiateParameters* parameters, bool per_thread) {
  if (parameters == nullptr) return kInvalidValue;
  Result result = Instantiate(handle, graph, parameters->flags);
  if (result == kSuccess && (parameters->flags & kUpload) != 0)
    result = Upload(*handle, {parameters->upload_stream, per_thread});
  parameters->result = result == kSuccess ? 0 : 1;
  parameters->error_node = nullptr;
  return result;
}

/// Runs the body with the number of a card.
template <typename Body>
Result CallForGraphs(Device device, Body body) {
  return Call([&](Driver& driver) {
    if (device < 0 || static_cast<std::size_t>(device) >= driver.cards.size()) return kInvalidDevice;
    return body(driver, static_cast<std::uint32_t>(device));
  });
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the names are NVIDIA's
#define WEIR_BOTH(name, parameters, per_thread_call, legacy_call) \
  WEIR_EXPORT Result name parameters { return legacy_call; }      \
  WEIR_EXPORT Result name##_ptsz parameters { return per_thread_call; }
WEIR_BOTH(cuGraphLaunch, (Handle executable, Handle stream), Launch(executable, {stream, true}),
          Launch(executable, {stream, false}))
WEIR_BOTH(cuGraphUpload, (Handle executable, Handle stream), Upload(executable, {stream, true}),
          Upload(executable, {stream, false}))
WEIR_BOTH(cuGraphInstantiateWithParams, (Handle * executable, Handle graph, InstantiateParameters* parameters),
          InstantiateWith(executable, graph, parameters, true), InstantiateWith(executable, graph, parameters, false))
#undef WEIR_BOTH

WEIR_EXPORT Result cuGraphInstantiateWithFlags(Handle* executable, Handle graph, unsigned long long flags) {
  return Instantiate(executable, graph, flags);
}

WEIR_EXPORT Result cuGraphCreate(Handle* graph, unsigned flags) {
  return Call([&](Driver& driver) {
    if (graph == nullptr || flags != 0) return kInvalidValue;
    const auto lock = driver.Lock();
    *graph = driver.graphs.Add(std::make_shared<Graph>());
    return *graph == nullptr ? kOutOfMemory : kSuccess;
  });
}

WEIR_EXPORT Result cuGraphDestroy(Handle graph) {
  return Call([&](Driver& driver) {
    const auto lock = driver.Lock();
    const std::shared_ptr<Graph> ended = driver.graphs.Remove(graph);
    if (ended == nullptr) return kInvalidHandle;
    driver.numbered_graphs.erase(ended->number);
    return kSuccess;
  });
}

WEIR_EXPORT Result cuGraphExecDestroy(Handle executable) {
  return Call([&](Driver& driver) {
    const auto lock = driver.Lock();
    return driver.executables.Remove(executable) == nullptr ? kInvalidHandle : kSuccess;
  });
}

WEIR_EXPORT Result cuGraphGetNodes(Handle handle, Handle* nodes, std::size_t* count) {
  return Call([&](Driver& driver) {
    if (count == nullptr) return kInvalidValue;
    const auto lock = driver.Lock();
    const std::shared_ptr<Graph> graph = driver.graphs.Find(handle);
    if (graph == nullptr) return kInvalidValue;
    const std::size_t all = graph->operations.size();
    if (nodes == nullptr) return *count = all, kSuccess;
    for (std::size_t i = 0; i < *count; ++i) nodes[i] = i < all ? NodeOf(driver, graph, i) : nullptr;
    *count = std::min(*count, all);
    return kSuccess;
  });
}

WEIR_EXPORT Result cuGraphNodeGetType(Handle node, int* type) {
  return CallOnNode(node, [&](const Operation& operation) {
    if (type == nullptr) return kInvalidValue;
    *type = operation.is_work() ? kKernelNode : operation.frees != 0 ? kFreeNode : kAllocationNode;
    return kSuccess;
  });
}

WEIR_EXPORT Result cuGraphAddMemAllocNode(Handle* node, Handle graph, const Handle* /*dependencies*/,
                                          std::size_t /*count*/, AllocationNode* parameters) {
  return AddNode(graph, node, [&](Driver& driver, Graph& to) {
    constexpr int kOnDevice = 1;
    if (parameters == nullptr || parameters->bytes == 0 || parameters->type != 1) return kInvalidValue;
    if (parameters->location_type != kOnDevice || parameters->access_count > driver.cards.size()) return kInvalidValue;
    if (parameters->location < 0 || static_cast<std::size_t>(parameters->location) >= driver.cards.size())
      return kInvalidValue;
    auto block = driver.AllocateNode(to, parameters->bytes, static_cast<std::uint32_t>(parameters->location));
    if (block == nullptr) return kOutOfMemory;
    parameters->pointer = block->pointer();
    to.operations.push_back({.allocates = std::move(block)});
    return kSuccess;
  });
}

WEIR_EXPORT Result cuGraphMemAllocNodeGetParams(Handle node, AllocationNode* parameters) {
  return CallOnNode(node, [&](const Operation& operation) {
    if (parameters == nullptr || operation.allocates == nullptr) return kInvalidValue;
    const GraphBlock& block = *operation.allocates;
    *parameters = {};
    parameters->type = parameters->location_type = 1;
    parameters->location = static_cast<int>(block.card);
    parameters->bytes = block.bytes;
    parameters->pointer = block.pointer();
    return kSuccess;
  });
}

WEIR_EXPORT Result cuGraphAddMemFreeNode(Handle* node, Handle graph, const Handle* /*dependencies*/,
                                         std::size_t /*count*/, Pointer pointer) {
  return AddNode(graph, node, [&](Driver&, Graph& to) {
    if (pointer == 0) return kInvalidValue;
    to.operations.push_back({.frees = pointer});
    return kSuccess;
  });
}

WEIR_EXPORT Result cuGraphMemFreeNodeGetParams(Handle node, Pointer* pointer) {
  return CallOnNode(node, [&](const Operation& operation) {
    if (pointer == nullptr || operation.frees == 0) return kInvalidValue;
    *pointer = operation.frees;
    return kSuccess;
  });
}

WEIR_EXPORT Result cuDeviceGraphMemTrim(Device device) {
  return CallForGraphs(device, [](Driver& driver, std::uint32_t card) {
    driver.TrimGraphs(card);
    return kSuccess;
  });
}

/// What is reserved counts as used until it is trimmed.
WEIR_EXPORT Result cuDeviceGetGraphMemAttribute(Device device, int attribute, void* value) {
  constexpr int kUsedMost = 1, kReservedMost = 3;
  return CallForGraphs(device, [&](Driver& driver, std::uint32_t card) {
    if (value == nullptr || attribute < 0 || attribute > kReservedMost) return kInvalidValue;
    const auto lock = driver.Lock();
    const bool most = attribute == kUsedMost || attribute == kReservedMost;
    *static_cast<std::uint64_t*>(value) = most ? driver.cards[card].graph_most : driver.GraphBytes(card);
    return kSuccess;
  });
}
// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)
