// SPDX-License-Identifier: Apache-2.0
// A session against a fake driver, which calls event callbacks when the test requests it.
#include "opencl/executor/session.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "platform/clock.h"
#include "proto/opencl_message_list.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/strict_opencl.h"
#include "tests/harness/temp_folder.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

/// The driver's event callbacks, called out of order: the first one waits until the second one was called.
struct CallbacksOutOfOrder {
  using Call = void(CL_CALLBACK*)(cl_event, cl_int, void*);

  static CallbacksOutOfOrder& Only() {
    static CallbacksOutOfOrder only;
    return only;
  }
  static cl_int Set(cl_event event, cl_int, Call call, void* data) {
    CallbacksOutOfOrder& only = Only();
    if (!only.first) {
      only.first = [event, call, data] { call(event, CL_COMPLETE, data); };
      return CL_SUCCESS;
    }
    call(event, CL_COMPLETE, data);
    if (only.between) only.between();
    std::exchange(only.first, nullptr)();
    return CL_SUCCESS;
  }

  std::function<void()> first{}, between{};
};

class SessionOnOurDriver : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kDevice = 1, kContext = 2, kQueue = 3, kBuffer = 10;
  static constexpr std::size_t kArenaBytes = 64 * 1024;

  SessionOnOurDriver() { Adopt(1); }
  void Adopt(std::uint32_t here) {
    store_->Adopt({.number = ++orders_, .elastic = true, .limit = 1, .here = here, .max = 1});
  }
  template <typename M>
  void Send(const M& message) {
    const auto bytes = wire::Encode(message);
    std::byte* const at = client_.out.Reserve(bytes.size());
    ASSERT_NE(at, nullptr);
    std::memcpy(at, bytes.data(), bytes.size());
    client_.out.Send(bytes.size());
  }
  /// Executes the sent messages on this thread.
  void Run() {
    gate::Agent nowhere("", proto::Api::kOpenCl, "session_test");
    Run(nowhere, store_);
  }
  void Run(gate::Agent& agent, const std::shared_ptr<BufferStore>& store) {
    std::byte* const at = client_.out.Reserve(wire::kHeaderBytes);
    ASSERT_NE(at, nullptr);
    // An invalid message, which ends the session
    const wire::Header end{.size = wire::kHeaderBytes, .op = 0, .flags = 0};
    std::memcpy(at, &end, sizeof end);
    client_.out.Send(wire::kHeaderBytes);
    DeviceMeter meter({}, {});
    Shared shared{.device = {.cl = &table_,
                             .platform = nullptr,
                             .device = driver_.device(),
                             .library = {},
                             .name = "strict",
                             .workers = {},
                             .in_host_memory = !own_memory_},
                  .agent = agent,
                  .meter = meter,
                  .quota = std::make_shared<Quota>([] { return Quota::Limits{.all = 1 << 20, .each = 1 << 20}; }),
                  .copies = true,
                  .store = store,
                  .analyzer = nullptr,
                  .peers = {}};
    Accepted accepted;
    accepted.program = "session_test";
    accepted.channel = *MapChannel(rings_.fd.get(), Side::kExecutor);
    accepted.arena = *platform::MapForeignRegion(arena_.fd.get(), kArenaBytes);
    EXPECT_FALSE(Session(shared, std::move(accepted)).Run());
  }

  testing::StrictOpenCl driver_;
  cl_icd_dispatch table_ = driver_.table();
  platform::SharedRegion rings_ = *platform::MakeSharedRegion("session_test", kRingsBytes);
  Channel client_ = *MapChannel(rings_.fd.get(), Side::kClient);
  std::shared_ptr<BufferStore> store_ =
      std::make_shared<BufferStore>(BufferStore::Options{.device_bytes = kSlotBytes.count});
  platform::SharedRegion arena_ = *platform::MakeSharedRegion("session_test", kArenaBytes);
  bool own_memory_ = false;
  std::uint32_t orders_ = 0;
};

