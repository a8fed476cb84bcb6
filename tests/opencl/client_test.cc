// SPDX-License-Identifier: Apache-2.0
// The client's library against a real executor on PoCL: what programs rely on, and what each call costs in messages and
// round trips (the table of docs/protocol/opencl.md). Calls go through the dispatch table, as a loader's do.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <numeric>
#include <thread>

#include "opencl/icd/link.h"
#include "platform/clock.h"
#include "platform/spawn.h"
#include "platform/unix_socket.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::opencl::icd {
namespace {

const cl_icd_dispatch& cl = kDispatch;

constexpr const char* kSource = R"(
kernel void add(global const int* a, global int* b, int n) { int i = get_global_id(0); b[i] = a[i] + n; }
kernel void sum(global int* out, local int* scratch) {
  scratch[get_local_id(0)] = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (get_local_id(0) == 0) { int s = 0; for (int i = 0; i < (int)get_local_size(0); ++i) s += scratch[i]; out[get_group_id(0)] = s; }
}
kernel __attribute__((reqd_work_group_size(4, 1, 1))) void four(global int* out) { out[get_global_id(0)] = get_local_size(0); }
kernel void slow(global int* out, int n) { for (int i = 0; i < n; ++i) out[i % 16] = out[(i + 1) % 16] + i; }
)";

