// SPDX-License-Identifier: Apache-2.0
// A session against a driver of ours, which calls event callbacks when the test wants it to.
#include "opencl/executor/session.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "proto/opencl_message_list.h"
#include "tests/harness/strict_opencl.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

/// The driver's event callbacks, called out of order: the first one waits until the second one has been called.
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

  SessionOnOurDriver() {
    CallbacksOutOfOrder::Only() = {};
    table_.clSetEventCallback = CallbacksOutOfOrder::Set;
    Adopt(1);
  }
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
  /// Carries out what was sent, on this thread.
  void Run() {
    std::byte* const at = client_.out.Reserve(wire::kHeaderBytes);
    ASSERT_NE(at, nullptr);
    const wire::Header end{.size = wire::kHeaderBytes, .op = 0, .flags = 0};  // no message, which ends the session
    std::memcpy(at, &end, sizeof end);
    client_.out.Send(wire::kHeaderBytes);
    gate::Agent agent("", proto::Api::kOpenCl, "session_test");
    DeviceMeter meter({}, {});
    Shared shared{.device = {.cl = &table_,
                             .platform = nullptr,
                             .device = driver_.device(),
                             .library = {},
                             .name = "strict",
                             .workers = {},
                             .in_host_memory = true},
                  .agent = agent,
                  .meter = meter,
                  .quota = std::make_shared<Quota>([] { return Quota::Limits{.all = 1 << 20, .each = 1 << 20}; }),
                  .copies = true,
                  .store = store_,
                  .analyzer = nullptr,
                  .peers = {}};
    Accepted accepted;
    accepted.program = "session_test";
    accepted.channel = *MapChannel(rings_.fd.get(), Side::kExecutor);
    accepted.arena = platform::Mapping(
        ::mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), kArenaBytes);
    EXPECT_FALSE(Session(shared, std::move(accepted)).Run());
  }

  testing::StrictOpenCl driver_;
  cl_icd_dispatch table_ = driver_.table();
  platform::SharedRegion rings_ = *platform::MakeSharedRegion("session_test", kRingsBytes);
  Channel client_ = *MapChannel(rings_.fd.get(), Side::kClient);
  std::shared_ptr<BufferStore> store_ =
      std::make_shared<BufferStore>(BufferStore::Options{.device_bytes = kSlotBytes.count});
  std::uint32_t orders_ = 0;
};

// Else a memory order takes the buffers that were used last, since those of batches long ended are still pinned.
TEST_F(SessionOnOurDriver, FinishedCommandsPinNothingWhenTheClientIsTold) {
  const std::uint32_t device = kDevice, pattern = 7;
  Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(&device, 1)});
  Send(wire::CreateQueue{.id = kQueue, .context = kContext, .device = kDevice});
  Send(wire::CreateBuffer{.id = kBuffer, .context = kContext, .flags = CL_MEM_READ_WRITE, .size = 4096});
  Send(wire::FillBuffer{
      .enqueue = {.queue = kQueue}, .buffer = kBuffer, .size = 4096, .pattern = std::as_bytes(std::span(&pattern, 1))});
  Send(wire::Flush{.queue = kQueue});  // closes the batch, whose end the driver tells after the finish's
  Send(wire::Finish{.request = 1, .queue = kQueue});
  int looked = 0;
  CallbacksOutOfOrder::Only().between = [&] {
    ++looked;
    EXPECT_EQ(store_->Report().resident_bytes, 4096U);
    Adopt(0);
    EXPECT_TRUE(store_->CarryOut()) << "the buffer is still pinned";
    EXPECT_EQ(store_->Report().resident_bytes, 0U);
  };
  Run();
  EXPECT_EQ(looked, 1);
}

}  // namespace
}  // namespace weir::opencl
