// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/graph_memory.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "platform/mutex.h"

namespace weir::shim::cuda {
namespace {

using GraphsLock = std::lock_guard<platform::Mutex>;

constexpr int kChildNode = 4, kAllocationNode = 10, kFreeNode = 11;  // CUgraphNodeType
constexpr int kDepthMost = 16;                                       // of graphs in graphs

/// CUDA_MEM_ALLOC_NODE_PARAMS, and room for members that later drivers add.
struct AllocationNode {
  int type, handle_types, location_type, location;
  unsigned char others[72];
  const void* access;
  std::size_t access_count;
  std::size_t bytes;
  CudaPointer pointer;
  unsigned char later[128];
};

struct Executable {
  GraphNeeds needs;
  StreamKey last{};                       // stream of the last launch
  std::map<int, std::uint64_t> rounds{};  // Pool::round at that time, by device
};

struct Pool {
  std::uint64_t asked = 0, answered = 0;          // questions for what is reserved: how many, and the last one answered
  std::uint64_t reserved = 0;                     // its answer
  std::uint64_t counted = 0;                      // claimed for what is reserved
  std::uint64_t round = 0;                        // increases when earlier launches say nothing about later ones
  std::map<StreamKey, std::uint64_t> reusable{};  // by graphs that are launched in the stream
};

/// The mutex is held neither while the driver is called nor while memory is claimed or given back: each may wait.
struct Graphs {
  platform::Mutex mutex;
  std::unordered_map<CudaHandle, Executable> executables;
  std::map<int, Pool> pools;
};
Graphs& All() { return OfProcess<Graphs>::Get(); }

/// Executables that are noted. A launch looks no further while there are none.
std::atomic<int> noted{0};

/// False: the driver does not say.
bool Reserved(int device, std::uint64_t& bytes) {
  constexpr int kReserved = 2;  // CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT
  return Driver<CudaResult(int, int, void*)>(kCall_cuDeviceGetGraphMemAttribute)(device, kReserved, &bytes) == kSuccess;
}

/// Whether the stream has work that has not ended.
bool IsWorking(CudaHandle stream, bool per_thread) {
  using Exchange = CudaResult(int*);
  int mode = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED: in another one, a capture of another thread forbids the question
  Driver<Exchange>(kCall_cuThreadExchangeStreamCaptureMode)(&mode);
  const CudaResult result =
      Driver<CudaResult(CudaHandle)>(per_thread ? kCall_cuStreamQuery_ptsz : kCall_cuStreamQuery)(stream);
  Driver<Exchange>(kCall_cuThreadExchangeStreamCaptureMode)(&mode);
  return result == kNotReady;
}

void StartRound(Pool& pool) {
  ++pool.round;
  pool.reusable.clear();
}

/// Claims memory that a pool has beyond what is counted, if the limit has room for it. Not a claim that may be refused,
/// because a refusal is one of the program's own calls.
void CountMore(int device, std::uint64_t more) {
  const weir_cuda_hooks* const hooks = Hooks();
  if (more == 0 || hooks == nullptr) return;
  weir_shim_memory use{};
  hooks->used_memory(&use);
  const bool room = use.limit == 0 || (use.held < use.limit && more <= use.limit - use.held);
  if (!room || hooks->claim_memory(more) == 0) return;
  std::uint64_t added = 0;
  {
    Graphs& graphs = All();
    const GraphsLock lock(graphs.mutex);
    Pool& pool = graphs.pools[device];
    // Another thread may have counted the same memory meanwhile, or the pool has become smaller.
    added = std::min(more, pool.reserved - std::min(pool.reserved, pool.counted));
    pool.counted += added;
  }
  Release(more - added);
}

/// Makes what is counted what is reserved. `claimed`: may be taken for it. What the limit has no room for is counted
/// later. Returns by how much the pool has grown.
std::uint64_t Count(int device, std::uint64_t& claimed) {
  Graphs& graphs = All();
  std::uint64_t question = 0, reserved = 0, grown = 0, ended = 0, more = 0;
  {
    const GraphsLock lock(graphs.mutex);
    question = ++graphs.pools[device].asked;
  }
  if (!Reserved(device, reserved)) return 0;
  {
    const GraphsLock lock(graphs.mutex);
    Pool& pool = graphs.pools[device];
    if (question < pool.answered) return 0;  // another thread has asked later, and knows more
    pool.answered = question;
    pool.reserved = reserved;
    if (reserved < pool.counted) {
      StartRound(pool);
      ended = std::exchange(pool.counted, reserved) - reserved;
    } else {
      grown = reserved - pool.counted;
      const std::uint64_t taken = std::min(grown, claimed);
      claimed -= taken;
      pool.counted += taken;
      more = grown - taken;
    }
  }
  Release(ended);
  CountMore(device, more);
  return grown;
}

/// What the nodes of a graph take: ranges of addresses by device, and which allocations are not freed.
struct Nodes {
  std::map<int, std::vector<std::pair<std::uint64_t, std::uint64_t>>> ranges;
  std::set<std::uint64_t> allocated, freed;
};

void Read(CudaHandle graph, int depth, Nodes& all) {
  using GetNodes = CudaResult(CudaHandle, CudaHandle*, std::size_t*);
  std::size_t count = 0;
  if (Driver<GetNodes>(kCall_cuGraphGetNodes)(graph, nullptr, &count) != kSuccess || count == 0) return;
  std::vector<CudaHandle> nodes(count);
  if (Driver<GetNodes>(kCall_cuGraphGetNodes)(graph, nodes.data(), &count) != kSuccess) return;
  nodes.resize(std::min(count, nodes.size()));
  for (const CudaHandle node : nodes) {
    int type = 0;
    if (Driver<CudaResult(CudaHandle, int*)>(kCall_cuGraphNodeGetType)(node, &type) != kSuccess) continue;
    AllocationNode made{};
    CudaPointer freed = 0;
    CudaHandle child = nullptr;
    if (type == kAllocationNode &&
        Driver<CudaResult(CudaHandle, void*)>(kCall_cuGraphMemAllocNodeGetParams)(node, &made) == kSuccess) {
      all.ranges[made.location].emplace_back(made.pointer, made.bytes);
      all.allocated.insert(made.pointer);
    } else if (type == kFreeNode && Driver<CudaResult(CudaHandle, CudaPointer*)>(kCall_cuGraphMemFreeNodeGetParams)(
                                        node, &freed) == kSuccess) {
      all.freed.insert(freed);
    } else if (type == kChildNode && depth < kDepthMost &&
               Driver<CudaResult(CudaHandle, CudaHandle*)>(kCall_cuGraphChildGraphNodeGetGraph)(node, &child) ==
                   kSuccess) {
      Read(child, depth + 1, all);
    }
  }
}

std::uint64_t UnionOf(std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t sum = 0, until = 0;
  for (const auto& [first, bytes] : ranges) {
    const std::uint64_t from = std::max(first, until), end = first + bytes;
    if (end > from) sum += end - from;
    until = std::max(until, end);
  }
  return sum;
}

}  // namespace

GraphNeeds NeedsOf(CudaHandle graph) {
  GraphNeeds needs;
  Aside([&] {
    if (Hooks() == nullptr || !DriverHas(kCall_cuDeviceGetGraphMemAttribute)) return;
    Nodes nodes;
    Read(graph, 0, nodes);
    for (auto& [device, ranges] : nodes.ranges) needs.each.push_back({device, UnionOf(ranges)});
    needs.keeps =
        !std::includes(nodes.freed.begin(), nodes.freed.end(), nodes.allocated.begin(), nodes.allocated.end());
  });
  return needs;
}

void NoteExecutable(CudaHandle executable, const GraphNeeds& needs) {
  if (needs.each.empty()) return static_cast<void>(ForgetExecutable(executable));
  Aside([&] {
    Graphs& graphs = All();
    const GraphsLock lock(graphs.mutex);
    graphs.executables[executable] = {.needs = needs};
    noted.store(static_cast<int>(graphs.executables.size()), std::memory_order_relaxed);
  });
}

GraphNeeds ForgetExecutable(CudaHandle executable) {
  GraphNeeds needs;
  if (noted.load(std::memory_order_relaxed) == 0) return needs;
  Aside([&] {
    Graphs& graphs = All();
    const GraphsLock lock(graphs.mutex);
    const auto ended = graphs.executables.extract(executable);
    noted.store(static_cast<int>(graphs.executables.size()), std::memory_order_relaxed);
    if (ended) needs = ended.mapped().needs;
  });
  return needs;
}

void ForgetExecutables(int device) {
  if (noted.load(std::memory_order_relaxed) == 0) return;
  Aside([&] {
    Graphs& graphs = All();
    const GraphsLock lock(graphs.mutex);
    std::erase_if(graphs.executables, [device](const auto& one) {
      const auto& each = one.second.needs.each;
      return std::any_of(each.begin(), each.end(), [device](const GraphNeeds::One& of) { return of.device == device; });
    });
    noted.store(static_cast<int>(graphs.executables.size()), std::memory_order_relaxed);
  });
}

void CountGraphMemory(int device) {
  Aside([&] {
    Graphs& graphs = All();
    {
      const GraphsLock lock(graphs.mutex);
      if (graphs.pools.count(device) == 0) return;
    }
    std::uint64_t none = 0;
    Count(device, none);
  });
}

GraphUse::GraphUse(CudaHandle executable, CudaHandle stream, bool per_thread) : executable_(executable) {
  if (noted.load(std::memory_order_relaxed) == 0) return;
  Aside([&] {
    Graphs& graphs = All();
    {
      const GraphsLock lock(graphs.mutex);
      const auto found = graphs.executables.find(executable);
      if (found == graphs.executables.end()) return;
      needs_ = found->second.needs;
    }
    Begin(stream, per_thread);
  });
}

GraphUse::GraphUse(const GraphNeeds& needs, CudaHandle stream, bool per_thread) {
  if (needs.each.empty()) return;
  Aside([&] {
    needs_ = needs;
    Begin(stream, per_thread);
  });
}

GraphUse::~GraphUse() {
  if (!missing_.empty()) Aside([this] { End(); });
}

void GraphUse::Begin(CudaHandle stream, bool per_thread) {
  if (Hooks() == nullptr || IsCapturing(stream, per_thread)) return;
  key_ = KeyOf(stream, per_thread);
  granted_ = TryClaim(/*runs=*/false);
  if (granted_) return;
  // Asked before the trim: the trim leaves the memory of what still runs.
  const bool runs = IsWorking(stream, per_thread);
  for (const GraphNeeds::One& one : needs_.each) {
    Driver<CudaResult(int)>(kCall_cuDeviceGraphMemTrim)(one.device);
    CountGraphMemory(one.device);
  }
  granted_ = TryClaim(/*runs=*/false) || (runs && TryClaim(/*runs=*/true));
}

/// Claims what the graph may need beyond what its stream has already. `runs`: the pools have been trimmed and the
/// stream still works, so that a graph that was launched in it last has what it needs, whatever happened in other
/// streams.
bool GraphUse::TryClaim(bool runs) {
  missing_ = needs_.each;
  std::uint64_t sum = 0;
  {
    Graphs& graphs = All();
    const GraphsLock lock(graphs.mutex);
    const auto known = graphs.executables.find(executable_);
    for (GraphNeeds::One& one : missing_) {
      const Pool& pool = graphs.pools[one.device];
      const bool here =
          known != graphs.executables.end() && known->second.last == key_ && known->second.rounds.count(one.device) > 0;
      const bool again =
          here && (known->second.rounds.at(one.device) == pool.round || (runs && pool.counted >= one.bytes));
      const auto reusable = pool.reusable.find(key_);
      if (again)
        one.bytes = 0;
      else if (!needs_.keeps && reusable != pool.reusable.end())
        one.bytes -= std::min(one.bytes, reusable->second);
      if (__builtin_add_overflow(sum, one.bytes, &sum)) return false;
    }
  }
  if (sum > 0 && Hooks()->claim_memory(sum) == 0) return false;
  claimed_ = sum;
  return true;
}

void GraphUse::End() {
  Graphs& graphs = All();
  for (std::size_t i = 0; i < missing_.size() && granted_; ++i) {
    const auto& [device, bytes] = needs_.each[i];
    const std::uint64_t grown = Count(device, claimed_);
    if (!begun_) continue;
    const GraphsLock lock(graphs.mutex);
    Pool& pool = graphs.pools[device];
    // It has used memory that an earlier launch in another stream had, so that one's next launch may need more.
    if (grown < missing_[i].bytes) StartRound(pool);
    if (!needs_.keeps) pool.reusable[key_] = std::max(pool.reusable[key_], bytes);
    const auto known = graphs.executables.find(executable_);
    if (known == graphs.executables.end()) continue;
    known->second.last = key_;
    known->second.rounds[device] = pool.round;
  }
  Release(std::exchange(claimed_, 0));
}

}  // namespace weir::shim::cuda