/// Its file is there a moment before it listens.
void AwaitListener(const std::string& socket) {
  for (int attempt = 0; !platform::ConnectSeqPacket(socket) && attempt < 1000; ++attempt) ::usleep(20'000);
}

/// Memory is elastic, and contents are sent away all the time: each test holds all the same, but for what it says of
/// buffers that are ranges of the arena.
bool MemoryIsElastic() { return ::getenv("WEIR_TEST_ELASTIC") != nullptr; }

/// And every launch that can be cut is.
bool InParts() { return std::string_view(::getenv("WEIR_TEST_ELASTIC")) == "parts"; }

/// The executor is on another machine: the tests reach it by way of a relay and a portal.
bool IsDistant() { return ::getenv("WEIR_TEST_PORTAL") != nullptr; }

/// A gate that takes all slots away and gives them back, by turns.
class ElasticGate {
 public:
  explicit ElasticGate(const std::string& path) : host_(path), thread_([this] { Run(); }) {}
  ~ElasticGate() {
    stop_ = true;
    thread_.join();
  }
  ElasticGate(const ElasticGate&) = delete;
  ElasticGate& operator=(const ElasticGate&) = delete;

 private:
  void Run() {
    for (std::uint32_t turn = 0; !stop_; ++turn) {
      host_.With([turn](gate::VgpuGate& gate) {
        gate.Publish({.memory_limit_slots = 16,
                      .memory_elastic = true,
                      .memory_here_slots = turn % 2 == 0 ? 16U : 0U,
                      .memory_max_slots = 0});
      });
      ::usleep(turn % 2 == 0 ? 5'000 : 2'000);
    }
  }
  testing::GateHost host_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// One executor for all tests: it loads a compiler.
class Executor : public ::testing::Environment {
 public:
  void SetUp() override {
    ::setenv("POCL_CACHE_DIR", (folder_ / "cache").c_str(), 0);
    socket_ = folder_ / "there.sock";
    std::vector<std::string> argv{WEIR_EXECUTOR, "--socket", socket_, "--cpus", "2", "--idle-exit", "600"};
    if (MemoryIsElastic()) {
      gate_ = std::make_unique<ElasticGate>(folder_ / "gate");
      ::usleep(20'000);  // an order is there before it is asked for
      argv.insert(argv.end(), {"--attach", folder_ / "gate"});
      if (InParts()) argv.insert(argv.end(), {"--partition", "always"});
    }
    const auto pid = platform::Spawn({.argv = argv});
    ASSERT_TRUE(pid) << pid.error().message;
    pid_ = *pid;
    AwaitListener(socket_);
    ::setenv("WEIR_OPENCL", IsDistant() ? RelayTo(socket_).c_str() : socket_.c_str(), 1);
  }
  void TearDown() override {
    for (const pid_t pid : {pid_, portal_, relay_}) {
      if (pid == 0) continue;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

 private:
  std::string RelayTo(const std::string& socket) {
    const std::string port_file = folder_ / "port", here = folder_ / "here.sock";
    const std::string folder = socket.substr(0, socket.rfind('/'));
    const auto portal = platform::Spawn({.argv = {::getenv("WEIR_TEST_PORTAL"), "--plain", "--listen", "127.0.0.1:0",
                                                  "--executors", folder, "--port-file", port_file, "--quiet"}});
    EXPECT_TRUE(portal) << portal.error().message;
    portal_ = *portal;
    std::string port;
    testing::WaitUntil([&] { return static_cast<bool>(std::getline(std::ifstream(port_file), port)); });
    const auto relay = platform::Spawn({.argv = {::getenv("WEIR_TEST_RELAY"), "--plain", "--vgpu", "there", "--node",
                                                 "127.0.0.1:" + port, "--socket", here}});
    EXPECT_TRUE(relay) << relay.error().message;
    relay_ = *relay;
    AwaitListener(here);
    return here;
  }

  testing::TempFolder folder_;
  std::unique_ptr<ElasticGate> gate_;
  std::string socket_;
  pid_t pid_ = 0, portal_ = 0, relay_ = 0;
};
const auto* const kExecutor = ::testing::AddGlobalTestEnvironment(new Executor);

class OpenCl : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cl.clGetPlatformIDs(1, &platform_, nullptr), CL_SUCCESS);
    ASSERT_EQ(cl.clGetDeviceIDs(platform_, CL_DEVICE_TYPE_ALL, 1, &device_, nullptr), CL_SUCCESS);
    context_ = cl.clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &error_);
    ASSERT_EQ(error_, CL_SUCCESS);
    queue_ = cl.clCreateCommandQueue(context_, device_, 0, &error_);
    ASSERT_EQ(error_, CL_SUCCESS);
  }
  void TearDown() override {
    if (program_ != nullptr) cl.clReleaseProgram(program_);
    EXPECT_EQ(cl.clReleaseCommandQueue(queue_), CL_SUCCESS);
    EXPECT_EQ(cl.clReleaseContext(context_), CL_SUCCESS);
  }

  cl_program Program(const char* source, const char* options = nullptr) {
    cl_program program = cl.clCreateProgramWithSource(context_, 1, &source, nullptr, &error_);
    EXPECT_EQ(error_, CL_SUCCESS);
    error_ = cl.clBuildProgram(program, 0, nullptr, options, nullptr, nullptr);
    return program;
  }
  cl_kernel Kernel(const char* name) {
    if (program_ == nullptr) program_ = Program(kSource);
    cl_kernel kernel = cl.clCreateKernel(program_, name, &error_);
    EXPECT_EQ(error_, CL_SUCCESS);
    return kernel;
  }
  cl_mem Buffer(std::size_t bytes, void* host = nullptr, cl_mem_flags flags = 0) {
    cl_mem buffer = cl.clCreateBuffer(context_, flags | (host != nullptr && flags == 0 ? CL_MEM_COPY_HOST_PTR : 0),
                                      bytes, host, &error_);
    EXPECT_EQ(error_, CL_SUCCESS);
    return buffer;
  }
  template <typename T>
  cl_int Set(cl_kernel kernel, cl_uint index, const T& value) {
    return cl.clSetKernelArg(kernel, index, sizeof value, &value);
  }
  cl_int Launch(cl_kernel kernel, std::size_t items, cl_event* event = nullptr, cl_command_queue queue = nullptr) {
    return cl.clEnqueueNDRangeKernel(queue != nullptr ? queue : queue_, kernel, 1, nullptr, &items, nullptr, 0, nullptr,
                                     event);
  }
  std::vector<int> Read(cl_mem buffer, std::size_t count) {
    std::vector<int> values(count, -1);
    EXPECT_EQ(
        cl.clEnqueueReadBuffer(queue_, buffer, CL_TRUE, 0, count * sizeof(int), values.data(), 0, nullptr, nullptr),
        CL_SUCCESS);
    return values;
  }

  struct Cost {
    std::uint64_t messages = 0, round_trips = 0;
    bool operator==(const Cost&) const = default;
  };
  friend void PrintTo(const Cost& cost, std::ostream* out) {
    *out << cost.messages << " messages, " << cost.round_trips << " round trips";
  }
  static Cost CostOf(const std::function<void()>& calls) {
    LinkStats& stats = Link::Existing()->stats();
    const Cost before{stats.messages.load(), stats.round_trips.load()};
    calls();
    return {stats.messages.load() - before.messages, stats.round_trips.load() - before.round_trips};
  }

  cl_platform_id platform_ = nullptr;
  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_program program_ = nullptr;
  cl_int error_ = CL_SUCCESS;
};

TEST_F(OpenCl, ComputesWhatTheProgramSays) {
  std::vector<int> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  cl_mem a = Buffer(4000, numbers.data()), b = Buffer(4000);
  cl_kernel add = Kernel("add");
  ASSERT_EQ(Set(add, 0, a), CL_SUCCESS);
  ASSERT_EQ(Set(add, 1, b), CL_SUCCESS);
  ASSERT_EQ(Set(add, 2, 7), CL_SUCCESS);
  ASSERT_EQ(Launch(add, 1000), CL_SUCCESS);
  const std::vector<int> result = Read(b, 1000);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(result[i], i + 7);
  cl.clReleaseKernel(add);
  cl.clReleaseMemObject(a);
  cl.clReleaseMemObject(b);
}

// -- What calls cost
// ---------------------------------------------------------------------------------------------------

TEST_F(OpenCl, OnlyCallsThatHaveToWaitDo) {
  if (MemoryIsElastic() || IsDistant()) GTEST_SKIP() << "what lies in the arena is read and written there";
  std::vector<int> numbers(1024, 1);
  cl_kernel add = Kernel("add");
  cl_mem a = nullptr, b = nullptr;
  EXPECT_EQ(CostOf([&] { a = Buffer(4096), b = Buffer(4096); }), (Cost{2, 0}));
  Read(b, 1);
  EXPECT_EQ(CostOf([&] { Set(add, 0, a), Set(add, 1, b), Set(add, 2, 1); }), (Cost{0, 0}));
  EXPECT_EQ(CostOf([&] { Set(add, 0, a), Set(add, 2, 1); }), (Cost{0, 0})) << "nothing has changed";
  EXPECT_EQ(CostOf([&] {
              for (int i = 0; i < 10; ++i) Launch(add, 1024);
            }),
            (Cost{13, 0}));
  EXPECT_EQ(CostOf([&] { cl.clEnqueueWriteBuffer(queue_, a, CL_TRUE, 0, 4096, numbers.data(), 0, nullptr, nullptr); }),
            (Cost{1, 0}))
      << "the bytes are in the message";
  EXPECT_EQ(CostOf([&] { Read(b, 16); }), (Cost{1, 1}));
  EXPECT_EQ(CostOf([&] { Read(b, 16); }), (Cost{0, 0})) << "the queue is idle";
  EXPECT_EQ(CostOf([&] { cl.clEnqueueWriteBuffer(queue_, a, CL_FALSE, 0, 4096, numbers.data(), 0, nullptr, nullptr); }),
            (Cost{0, 0}));
  EXPECT_EQ(CostOf([&] { cl.clFinish(queue_), cl.clFlush(queue_); }), (Cost{0, 0}));
  EXPECT_EQ(CostOf([&] {
              void* pointer = cl.clEnqueueMapBuffer(queue_, a, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, 4096, 0, nullptr,
                                                    nullptr, &error_);
              cl.clEnqueueUnmapMemObject(queue_, a, pointer, 0, nullptr, nullptr);
            }),
            (Cost{0, 0}));
  EXPECT_EQ(CostOf([&] { Launch(add, 1024), cl.clFlush(queue_), cl.clFinish(queue_); }), (Cost{3, 1}));
  cl_event event = nullptr;
  EXPECT_EQ(CostOf([&] { Launch(add, 1024, &event), cl.clWaitForEvents(1, &event); }), (Cost{2, 1}));
  EXPECT_EQ(CostOf([&] { cl.clWaitForEvents(1, &event), Read(b, 16); }), (Cost{0, 0}))
      << "the last command is known to have ended";
  cl_uint count = 0;
  std::size_t size = 0;
  EXPECT_EQ(CostOf([&] {
              cl.clGetKernelInfo(add, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr);
              cl.clGetKernelWorkGroupInfo(add, device_, CL_KERNEL_WORK_GROUP_SIZE, sizeof size, &size, nullptr);
              cl.clGetMemObjectInfo(a, CL_MEM_SIZE, sizeof size, &size, nullptr);
              cl.clGetDeviceInfo(device_, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof size, &size, nullptr);
              cl.clRetainMemObject(a), cl.clReleaseMemObject(a);
            }),
            (Cost{0, 0}));
  EXPECT_EQ(CostOf([&] {
              cl.clReleaseEvent(event), cl.clReleaseKernel(add), cl.clReleaseMemObject(a), cl.clReleaseMemObject(b);
            }),
            (Cost{4, 0}));
  EXPECT_EQ(CostOf([&] { cl.clReleaseProgram(Program(kSource)); }), (Cost{3, 1})) << "create, build, release";
}

// Also where the device is another machine's: what a program does from its first object to its result is one wait.
TEST_F(OpenCl, AWholeJobIsOneRoundTrip) {
  std::vector<int> numbers(1024, 1);
  cl_kernel add = Kernel("add");
  const auto job = [&] {
    cl_mem a = Buffer(4096), b = Buffer(4096);
    cl.clEnqueueWriteBuffer(queue_, a, CL_FALSE, 0, 4096, numbers.data(), 0, nullptr, nullptr);
    Set(add, 0, a), Set(add, 1, b), Set(add, 2, 41);
    Launch(add, 1024);
    EXPECT_EQ(Read(b, 1024), std::vector<int>(1024, 42));
    cl.clReleaseMemObject(a), cl.clReleaseMemObject(b);
  };
  EXPECT_EQ(CostOf(job).round_trips, 1U);
  EXPECT_EQ(CostOf(job).round_trips, 1U) << "and again";
  cl.clReleaseKernel(add);
}

TEST_F(OpenCl, WhatNobodyWaitsForWakesNobody) {
  std::vector<int> numbers(1024, 1);
  const std::atomic<std::uint64_t>& wakes = Link::Existing()->stats().wakes;
  const std::uint64_t before = wakes.load();
  constexpr std::uint64_t kJobs = 200;
  for (std::uint64_t i = 0; i < kJobs; ++i) {
    cl_mem a = Buffer(4096);
    cl.clEnqueueWriteBuffer(queue_, a, CL_FALSE, 0, 4096, numbers.data(), 0, nullptr, nullptr);
    cl.clFinish(queue_);
    cl.clReleaseMemObject(a);
  }
  EXPECT_LE(wakes.load() - before, 2 * kJobs) << "the write and the finish; not the create, nor the release";
}

TEST_F(OpenCl, ALongReadGivesWhatTheBufferHoldsHoweverItIsCut) {
  for (const std::size_t size : {(4UL << 20) + 1, 9UL << 20, (40UL << 20) + 12'345}) {
    std::vector<unsigned char> content(size + 3), back(size + 2, 0xEE);
    for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<unsigned char>(i * 31 + i / 65'521);
    cl_mem buffer = Buffer(content.size(), content.data());
    const auto read = [&] {
      ASSERT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_TRUE, 3, size, back.data() + 1, 0, nullptr, nullptr),
                CL_SUCCESS);
    };
    const std::uint64_t round_trips = CostOf(read).round_trips;
    if (IsDistant()) {
      EXPECT_GE(round_trips, 1U);
      EXPECT_LE(round_trips, (size >> 21) + 1) << "of parts that are on their way at once";
    }
    EXPECT_TRUE(std::equal(content.begin() + 3, content.end(), back.begin() + 1)) << size;
    EXPECT_EQ(back.front(), 0xEE);
    EXPECT_EQ(back.back(), 0xEE);
    cl.clReleaseMemObject(buffer);
  }
}

TEST_F(OpenCl, BlockingWritesAreNoMoreAheadThanIsSaid) {
  constexpr std::size_t kBytes = 4 << 20;
  constexpr int kWrites = 40, kAheadMost = 64 / 4;
  std::vector<unsigned char> content(kBytes);
  cl_mem buffer = Buffer(kBytes);
  const unsigned char zero = 0;
  cl_event held = cl.clCreateUserEvent(context_, &error_);
  ASSERT_EQ(cl.clEnqueueFillBuffer(queue_, buffer, &zero, 1, 0, kBytes, 1, &held, nullptr), CL_SUCCESS);
  std::atomic<int> returned{0};
  std::thread writer([&] {
    for (int i = 0; i < kWrites; ++i) {
      std::fill(content.begin(), content.end(), static_cast<unsigned char>(i + 1));
      EXPECT_EQ(cl.clEnqueueWriteBuffer(queue_, buffer, CL_TRUE, 0, kBytes, content.data(), 0, nullptr, nullptr),
                CL_SUCCESS);
      ++returned;
    }
  });
  for (int before = -1; before != returned.load(); ::usleep(100'000)) before = returned.load();
  EXPECT_LE(returned.load(), kAheadMost) << "nothing can have been written yet";
  EXPECT_EQ(cl.clSetUserEventStatus(held, CL_COMPLETE), CL_SUCCESS);
  writer.join();
  std::fill(content.begin(), content.end(), zero);
  ASSERT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_TRUE, 0, kBytes, content.data(), 0, nullptr, nullptr),
            CL_SUCCESS);
  EXPECT_EQ(std::count(content.begin(), content.end(), kWrites), static_cast<std::ptrdiff_t>(kBytes));
  cl.clReleaseEvent(held);
  cl.clReleaseMemObject(buffer);
}

// -- Errors
// --------------------------------------------------------------------------------------------------------------

TEST_F(OpenCl, FindsWrongArgumentsBeforeAnybodyIsAsked) {
  cl_kernel add = Kernel("add"), sum = Kernel("sum"), four = Kernel("four");
  cl_mem a = Buffer(4096);
  const auto error = [&](auto... arguments) { return cl.clSetKernelArg(arguments...); };
  EXPECT_EQ(Launch(add, 16), CL_INVALID_KERNEL_ARGS);
  EXPECT_EQ(error(add, 3U, sizeof(int), &a), CL_INVALID_ARG_INDEX);
  EXPECT_EQ(error(add, 2U, std::size_t{8}, &a), CL_INVALID_ARG_SIZE);
  EXPECT_EQ(error(add, 0U, std::size_t{4}, &a), CL_INVALID_ARG_SIZE);
  EXPECT_EQ(error(add, 0U, sizeof queue_, &queue_), CL_INVALID_MEM_OBJECT);
  EXPECT_EQ(error(sum, 1U, sizeof a, &a), CL_INVALID_ARG_VALUE);
  EXPECT_EQ(error(sum, 1U, std::size_t{0}, nullptr), CL_INVALID_ARG_SIZE);
  Set(four, 0, a);
  const std::size_t sixteen = 16, eight = 8, ten = 10, four_items = 4;
  const auto launch = [&](cl_uint dimensions, const std::size_t* offset, const std::size_t* global,
                          const std::size_t* local) {
    return cl.clEnqueueNDRangeKernel(queue_, four, dimensions, offset, global, local, 0, nullptr, nullptr);
  };
  EXPECT_EQ(launch(0, nullptr, &sixteen, nullptr), CL_INVALID_WORK_DIMENSION);
  EXPECT_EQ(launch(4, nullptr, &sixteen, nullptr), CL_INVALID_WORK_DIMENSION);
  EXPECT_EQ(launch(1, nullptr, &sixteen, &eight), CL_INVALID_WORK_GROUP_SIZE) << "it requires four";
  EXPECT_EQ(launch(1, nullptr, &ten, &four_items), CL_INVALID_WORK_GROUP_SIZE) << "four does not divide ten";
  const std::size_t most = SIZE_MAX;
  EXPECT_EQ(launch(1, &most, &sixteen, nullptr), CL_INVALID_GLOBAL_OFFSET);
  EXPECT_EQ(launch(1, nullptr, &sixteen, nullptr), CL_SUCCESS);
  EXPECT_EQ(Read(a, 1)[0], 4);

  EXPECT_EQ(cl.clCreateBuffer(context_, 0, 0, nullptr, &error_), nullptr);
  EXPECT_EQ(error_, CL_INVALID_BUFFER_SIZE);
  EXPECT_EQ(cl.clCreateBuffer(context_, CL_MEM_COPY_HOST_PTR, 4, nullptr, &error_), nullptr);
  EXPECT_EQ(error_, CL_INVALID_HOST_PTR);
  EXPECT_EQ(cl.clEnqueueReadBuffer(queue_, a, CL_TRUE, 4000, 100, &a, 0, nullptr, nullptr), CL_INVALID_VALUE);
  EXPECT_EQ(cl.clEnqueueCopyBuffer(queue_, a, a, 0, 50, 100, 0, nullptr, nullptr), CL_MEM_COPY_OVERLAP);
  EXPECT_EQ(cl.clEnqueueReadBuffer(reinterpret_cast<cl_command_queue>(a), a, CL_TRUE, 0, 4, &a, 0, nullptr, nullptr),
            CL_INVALID_COMMAND_QUEUE);
  EXPECT_EQ(cl.clEnqueueMarkerWithWaitList(queue_, 1, nullptr, nullptr), CL_INVALID_EVENT_WAIT_LIST);
  cl_context other = cl.clCreateContext(nullptr, 1, &device_, nullptr, nullptr, nullptr);
  cl_mem foreign = cl.clCreateBuffer(other, 0, 4096, nullptr, nullptr);
  EXPECT_EQ(cl.clEnqueueCopyBuffer(queue_, a, foreign, 0, 0, 16, 0, nullptr, nullptr), CL_INVALID_CONTEXT);
  cl.clReleaseMemObject(foreign);
  cl.clReleaseContext(other);
  for (cl_kernel kernel : {add, sum, four}) cl.clReleaseKernel(kernel);
  cl.clReleaseMemObject(a);
}

TEST_F(OpenCl, ToldOfABrokenProgramReadsItsLog) {
  cl_program program = Program("kernel void f( { }");
  EXPECT_EQ(error_, CL_BUILD_PROGRAM_FAILURE);
  char log[4096] = {};
  EXPECT_EQ(cl.clGetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, sizeof log, log, nullptr), CL_SUCCESS);
  EXPECT_NE(std::string(log).find("error"), std::string::npos) << log;
  EXPECT_EQ(cl.clCreateKernel(program, "f", &error_), nullptr);
  EXPECT_EQ(error_, CL_INVALID_PROGRAM_EXECUTABLE);
  cl.clReleaseProgram(program);
}