// Otherwise a memory order evicts the most recently used buffers, because those of ended batches are still pinned.
TEST_F(SessionOnOurDriver, FinishedCommandsPinNothingWhenTheClientIsTold) {
  CallbacksOutOfOrder::Only() = {};
  table_.clSetEventCallback = CallbacksOutOfOrder::Set;
  const std::uint32_t device = kDevice, pattern = 7;
  Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(&device, 1)});
  Send(wire::CreateQueue{.id = kQueue, .context = kContext, .device = kDevice});
  Send(wire::CreateBuffer{.id = kBuffer, .context = kContext, .flags = CL_MEM_READ_WRITE, .size = 4096});
  Send(wire::FillBuffer{
      .enqueue = {.queue = kQueue}, .buffer = kBuffer, .size = 4096, .pattern = std::as_bytes(std::span(&pattern, 1))});
  Send(wire::Flush{.queue = kQueue});  // closes the batch, whose end the driver reports after the end of the finish
  Send(wire::Finish{.request = 1, .queue = kQueue});
  int looked = 0;
  CallbacksOutOfOrder::Only().between = [&] {
    ++looked;
    EXPECT_EQ(store_->Report().resident.count, 4096U);
    Adopt(0);
    EXPECT_TRUE(store_->CarryOut()) << "the buffer is still pinned";
    EXPECT_EQ(store_->Report().resident.count, 0U);
  };
  Run();
  EXPECT_EQ(looked, 1);
}

/// Counts questions for the size of a program's binary.
struct BinarySizesAsked {
  static inline int asked = 0;
  static inline decltype(cl_icd_dispatch::clGetProgramInfo) driver = nullptr;
  static cl_int Get(cl_program program, cl_program_info name, std::size_t room, void* value, std::size_t* size) {
    asked += name == CL_PROGRAM_BINARY_SIZES ? 1 : 0;
    return driver(program, name, room, value, size);
  }
};

/// A client builds a program, and may then ask for its binary.
class SessionThatBuilds : public SessionOnOurDriver {
 protected:
  void Build() {
    BinarySizesAsked::asked = 0;
    BinarySizesAsked::driver = std::exchange(table_.clGetProgramInfo, BinarySizesAsked::Get);
    const std::uint32_t device = kDevice;
    Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(&device, 1)});
    Send(wire::CreateProgram{.id = 4, .context = kContext, .source = wire::Blob::Inline(wire::BytesOf("kernel a"))});
    Send(wire::Build{.request = 1, .program = 4});
  }
};

// PoCL 3.1 crashes there while another process builds the same program in the cache that both use.
TEST_F(SessionThatBuilds, DoesNotAskTheDriverForTheSizeOfTheBinary) {
  Build();
  Run();
  EXPECT_EQ(BinarySizesAsked::asked, 0);
}

TEST_F(SessionThatBuilds, AsksForItWhenTheClientWantsTheBinary) {
  Build();
  Send(wire::GetBinary{.request = 2, .program = 4, .device = kDevice});
  Run();
  EXPECT_EQ(BinarySizesAsked::asked, 1);
}

/// Counts the images that the driver makes, without those of one pixel that the executor makes to learn its size.
struct ImagesMade {
  static inline int made = 0;
  static inline decltype(cl_icd_dispatch::clCreateImage) driver = nullptr;
  static cl_mem Make(cl_context context, cl_mem_flags flags, const cl_image_format* format, const cl_image_desc* desc,
                     void* from, cl_int* error) {
    made += desc->image_width > 1 ? 1 : 0;
    return driver(context, flags, format, desc, from, error);
  }
};

// The driver would take the memory first, and other tenants would lack it until it is released.
TEST_F(SessionOnOurDriver, AnImageBeyondTheMemoryLimitIsNotMade) {
  ImagesMade::made = 0;
  ImagesMade::driver = std::exchange(table_.clCreateImage, ImagesMade::Make);
  const std::uint32_t device = kDevice;
  Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(&device, 1)});
  const auto make = [&](std::uint32_t id, std::uint64_t depth) {
    Send(wire::CreateImage{.id = id,
                           .context = kContext,
                           .flags = CL_MEM_READ_WRITE,
                           .channel_order = CL_RGBA,
                           .channel_type = CL_UNSIGNED_INT8,
                           .type = CL_MEM_OBJECT_IMAGE3D,
                           .width = 64,
                           .height = 64,
                           .depth = depth});
  };
  make(10, 64);  // 4 MiB, as the driver's pixels have 16 bytes; the limit is 1 MiB
  for (std::uint32_t id = 11; id < 16; ++id) make(id, 4);  // 256 KiB each; the fifth is refused
  Send(wire::Release{.id = 11});
  make(16, 4);
  gate::Agent nowhere("", proto::Api::kOpenCl, "session_test");
  Run(nowhere, nullptr);
  EXPECT_EQ(ImagesMade::made, 5);
}

