// SPDX-License-Identifier: Apache-2.0
// The objects of one session's client, by the ids that it chose. An object that could not be created has an entry with
// the reason.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "opencl/channel/cl.h"
#include "opencl/channel/limits.h"
#include "opencl/executor/arg_types.h"
#include "opencl/executor/driver.h"
#include "opencl/executor/host_budget.h"
#include "opencl/executor/kernel_cost.h"
#include "opencl/executor/part_program.h"
#include "opencl/executor/quota.h"
#include "opencl/executor/replies.h"
#include "opencl/executor/running_commands.h"
#include "opencl/executor/stored.h"

namespace weir::opencl {

enum class Kind : std::uint8_t { kDevice, kContext, kQueue, kMemory, kSampler, kProgram, kKernel, kEvent };

class Pins;  // buffer_store.h

struct Object : std::enable_shared_from_this<Object> {
  explicit Object(Kind object_kind) : kind(object_kind) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  const Kind kind;
  cl_int error = CL_SUCCESS;  // why it could not be created
  HostCharge host;            // its share of the executor's own memory
};

/// Estimate of the host memory that an object takes in the executor and its driver, on the high side. A program also
/// takes a multiple of its text.
constexpr std::uint64_t HostBytesOf(Kind kind) {
  switch (kind) {
    case Kind::kDevice:
    case Kind::kContext:
    case Kind::kQueue: return 64 << 10;
    case Kind::kProgram: return 128 << 10;
    case Kind::kKernel: return 8 << 10;
    case Kind::kMemory: return 2 << 10;
    case Kind::kSampler:
    case Kind::kEvent: return 1 << 10;
  }
  return 0;
}
/// Limit of a program's source, included files or binary together that are passed to the driver's compiler.
inline constexpr std::uint64_t kProgramTextBytesMax = 64 << 20;
inline constexpr std::uint64_t kHostBytesPerProgramByte = 4;

/// The device, or a sub-device. Sub-devices are never released: in PoCL a queue does not keep its device, and its
/// threads may return to a queue after its last event was reported. They end with the process.
struct Device : Object {
  static constexpr Kind kKind = Kind::kDevice;
  static constexpr cl_int kInvalid = CL_INVALID_DEVICE;
  explicit Device(const cl_icd_dispatch& table) : Object(kKind), cl(table) {}
  const cl_icd_dispatch& cl;
  cl_device_id native = nullptr;
  std::shared_ptr<Device> parent;  // of a sub-device
  bool in_host_memory = false;
};

struct Context : Object {
  static constexpr Kind kKind = Kind::kContext;
  static constexpr cl_int kInvalid = CL_INVALID_CONTEXT;
  explicit Context(const cl_icd_dispatch& table) : Object(kKind), cl(table) {}
  ~Context() override {
    if (service_ != nullptr) cl.clReleaseCommandQueue(service_);
    if (native != nullptr) cl.clReleaseContext(native);
  }
  /// An internal queue for copying contents. Null: the driver refuses to create one.
  cl_command_queue Service() {
    std::call_once(service_made_, [this] {
      cl_int refused = CL_SUCCESS;
      service_ = cl.clCreateCommandQueue(native, devices.front().second->native, 0, &refused);
    });
    return service_;
  }
  const cl_icd_dispatch& cl;
  cl_context native = nullptr;
  std::vector<std::pair<std::uint32_t, std::shared_ptr<Device>>> devices;  // by the client's ids
  bool in_host_memory = true;                                              // all of its devices compute in host memory
  bool own_memory = false;  // the device has memory of its own: new objects there may contain data of other tenants
  std::uint32_t id = 0;