// -- Programs --------------------------------------------------------------------------------------------------------

TEST_F(OpenCl, FindsIncludedFilesWhereTheProgramRuns) {
  const testing::TempFolder folder;
  std::ofstream(folder / "n.h") << "#define N 42\n";
  cl_program program =
      Program("#include \"n.h\"\nkernel void f(global int* out) { *out = N; }", ("-I " + folder.path()).c_str());
  ASSERT_EQ(error_, CL_SUCCESS);
  cl_kernel kernel = cl.clCreateKernel(program, "f", &error_);
  cl_mem out = Buffer(4);
  Set(kernel, 0, out);
  Launch(kernel, 1);
  EXPECT_EQ(Read(out, 1)[0], 42);
  cl.clReleaseKernel(kernel);
  cl.clReleaseMemObject(out);
  cl.clReleaseProgram(program);
}

TEST_F(OpenCl, FindsFilesThatAreIncludedByAbsoluteNames) {
  const testing::TempFolder folder;
  std::ofstream(folder / "n.h") << "#include <" << folder / "m.h"
                                << ">\n";
  std::ofstream(folder / "m.h") << "#define N 43\n";
  cl_program program =
      Program(("#include \"" + (folder / "n.h") + "\"\nkernel void f(global int* out) { *out = N; }").c_str());
  EXPECT_EQ(error_, CL_SUCCESS);
  cl.clReleaseProgram(program);
}