// The device's memory may hold data of another tenant's process.
TEST_F(SessionOnOurDriver, NewBuffersInADevicesOwnMemoryAreCleared) {
  own_memory_ = true;
  static cl_api_clCreateBuffer make = nullptr;
  make = table_.clCreateBuffer;
  table_.clCreateBuffer = [](cl_context context, cl_mem_flags flags, size_t size, void* from, cl_int* error) {
    const cl_mem made = make(context, flags, size, from, error);
    if (made != nullptr && from == nullptr)
      std::memset(testing::strict_cl::Of<testing::strict_cl::Memory>(made).bytes, 0xAA, size);
    return made;
  };
  const std::uint32_t device = kDevice;
  for (const bool elastic : {false, true}) {
    std::memset(arena_.mapping.As<std::byte>(), 0xEE, kArenaBytes);
    rings_ = *platform::MakeSharedRegion("session_test", kRingsBytes);
    client_ = *MapChannel(rings_.fd.get(), Side::kClient);
    Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(&device, 1)});
    Send(wire::CreateQueue{.id = kQueue, .context = kContext, .device = kDevice});
    for (const std::uint64_t bytes : {4096, 4095})
      Send(wire::CreateBuffer{.id = kBuffer + static_cast<std::uint32_t>(4096 - bytes),
                              .context = kContext,
                              .flags = CL_MEM_READ_WRITE,
                              .size = bytes,
                              .offset = 8192});
    Send(wire::ReadBuffer{.enqueue = {.queue = kQueue}, .buffer = kBuffer, .size = 4096, .to = 0});
    Send(wire::ReadBuffer{.enqueue = {.queue = kQueue}, .buffer = kBuffer + 1, .size = 4095, .to = 4096});
    Send(wire::Finish{.request = 1, .queue = kQueue});
    gate::Agent nowhere("", proto::Api::kOpenCl, "session_test");
    Run(nowhere, elastic ? store_ : nullptr);
    const std::span<const std::byte> read(arena_.mapping.As<std::byte>(), 4096 + 4095);
    EXPECT_EQ(std::ranges::count(read, std::byte{0}), 4096 + 4095) << (elastic ? "elastic" : "not elastic");
  }
}

// A client that ends its list of counts with one zero made the driver read past the list.
TEST_F(SessionOnOurDriver, AListOfCountsHasBothItsZeros) {
  ::mallopt(M_PERTURB, 0x5A);  // new memory is not zero
  const std::uint64_t counts[] = {CL_DEVICE_PARTITION_BY_COUNTS, 1, 2, CL_DEVICE_PARTITION_BY_COUNTS_LIST_END};
  Send(wire::CreateSubDevices{.request = 1, .device = kDevice, .first = kBuffer, .properties = {counts, 4}});
  Run();
  ::mallopt(M_PERTURB, 0);
}

/// A kernel without arguments, on a device whose events report 3 ms for each launch, one after the other.
struct TimedKernels {
  static constexpr std::int64_t kEachNs = 3'000'000;
  static inline int launches = 0;
  static inline cl_api_clEnqueueMarkerWithWaitList marker = nullptr;
  static inline std::map<cl_event, int> launch_of{};