 private:
  std::once_flag service_made_;
  cl_command_queue service_ = nullptr;
};

struct Queue : Object {
  static constexpr Kind kKind = Kind::kQueue;
  static constexpr cl_int kInvalid = CL_INVALID_COMMAND_QUEUE;
  explicit Queue(const cl_icd_dispatch& table) : Object(kKind), cl(table) {}
  ~Queue() override {
    SetLast(nullptr);
    if (native != nullptr) cl.clReleaseCommandQueue(native);
  }
  /// Takes over one reference.
  void SetLast(cl_event event) {
    if (last != nullptr) cl.clReleaseEvent(last);
    last = event;
  }
  const cl_icd_dispatch& cl;
  cl_command_queue native = nullptr;
  std::shared_ptr<Context> context;
  cl_event last = nullptr;  // of the last command, in an in-order queue
  bool in_order = true;
  bool profiling = false;   // as requested by the client
  bool ends_tasks = false;  // its program marks where a task ends; otherwise each launch is a task
  int launches = 0;         // since the last such marker
  [[nodiscard]] bool BeginsTask() const { return !ends_tasks || launches == 0; }
  cl_int first_error = CL_SUCCESS;  // of an enqueue without an event; reported by the next finish
  // Commands that may outlive later ones, once there have been any.
  std::shared_ptr<RunningCommands> running;
  bool counts_running = false;  // the last command counts there; those before it, too
  // With elastic memory: the pins of the queue's closed batches.
  std::vector<std::weak_ptr<Pins>> pinned;
};

/// A buffer or an image. Its device memory is allocated at its first use. With elastic memory its contents move, and
/// `native` is valid only for the command that has acquired it.
struct Memory : Object {
  static constexpr Kind kKind = Kind::kMemory;
  static constexpr cl_int kInvalid = CL_INVALID_MEM_OBJECT;
  explicit Memory(const cl_icd_dispatch& table) : Object(kKind), cl(table) {}
  ~Memory() override;
  const cl_icd_dispatch& cl;
  std::shared_ptr<Context> context;
  std::shared_ptr<Memory> parent;  // of a sub-buffer, or of an image over a buffer
  cl_mem native = nullptr;
  bool image = false;
  cl_mem_flags flags = 0;
  std::uint64_t size = 0;
  std::uint64_t extent[3] = {0, 0, 0};  // of an image: pixels and layers; 1 for a dimension that it does not have
  std::uint64_t origin = 0;             // of a sub-buffer
  std::byte* host = nullptr;            // of a buffer: its range in the arena
  bool filled = false;                  // `host` contains the initial content
  std::byte* placed = nullptr;          // contents of a remote client's object, on a device that works in host memory
  Gone gone;
  std::shared_ptr<Stored> stored;  // with elastic memory; otherwise null
  bool read_only = false;          // with elastic memory: kernels do not write to it
};

struct Sampler : Object {
  static constexpr Kind kKind = Kind::kSampler;
  static constexpr cl_int kInvalid = CL_INVALID_SAMPLER;
  explicit Sampler(const cl_icd_dispatch& table) : Object(kKind), cl(table) {}
  ~Sampler() override {
    if (native != nullptr) cl.clReleaseSampler(native);
  }
  const cl_icd_dispatch& cl;
  cl_sampler native = nullptr;
};

/// Knowledge about the kernels of one name in a program. It outlives the kernel objects.
struct KernelKnowledge {
  std::shared_ptr<KernelCost> cost;
  std::shared_ptr<std::vector<ArgTakes>> takes;
};

struct Program : Object {
  static constexpr Kind kKind = Kind::kProgram;
  static constexpr cl_int kInvalid = CL_INVALID_PROGRAM;
  explicit Program(const cl_icd_dispatch& table) : Object(kKind), cl(table) {}
  ~Program() override {
    if (native != nullptr) cl.clReleaseProgram(native);
  }
  const cl_icd_dispatch& cl;
  cl_program native = nullptr;
  std::shared_ptr<Context> context;
  bool may_slice = false;
  std::map<std::string, KernelKnowledge, std::less<>> known;
  std::map<std::string, std::string, std::less<>> short_names;  // of kernels whose names are too long for a driver
  bool built = false;                                           // successfully, by clBuildProgram
  bool includes = false;                                        // includes files, which no longer exist
  std::string options;                                          // the client's
  // If launches may be partitioned and one had to be: the part kernels, or why there are none.
  bool asked_ahead = false;  // the analyzer was asked before a launch had to be partitioned
  std::unique_ptr<PartProgram> parts;
  std::string no_parts;
};

/// The value of an argument that is not an object: `bytes`, or, if there are none, local memory of `local` bytes.
struct ArgValue {
  std::vector<std::byte> bytes{};
  std::uint64_t local = 0;
};

struct Kernel : Object {
  static constexpr Kind kKind = Kind::kKernel;
  static constexpr cl_int kInvalid = CL_INVALID_KERNEL;
  explicit Kernel(const cl_icd_dispatch& table) : Object(kKind), cl(table) {}
  ~Kernel() override {
    if (native != nullptr) cl.clReleaseKernel(native);
  }
  const cl_icd_dispatch& cl;
  cl_kernel native = nullptr;
  std::shared_ptr<Program> program;
  std::shared_ptr<KernelCost> cost;
  std::string name;
  std::shared_ptr<std::vector<ArgTakes>> takes;  // unknown ones become values once a test has shown it
  // The objects among its arguments. They are weak: a program may release one, and then has to set another.
  std::vector<std::optional<std::weak_ptr<Object>>> args;
  // With elastic memory, for each argument: whether the kernel cannot write through it, and the native object that it
  // was set to.
  std::vector<bool> reads_only;
  std::vector<std::uint64_t> set_to;
  std::vector<ArgValue> values;  // kept if launches may be partitioned
  double part_item_s = 0;        // time of each work-item of a part, including waits at the gate; 0: no part has run
  std::uint64_t parts_run = 0;
  std::map<NodeId, double> items_per_s{};  // of parts on peers, including the transfers
  // Why arguments could not be set, by index; kArgsMax stands for all indices that the kernel lacks. A launch fails
  // while there are any.
  std::map<std::uint32_t, cl_int> arg_errors{};
};

/// Times of the device's clock, in ns.
struct EventSpan {
  std::uint64_t queued_ns = 0, submit_ns = 0, start_ns = 0, end_ns = 0;
};

/// Zeros if the queue does not record times.
EventSpan SpanOf(const cl_icd_dispatch& cl, cl_event event);

struct Event : Object {
  static constexpr Kind kKind = Kind::kEvent;
  static constexpr cl_int kInvalid = CL_INVALID_EVENT;
  explicit Event(const cl_icd_dispatch& table) : Object(kKind), cl(table) {}
  ~Event() override {
    if (native != nullptr) cl.clReleaseEvent(native);
  }
  const cl_icd_dispatch& cl;
  cl_event native = nullptr;
  std::weak_ptr<Object> queue;
  bool user = false;
  bool profiling = false;
  std::optional<EventSpan> span;       // of a partitioned launch; `native` then ends with the launch
  std::shared_ptr<_cl_event> first{};  // of the first piece of a launch in pieces, if its times are recorded
};

inline constexpr std::uint32_t kPartsMax = 4096;  // sub-devices in an executor's life

/// A table of pages that are allocated on demand: a large id costs one page.
class Objects {
 public:
  /// Returns CL_SUCCESS and the object; the kind's error code if there is none; the object's error if it could not be
  /// created.
  template <typename T>
  cl_int Find(std::uint32_t id, T*& found) const {
    found = nullptr;
    const std::shared_ptr<Object>* const slot = Slot(id);
    if (slot == nullptr || !*slot || (*slot)->kind != T::kKind) return T::kInvalid;
    found = static_cast<T*>(slot->get());
    return found->error;
  }
  template <typename T>
  cl_int Share(std::uint32_t id, std::shared_ptr<T>& found) const {
    T* object = nullptr;
    const cl_int error = Find(id, object);
    if (object != nullptr) found = std::static_pointer_cast<T>(*Slot(id));
    return error;
  }
  [[nodiscard]] std::shared_ptr<Object> Any(std::uint32_t id) const {
    const std::shared_ptr<Object>* const slot = Slot(id);
    return slot != nullptr ? *slot : nullptr;
  }
  /// Replaces the entry of the id. False: the id is out of range.
  bool Put(std::uint32_t id, std::shared_ptr<Object> object) {
    if (id == 0 || id > kIdMax) return false;
    if (!object) return Take(id), true;
    std::unique_ptr<Page>& page = pages_[id / kPerPage];
    if (!page) page = std::make_unique<Page>();
    std::shared_ptr<Object>& slot = page->slots[id % kPerPage];
    if (!slot) ++page->used;
    slot.swap(object);  // the old object is destroyed after the table is consistent
    return true;
  }
  std::shared_ptr<Object> Take(std::uint32_t id) {
    if (id > kIdMax || !pages_[id / kPerPage]) return nullptr;
    std::unique_ptr<Page>& page = pages_[id / kPerPage];
    std::shared_ptr<Object> object = std::move(page->slots[id % kPerPage]);
    if (object && --page->used == 0) page.reset();
    return object;
  }
  template <typename T, typename Each>
  void ForEach(Each each) const {
    ForEachId<T>([&each](std::uint32_t, T& object) { each(object); });
  }
  template <typename T, typename Each>
  void ForEachId(Each each) const {
    for (std::uint32_t p = 0; p < pages_.size(); ++p)
      for (std::uint32_t i = 0; pages_[p] && i < kPerPage; ++i)
        if (const auto& object = pages_[p]->slots[i]; object && object->kind == T::kKind)
          each(p * kPerPage + i, static_cast<T&>(*object));
  }
  void Clear() {
    for (auto& page : pages_) page.reset();
  }

 private:
  static constexpr std::uint32_t kPerPage = 256;
  struct Page {
    std::array<std::shared_ptr<Object>, kPerPage> slots;
    std::uint32_t used = 0;
  };
  [[nodiscard]] const std::shared_ptr<Object>* Slot(std::uint32_t id) const {
    if (id > kIdMax || !pages_[id / kPerPage]) return nullptr;
    return &pages_[id / kPerPage]->slots[id % kPerPage];
  }

  std::vector<std::unique_ptr<Page>> pages_ = std::vector<std::unique_ptr<Page>>(kIdMax / kPerPage + 1);
};

}  // namespace weir::opencl