TEST_F(OpenCl, ABinaryBringsItsKernelsBack) {
  cl_program source = Program(kSource, "-cl-kernel-arg-info");
  std::size_t size = 0;
  ASSERT_EQ(cl.clGetProgramInfo(source, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr), CL_SUCCESS);
  std::vector<unsigned char> binary(size);
  unsigned char* into = binary.data();
  ASSERT_EQ(cl.clGetProgramInfo(source, CL_PROGRAM_BINARIES, sizeof into, &into, nullptr), CL_SUCCESS);
  cl.clReleaseProgram(source);
  const unsigned char* from = binary.data();
  cl_int status = CL_SUCCESS;
  cl_program program = cl.clCreateProgramWithBinary(context_, 1, &device_, &size, &from, &status, &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  ASSERT_EQ(cl.clBuildProgram(program, 0, nullptr, nullptr, nullptr, nullptr), CL_SUCCESS);
  cl_kernel add = cl.clCreateKernel(program, "add", &error_);
  char name[64] = {};
  EXPECT_EQ(cl.clGetKernelArgInfo(add, 2, CL_KERNEL_ARG_NAME, sizeof name, name, nullptr), CL_SUCCESS);
  EXPECT_STREQ(name, "n");
  std::vector<int> ones(16, 1);
  cl_mem a = Buffer(64, ones.data()), b = Buffer(64);
  Set(add, 0, a), Set(add, 1, b), Set(add, 2, 5);
  EXPECT_EQ(Launch(add, 16), CL_SUCCESS);
  EXPECT_EQ(Read(b, 16), std::vector<int>(16, 6));
  cl.clReleaseKernel(add);
  cl.clReleaseProgram(program);
  binary[size / 2] ^= 1;
  EXPECT_EQ(cl.clCreateProgramWithBinary(context_, 1, &device_, &size, &from, &status, &error_), nullptr);
  EXPECT_EQ(error_, CL_INVALID_BINARY);
  EXPECT_EQ(status, CL_INVALID_BINARY);
  cl.clReleaseMemObject(a);
  cl.clReleaseMemObject(b);
}

TEST_F(OpenCl, LinksWhatItCompiled) {
  const char* library = "int twice(int x) { return 2 * x; }";
  const char* user = "#include \"twice.h\"\nkernel void f(global int* out) { *out = twice(21); }";
  const char* header = "int twice(int x);";
  cl_program parts[2] = {cl.clCreateProgramWithSource(context_, 1, &library, nullptr, &error_),
                         cl.clCreateProgramWithSource(context_, 1, &user, nullptr, &error_)};
  cl_program headers = cl.clCreateProgramWithSource(context_, 1, &header, nullptr, &error_);
  const char* name = "twice.h";
  ASSERT_EQ(cl.clCompileProgram(parts[0], 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, nullptr), CL_SUCCESS);
  ASSERT_EQ(cl.clCompileProgram(parts[1], 0, nullptr, nullptr, 1, &headers, &name, nullptr, nullptr), CL_SUCCESS);
  cl_program program = cl.clLinkProgram(context_, 0, nullptr, nullptr, 2, parts, nullptr, nullptr, &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  cl_kernel kernel = cl.clCreateKernel(program, "f", &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  cl_mem out = Buffer(4);
  Set(kernel, 0, out);
  Launch(kernel, 1);
  EXPECT_EQ(Read(out, 1)[0], 42);
  cl.clReleaseKernel(kernel);
  for (cl_program each : {program, parts[0], parts[1], headers}) cl.clReleaseProgram(each);
  cl.clReleaseMemObject(out);
}

TEST_F(OpenCl, ProgramsOfPartsOfADeviceKnowThem) {
  const cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
  cl_device_id parts[2] = {};
  ASSERT_EQ(cl.clCreateSubDevices(device_, equally, 2, parts, nullptr), CL_SUCCESS);
  cl_context context = cl.clCreateContext(nullptr, 2, parts, nullptr, nullptr, &error_);
  cl_program program = cl.clCreateProgramWithSource(context, 1, const_cast<const char**>(&kSource), nullptr, &error_);
  ASSERT_EQ(cl.clBuildProgram(program, 1, &parts[1], nullptr, nullptr, nullptr), CL_SUCCESS);
  cl_build_status status = CL_BUILD_NONE;
  cl.clGetProgramBuildInfo(program, parts[1], CL_PROGRAM_BUILD_STATUS, sizeof status, &status, nullptr);
  EXPECT_EQ(status, CL_BUILD_SUCCESS);
  cl_kernel add = cl.clCreateKernel(program, "add", &error_);
  std::size_t size = 0;
  cl.clGetKernelWorkGroupInfo(add, parts[1], CL_KERNEL_WORK_GROUP_SIZE, sizeof size, &size, nullptr);
  EXPECT_GT(size, 0U);
  cl_command_queue queue = cl.clCreateCommandQueue(context, parts[1], 0, &error_);
  std::vector<int> ones(16, 1), back(16);
  cl_mem buffer = cl.clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, 64, ones.data(), &error_);
  for (cl_device_id part : parts) EXPECT_EQ(cl.clReleaseDevice(part), CL_SUCCESS) << "the context keeps it";
  Set(add, 0, buffer), Set(add, 1, buffer), Set(add, 2, 5);
  EXPECT_EQ(Launch(add, 16, nullptr, queue), CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 64, back.data(), 0, nullptr, nullptr), CL_SUCCESS);
  EXPECT_EQ(back, std::vector<int>(16, 6));
  cl.clReleaseMemObject(buffer);
  cl.clReleaseCommandQueue(queue);
  cl.clReleaseKernel(add);
  cl.clReleaseProgram(program);
  cl.clReleaseContext(context);
}

// -- Memory
// ------------------------------------------------------------------------------------------------------------

TEST_F(OpenCl, MapsGiveTheProgramItsOwnMemoryWhereItBroughtSome) {
  std::vector<int> mine(1024, 3);
  cl_mem buffer = Buffer(4096, mine.data(), CL_MEM_USE_HOST_PTR);
  const int five = 5;
  ASSERT_EQ(cl.clEnqueueFillBuffer(queue_, buffer, &five, 4, 0, 4096, 0, nullptr, nullptr), CL_SUCCESS);
  auto* pointer = static_cast<int*>(cl.clEnqueueMapBuffer(queue_, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 64, 128,
                                                          0, nullptr, nullptr, &error_));
  ASSERT_EQ(error_, CL_SUCCESS);
  EXPECT_EQ(pointer, mine.data() + 16);
  EXPECT_EQ(mine[16], 5);
  EXPECT_EQ(mine[0], 3) << "not mapped";
  mine[16] = 9;
  cl_uint maps = 0;
  cl.clGetMemObjectInfo(buffer, CL_MEM_MAP_COUNT, sizeof maps, &maps, nullptr);
  EXPECT_EQ(maps, 1U);
  EXPECT_EQ(cl.clEnqueueUnmapMemObject(queue_, buffer, pointer, 0, nullptr, nullptr), CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueUnmapMemObject(queue_, buffer, pointer, 0, nullptr, nullptr), CL_INVALID_VALUE);
  EXPECT_EQ(Read(buffer, 18)[16], 9);
  cl.clReleaseMemObject(buffer);
}

TEST_F(OpenCl, PartsOfABufferAreItsMemory) {
  std::vector<int> numbers(1024);
  std::iota(numbers.begin(), numbers.end(), 0);
  cl_mem whole = Buffer(4096, numbers.data());
  const cl_buffer_region region{1024, 1024}, crooked{1, 16}, outside{4096, 16};
  cl_mem part = cl.clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  EXPECT_EQ(cl.clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &crooked, &error_), nullptr);
  EXPECT_EQ(error_, CL_MISALIGNED_SUB_BUFFER_OFFSET);
  EXPECT_EQ(cl.clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &outside, &error_), nullptr);
  EXPECT_EQ(error_, CL_INVALID_VALUE);
  EXPECT_EQ(cl.clCreateSubBuffer(part, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error_), nullptr);
  EXPECT_EQ(error_, CL_INVALID_MEM_OBJECT);
  cl_kernel add = Kernel("add");
  Set(add, 0, part), Set(add, 1, part), Set(add, 2, 1000);
  EXPECT_EQ(Launch(add, 256), CL_SUCCESS);
  EXPECT_EQ(cl.clReleaseMemObject(whole), CL_SUCCESS) << "its part keeps it";
  EXPECT_EQ(Read(part, 1)[0], 1256);
  cl.clReleaseKernel(add);
  cl.clReleaseMemObject(part);
}