  static void Into(cl_icd_dispatch& table) {
    launches = 0;
    marker = table.clEnqueueMarkerWithWaitList;
    table.clEnqueueNDRangeKernel = [](cl_command_queue queue, cl_kernel, cl_uint, const size_t*, const size_t*,
                                      const size_t*, cl_uint count, const cl_event* waits, cl_event* event) {
      const cl_int error = marker(queue, count, waits, event);
      launch_of[*event] = ++launches;
      return error;
    };
    table.clGetEventProfilingInfo = [](cl_event event, cl_profiling_info name, size_t, void* value, size_t*) {
      const auto launch = launch_of.find(event);
      if (launch == launch_of.end()) return cl_int{CL_PROFILING_INFO_NOT_AVAILABLE};  // as for a marker
      const int before = launch->second - (name == CL_PROFILING_COMMAND_END ? 0 : 1);
      const cl_ulong at = 1 + static_cast<cl_ulong>(before) * kEachNs;
      std::memcpy(value, &at, sizeof at);
      return cl_int{CL_SUCCESS};
    };
  }
};

class SessionOfTimedKernels : public SessionOnOurDriver {
 protected:
  /// Runs a divided launch, and then what `more` sends.
  void ExpectAllCharged(const std::function<void()>& more);

  cl_command_queue_properties properties_ = 0;
  std::uint32_t event_ = 0;
};

void SessionOfTimedKernels::ExpectAllCharged(const std::function<void()>& more) {
  TimedKernels::Into(table_);
  const testing::TempFolder folder;
  testing::GateHost gate(folder / "gate.sock");
  gate.SetMode(proto::GateMode::kGated);
  gate.SetAllowance(3'600'000'000'000);
  gate::Agent agent(folder / "gate.sock", proto::Api::kOpenCl, "session_test");
  const gate::Ticket ticket = agent.Arrive(platform::NowNs(), seconds(20));
  ASSERT_NE(ticket.attachment, nullptr) << agent.last_error();
  agent.Withdraw(ticket);

  const std::uint32_t device = kDevice;
  Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(&device, 1)});
  Send(wire::CreateQueue{.id = kQueue, .context = kContext, .device = kDevice, .properties = properties_});
  Send(wire::CreateProgram{.id = 4, .context = kContext, .source = wire::Blob::Inline(wire::BytesOf("kernel a"))});
  Send(wire::Build{.request = 1, .program = 4});
  Send(wire::CreateKernel{.id = 5, .program = 4, .name = "a"});
  Send(wire::NdRange{
      .enqueue = {.queue = kQueue, .event = event_}, .kernel = 5, .dimensions = 1, .global = {64 * 1024, 0, 0}});
  more();
  Send(wire::Flush{.queue = kQueue});
  Run(agent, nullptr);
  EXPECT_GT(TimedKernels::launches, 2) << "it was cut";
  std::int64_t charged_ns = 0;
  for (const gate::HostFrame& frame : gate.Drain().frames) charged_ns += frame.gpu_ns;
  EXPECT_EQ(charged_ns, TimedKernels::launches * TimedKernels::kEachNs);
}

// All pieces of a long launch are charged when events report times, not only the last one.
TEST_F(SessionOfTimedKernels, EveryPieceOfALongLaunchIsCharged) {
  ExpectAllCharged([] {});
}

TEST_F(SessionOfTimedKernels, TheTimesOfALongLaunchAreThoseOfAllItsPieces) {
  properties_ = CL_QUEUE_PROFILING_ENABLE;
  event_ = 20;
  ExpectAllCharged([this] { Send(wire::Watch{.event = 20}); });
  std::vector<std::byte> scratch(wire::kMessageBytesMax);
  wire::EventDone done;
  while (done.event == 0) {
    const auto message = client_.in.Next(scratch);
    ASSERT_TRUE(message && !message->empty()) << "the event has ended";
    wire::Header header;
    wire::ReadHeader(*message, header);
    if (header.op == wire::EventDone::kOp) ASSERT_TRUE(wire::Decode(*message, done));
  }
  EXPECT_EQ(done.end_ns - done.start_ns, static_cast<std::uint64_t>(TimedKernels::launches * TimedKernels::kEachNs));
  EXPECT_EQ(done.queued_ns, done.start_ns);
}

TEST_F(SessionOfTimedKernels, AMarkerWithoutTimesDoesNotHideOtherTimes) {
  ExpectAllCharged([this] { Send(wire::Marker{.enqueue = {.queue = kQueue}}); });
}

}  // namespace
}  // namespace weir::opencl