TEST_F(OpenCl, BoxesAreReadAndWrittenWithTheProgramsPitches) {
  std::vector<unsigned char> there(64 * 64), back(32 * 32, 0xff);
  std::iota(there.begin(), there.end(), static_cast<unsigned char>(0));
  cl_mem buffer = Buffer(there.size(), there.data());
  const std::size_t origin[3] = {3, 2, 0}, host[3] = {1, 1, 0}, region[3] = {8, 4, 1};
  for (const bool idle : {true, false}) {
    const int zero = 0;
    cl_mem scratch = Buffer(64);
    if (!idle) cl.clEnqueueFillBuffer(queue_, scratch, &zero, 4, 0, 64, 0, nullptr, nullptr);
    ASSERT_EQ(cl.clEnqueueReadBufferRect(queue_, buffer, CL_TRUE, origin, host, region, 64, 0, 32, 0, back.data(), 0,
                                         nullptr, nullptr),
              CL_SUCCESS);
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 8; ++x) ASSERT_EQ(back[(y + 1) * 32 + x + 1], there[(y + 2) * 64 + x + 3]);
    EXPECT_EQ(back[0], 0xff);
    if (!idle) cl.clEnqueueFillBuffer(queue_, scratch, &zero, 4, 0, 64, 0, nullptr, nullptr);
    std::vector<unsigned char> mine(32 * 32, idle ? 77 : 88);
    ASSERT_EQ(cl.clEnqueueWriteBufferRect(queue_, buffer, CL_TRUE, origin, host, region, 64, 0, 32, 0, mine.data(), 0,
                                          nullptr, nullptr),
              CL_SUCCESS);
    cl.clEnqueueReadBuffer(queue_, buffer, CL_TRUE, 0, there.size(), there.data(), 0, nullptr, nullptr);
    EXPECT_EQ(there[2 * 64 + 3], idle ? 77 : 88);
    EXPECT_EQ(there[2 * 64 + 11], static_cast<unsigned char>(2 * 64 + 11));
    cl.clReleaseMemObject(scratch);
  }
  cl.clReleaseMemObject(buffer);
}

TEST_F(OpenCl, ManyBuffersComeAndGo) {
  std::vector<unsigned char> content(1 << 20, 5);
  cl_kernel add = Kernel("add");
  for (int round = 0; round < 3000; ++round) {
    cl_mem a = Buffer(16 << 20), b = Buffer(4096);
    cl.clEnqueueWriteBuffer(queue_, a, CL_FALSE, 0, content.size(), content.data(), 0, nullptr, nullptr);
    Set(add, 0, a), Set(add, 1, b), Set(add, 2, round);
    ASSERT_EQ(Launch(add, 16), CL_SUCCESS);
    if (round % 100 == 0) {
      ASSERT_EQ(Read(b, 1)[0], 0x05050505 + round);
    }
    cl.clReleaseMemObject(a);
    cl.clReleaseMemObject(b);
    ASSERT_EQ(error_, CL_SUCCESS) << round;
  }
  cl.clReleaseKernel(add);
}

TEST_F(OpenCl, ImagesTravelPackedAndMapAsCopies) {
  const cl_image_format format{CL_RGBA, CL_UNSIGNED_INT8};
  cl_image_desc desc{};
  desc.image_type = CL_MEM_OBJECT_IMAGE2D;
  desc.image_width = 16;
  desc.image_height = 8;
  std::vector<unsigned char> pixels(16 * 8 * 4);
  std::iota(pixels.begin(), pixels.end(), static_cast<unsigned char>(0));
  cl_mem image = cl.clCreateImage(context_, CL_MEM_COPY_HOST_PTR, &format, &desc, pixels.data(), &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  const std::size_t origin[3] = {2, 1, 0}, region[3] = {4, 2, 1};
  std::vector<unsigned char> back(4 * 2 * 4);
  ASSERT_EQ(cl.clEnqueueReadImage(queue_, image, CL_TRUE, origin, region, 0, 0, back.data(), 0, nullptr, nullptr),
            CL_SUCCESS);
  EXPECT_EQ(back[0], pixels[(16 + 2) * 4]);
  std::size_t row_pitch = 0;
  auto* mapped =
      static_cast<unsigned char*>(cl.clEnqueueMapImage(queue_, image, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, origin,
                                                       region, &row_pitch, nullptr, 0, nullptr, nullptr, &error_));
  ASSERT_EQ(error_, CL_SUCCESS);
  EXPECT_EQ(mapped[row_pitch], pixels[(2 * 16 + 2) * 4]);
  mapped[0] = 200;
  ASSERT_EQ(cl.clEnqueueUnmapMemObject(queue_, image, mapped, 0, nullptr, nullptr), CL_SUCCESS);
  ASSERT_EQ(cl.clEnqueueReadImage(queue_, image, CL_TRUE, origin, region, 0, 0, back.data(), 0, nullptr, nullptr),
            CL_SUCCESS);
  EXPECT_EQ(back[0], 200);
  EXPECT_EQ(cl.clEnqueueReadImage(queue_, image, CL_TRUE, origin, region, 8, 0, back.data(), 0, nullptr, nullptr),
            CL_INVALID_VALUE);
  cl.clReleaseMemObject(image);
}

TEST_F(OpenCl, AnImageOfAFormatThatTheDeviceHasNotIsRefusedAtOnce) {
  cl_image_format formats[256];
  cl_uint count = 0;
  ASSERT_EQ(cl.clGetSupportedImageFormats(context_, CL_MEM_READ_ONLY, CL_MEM_OBJECT_IMAGE2D, 256, formats, &count),
            CL_SUCCESS);
  const std::span known(formats, std::min(count, 256U));
  cl_image_desc desc = {};
  desc.image_type = CL_MEM_OBJECT_IMAGE2D;
  desc.image_width = desc.image_height = 4;
  int refused = 0;
  const Cost cost = CostOf([&] {
    for (const cl_channel_order order : {CL_R, CL_A, CL_RG, CL_RA, CL_RGBA, CL_BGRA, CL_ARGB}) {
      const cl_image_format format{order, CL_FLOAT};
      const bool there = std::ranges::any_of(known, [&](const cl_image_format& one) {
        return one.image_channel_order == order && one.image_channel_data_type == CL_FLOAT;
      });
      cl_mem image = cl.clCreateImage(context_, CL_MEM_READ_ONLY, &format, &desc, nullptr, &error_);
      EXPECT_EQ(error_, there ? CL_SUCCESS : CL_IMAGE_FORMAT_NOT_SUPPORTED) << "channel order " << order;
      refused += image == nullptr ? 1 : 0;
      if (image != nullptr) cl.clReleaseMemObject(image);
    }
  });
  EXPECT_GT(refused, 0) << "this driver has all formats";
  EXPECT_EQ(cost.round_trips, 1U) << "it is asked once";
}

// -- Events
// ------------------------------------------------------------------------------------------------------------

TEST_F(OpenCl, EventsOfTheProgramHoldCommandsBack) {
  cl_mem buffer = Buffer(64);
  const int one = 1;
  cl_event mine = cl.clCreateUserEvent(context_, &error_), filled = nullptr;
  ASSERT_EQ(cl.clEnqueueFillBuffer(queue_, buffer, &one, 4, 0, 64, 1, &mine, &filled), CL_SUCCESS);
  int back = 0;
  cl_event read = nullptr;
  ASSERT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_FALSE, 0, 4, &back, 0, nullptr, &read), CL_SUCCESS);
  cl_int status = CL_COMPLETE;
  cl.clGetEventInfo(filled, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  EXPECT_GT(status, CL_COMPLETE);
  std::thread other([&] {
    ::usleep(20'000);
    EXPECT_EQ(cl.clSetUserEventStatus(mine, CL_COMPLETE), CL_SUCCESS);
  });
  EXPECT_EQ(cl.clWaitForEvents(1, &read), CL_SUCCESS);
  other.join();
  EXPECT_EQ(back, 1);
  cl.clGetEventInfo(filled, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  EXPECT_EQ(status, CL_COMPLETE) << "a later command has ended";
  EXPECT_EQ(cl.clSetUserEventStatus(mine, CL_COMPLETE), CL_INVALID_OPERATION);
  for (cl_event event : {mine, filled, read}) cl.clReleaseEvent(event);
  cl.clReleaseMemObject(buffer);
}

TEST_F(OpenCl, WhatWaitsForAFailedEventFails) {
  const int before = 7, after = 8;
  int held = before, back = 0;
  cl_mem buffer = Buffer(64, std::vector<int>(16, before).data());
  cl_kernel four = Kernel("four");
  ASSERT_EQ(Set(four, 0, buffer), CL_SUCCESS);
  const auto status_of = [](cl_event event) {
    EXPECT_EQ(cl.clWaitForEvents(1, &event), CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    cl_int status = CL_COMPLETE;
    cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
    cl.clReleaseEvent(event);
    return status;
  };
  cl_event mine = cl.clCreateUserEvent(context_, &error_), made[6] = {};
  // Two wait when it fails, and somebody for one of them; the others come later.
  ASSERT_EQ(cl.clEnqueueFillBuffer(queue_, buffer, &after, 4, 0, 64, 1, &mine, &made[0]), CL_SUCCESS);
  ASSERT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_FALSE, 0, 4, &back, 0, nullptr, &made[5]), CL_SUCCESS);
  cl.clFlush(queue_);
  std::thread waits([&] { EXPECT_EQ(cl.clWaitForEvents(1, &made[5]), CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST); });
  ::usleep(20'000);
  ASSERT_EQ(cl.clSetUserEventStatus(mine, -5), CL_SUCCESS);
  waits.join();
  EXPECT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_TRUE, 0, 4, &back, 1, &mine, nullptr),
            CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  EXPECT_EQ(cl.clEnqueueWriteBuffer(queue_, buffer, CL_TRUE, 0, 4, &after, 1, &mine, nullptr),
            CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  EXPECT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_FALSE, 0, 4, &back, 1, &mine, &made[1]), CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueWriteBuffer(queue_, buffer, CL_FALSE, 0, 4, &after, 1, &made[0], &made[2]), CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueFillBuffer(queue_, buffer, &after, 4, 0, 64, 1, &mine, nullptr), CL_SUCCESS);
  const std::size_t items = 16;
  EXPECT_EQ(cl.clEnqueueNDRangeKernel(queue_, four, 1, nullptr, &items, nullptr, 1, &mine, &made[3]), CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueMarkerWithWaitList(queue_, 1, &made[3], &made[4]), CL_SUCCESS);
  for (const int i : {0, 5}) EXPECT_LT(status_of(made[i]), 0) << "command " << i;
  for (const int i : {1, 2, 3, 4})
    EXPECT_EQ(status_of(made[i]), CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) << "command " << i;
  EXPECT_EQ(back, 0);
  // The queue goes on, and none of them has done anything.
  EXPECT_EQ(cl.clFinish(queue_), CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_TRUE, 0, 4, &held, 0, nullptr, nullptr), CL_SUCCESS);
  EXPECT_EQ(held, before);
  cl.clReleaseEvent(mine);
  cl.clReleaseKernel(four);
  cl.clReleaseMemObject(buffer);
}

TEST_F(OpenCl, CallbacksMayCallOpenCl) {
  struct Seen {
    std::atomic<int> events{0}, builds{0}, memory{0};
    cl_command_queue queue = nullptr;
    cl_mem buffer = nullptr;
  } seen;
  seen.queue = queue_;
  seen.buffer = Buffer(64);
  const int one = 1;
  cl_event event = nullptr;
  cl.clEnqueueFillBuffer(queue_, seen.buffer, &one, 4, 0, 64, 0, nullptr, &event);
  ASSERT_EQ(cl.clSetEventCallback(
                event, CL_COMPLETE,
                [](cl_event, cl_int status, void* user) {
                  auto& at = *static_cast<Seen*>(user);
                  int back = 0;
                  const int two = 2;
                  cl.clEnqueueFillBuffer(at.queue, at.buffer, &two, 4, 0, 64, 0, nullptr, nullptr);
                  cl.clEnqueueReadBuffer(at.queue, at.buffer, CL_TRUE, 0, 4, &back, 0, nullptr, nullptr);
                  at.events = status == CL_COMPLETE ? back : -1;
                },
                &seen),
            CL_SUCCESS);
  cl_program program = cl.clCreateProgramWithSource(context_, 1, const_cast<const char**>(&kSource), nullptr, &error_);
  ASSERT_EQ(
      cl.clBuildProgram(
          program, 0, nullptr, nullptr, [](cl_program, void* user) { ++static_cast<Seen*>(user)->builds; }, &seen),
      CL_SUCCESS);
  cl_mem doomed = Buffer(4096);
  cl.clSetMemObjectDestructorCallback(
      doomed, [](cl_mem, void* user) { ++static_cast<Seen*>(user)->memory; }, &seen);
  cl.clReleaseMemObject(doomed);
  for (int i = 0; i < 1000 && (seen.events == 0 || seen.builds == 0 || seen.memory == 0); ++i) ::usleep(10'000);
  EXPECT_EQ(seen.events, 2);
  EXPECT_EQ(seen.builds, 1);
  EXPECT_EQ(seen.memory, 1);
  cl.clReleaseEvent(event);
  cl.clReleaseProgram(program);
  cl.clReleaseMemObject(seen.buffer);
}

TEST_F(OpenCl, TimesAreInOrderAndOfTheHostsClock) {
  cl_command_queue queue = cl.clCreateCommandQueue(context_, device_, CL_QUEUE_PROFILING_ENABLE, &error_);
  cl_mem buffer = Buffer(64);
  cl_kernel slow = Kernel("slow");
  Set(slow, 0, buffer), Set(slow, 1, 1'000'000);
  cl_ulong before = 0, after = 0, times[4] = {};
  cl.clGetHostTimer(device_, &before);
  cl_event event = nullptr;
  Launch(slow, 1, &event, queue);
  const cl_int told = cl.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, 8, times, nullptr);
  EXPECT_EQ(told == CL_SUCCESS, times[0] != 0);
  cl.clFinish(queue);
  cl.clGetHostTimer(device_, &after);
  const cl_profiling_info names[] = {CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_SUBMIT,
                                     CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END};
  for (int i = 0; i < 4; ++i) ASSERT_EQ(cl.clGetEventProfilingInfo(event, names[i], 8, &times[i], nullptr), CL_SUCCESS);
  EXPECT_LE(before, times[0]);
  EXPECT_LE(times[0], times[1]);
  EXPECT_LE(times[1], times[2]);
  EXPECT_LT(times[2], times[3]);
  EXPECT_LE(times[3], after);
  cl.clReleaseEvent(event);
  cl.clReleaseKernel(slow);
  cl.clReleaseMemObject(buffer);
  cl.clReleaseCommandQueue(queue);
}

TEST_F(OpenCl, QueuesWithoutOrderReadWhenTheirEventsSaySo) {
  cl_command_queue queue = cl.clCreateCommandQueue(context_, device_, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  std::vector<int> ones(4096, 1), back(4096);
  cl_mem a = Buffer(16384), b = Buffer(16384);
  cl_kernel add = Kernel("add");
  Set(add, 0, a), Set(add, 1, b);
  for (int round = 0; round < 50; ++round) {
    cl_event written = nullptr, added = nullptr, read = nullptr;
    std::fill(ones.begin(), ones.end(), round);
    cl.clEnqueueWriteBuffer(queue, a, CL_FALSE, 0, 16384, ones.data(), 0, nullptr, &written);
    Set(add, 2, 5);
    const std::size_t items = 4096;
    cl.clEnqueueNDRangeKernel(queue, add, 1, nullptr, &items, nullptr, 1, &written, &added);
    cl.clEnqueueReadBuffer(queue, b, round % 2, 0, 16384, back.data(), 1, &added, &read);
    ASSERT_EQ(cl.clWaitForEvents(1, &read), CL_SUCCESS);
    ASSERT_EQ(back, std::vector<int>(4096, round + 5));
    for (cl_event event : {written, added, read}) cl.clReleaseEvent(event);
  }
  cl.clReleaseKernel(add);
  cl.clReleaseMemObject(a);
  cl.clReleaseMemObject(b);
  cl.clReleaseCommandQueue(queue);
}

TEST_F(OpenCl, ThreadsShareAContext) {
  cl_kernel parent = Kernel("add");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      cl_int error = CL_SUCCESS;
      cl_command_queue queue = cl.clCreateCommandQueue(context_, device_, 0, &error);
      cl_kernel add = cl.clCloneKernel(parent, &error);
      for (int round = 0; round < 100; ++round) {
        std::vector<int> numbers(256, round), back(256);
        cl_mem a = cl.clCreateBuffer(context_, CL_MEM_COPY_HOST_PTR, 1024, numbers.data(), &error);
        cl_mem b = cl.clCreateBuffer(context_, 0, 1024, nullptr, &error);
        Set(add, 0, a), Set(add, 1, b), Set(add, 2, t);
        EXPECT_EQ(Launch(add, 256, nullptr, queue), CL_SUCCESS);
        cl.clEnqueueReadBuffer(queue, b, CL_TRUE, 0, 1024, back.data(), 0, nullptr, nullptr);
        EXPECT_EQ(back, std::vector<int>(256, round + t));
        cl.clReleaseMemObject(a);
        cl.clReleaseMemObject(b);
      }
      cl.clReleaseKernel(add);
      cl.clReleaseCommandQueue(queue);
    });
  }
  for (std::thread& thread : threads) thread.join();
  cl.clReleaseKernel(parent);
}

// -- Processes
// ---------------------------------------------------------------------------------------------------------

TEST_F(OpenCl, AChildOfAForkConnectsAnew) {
  const pid_t child = ::fork();
  if (child == 0) {
    int wrong = 0;
    cl_int error = CL_SUCCESS;
    cl.clCreateBuffer(context_, 0, 64, nullptr, &error);
    wrong |= error != kGone ? 1 : 0;
    wrong |= cl.clFinish(queue_) != kGone ? 2 : 0;
    cl_device_id device = nullptr;
    wrong |= cl.clGetDeviceIDs(platform_, CL_DEVICE_TYPE_ALL, 1, &device, nullptr) != CL_SUCCESS || device == device_
                 ? 4
                 : 0;
    cl_context context = cl.clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
    cl_command_queue queue = cl.clCreateCommandQueue(context, device, 0, &error);
    cl_mem buffer = cl.clCreateBuffer(context, 0, 64, nullptr, &error);
    const int one = 1;
    int back = 0;
    cl.clEnqueueFillBuffer(queue, buffer, &one, 4, 0, 64, 0, nullptr, nullptr);
    wrong |= cl.clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 4, &back, 0, nullptr, nullptr) != CL_SUCCESS || back != 1
                 ? 8
                 : 0;
    cl.clReleaseContext(context_);
    ::_exit(wrong);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(WIFEXITED(status));
  cl_mem buffer = Buffer(64);
  EXPECT_EQ(Read(buffer, 1).size(), 1U) << "the parent goes on";
  cl.clReleaseMemObject(buffer);
}

/// Bits of what was wrong, by a child: it connects anew, and this process keeps its own connection.
int InAChild(const std::function<int()>& test) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(test());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(OpenCl, CpusAreCalledGpusForProgramsThatAskForNothingElse) {
  cl_device_id device = nullptr;
  EXPECT_EQ(cl.clGetDeviceIDs(platform_, CL_DEVICE_TYPE_CPU, 1, &device, nullptr), CL_SUCCESS);
  EXPECT_EQ(cl.clGetDeviceIDs(platform_, CL_DEVICE_TYPE_GPU, 1, &device, nullptr), CL_DEVICE_NOT_FOUND);
  EXPECT_EQ(InAChild([&] {
              ::setenv("WEIR_OPENCL_DEVICE_TYPE", "gpu", 1);
              const auto find = [&](cl_device_type type) {
                return cl.clGetDeviceIDs(platform_, type, 1, &device, nullptr);
              };
              int wrong = find(CL_DEVICE_TYPE_CPU) != CL_DEVICE_NOT_FOUND ? 1 : 0;
              wrong |= find(CL_DEVICE_TYPE_DEFAULT) != CL_SUCCESS ? 2 : 0;
              wrong |= find(CL_DEVICE_TYPE_ACCELERATOR) != CL_DEVICE_NOT_FOUND ? 4 : 0;
              if (find(CL_DEVICE_TYPE_GPU) != CL_SUCCESS) return wrong | 8;
              cl_device_type type = 0;
              cl.clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, nullptr);
              return wrong | ((type & (CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU)) != CL_DEVICE_TYPE_GPU ? 16 : 0);
            }),
            0);
}

TEST_F(OpenCl, EveryCallFailsSoonWhenTheExecutorIsGone) {
  EXPECT_EQ(InAChild([&] {
              const testing::TempFolder folder;
              const std::string socket = folder / "s";
              const auto executor = platform::Spawn({.argv = {WEIR_EXECUTOR, "--socket", socket, "--cpus", "2"}});
              AwaitListener(socket);
              ::setenv("WEIR_OPENCL", socket.c_str(), 1);
              cl_device_id device = nullptr;
              cl_int error = CL_SUCCESS;
              if (cl.clGetDeviceIDs(platform_, CL_DEVICE_TYPE_ALL, 1, &device, nullptr) != CL_SUCCESS) return 1;
              cl_context context = cl.clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
              cl_command_queue queue = cl.clCreateCommandQueue(context, device, 0, &error);
              cl_mem buffer = cl.clCreateBuffer(context, 0, 64, nullptr, &error);
              cl_event mine = cl.clCreateUserEvent(context, &error), filled = nullptr;
              const int one = 1;
              if (cl.clEnqueueFillBuffer(queue, buffer, &one, 4, 0, 64, 1, &mine, &filled) != CL_SUCCESS) return 2;
              int wrong = 0;
              std::thread waiter([&] { wrong |= cl.clWaitForEvents(1, &filled) >= 0 ? 4 : 0; });
              ::usleep(50'000);
              ::kill(*executor, SIGKILL);
              const std::int64_t killed_ns = platform::NowNs();
              waiter.join();
              wrong |= platform::NowNs() - killed_ns > 500'000'000 ? 8 : 0;
              wrong |= cl.clFinish(queue) != kGone ? 16 : 0;
              cl.clCreateBuffer(context, 0, 64, nullptr, &error);
              wrong |= error != kGone ? 32 : 0;
              int back = 0;
              wrong |=
                  cl.clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 4, &back, 0, nullptr, nullptr) != kGone ? 64 : 0;
              for (cl_event event : {mine, filled}) cl.clReleaseEvent(event);
              wrong |= cl.clReleaseMemObject(buffer) != CL_SUCCESS || cl.clReleaseCommandQueue(queue) != CL_SUCCESS ||
                               cl.clReleaseContext(context) != CL_SUCCESS
                           ? 128
                           : 0;
              ::waitpid(*executor, nullptr, 0);
              return wrong;
            }),
            0);
}

}  // namespace
}  // namespace weir::opencl::icd
