// SPDX-License-Identifier: Apache-2.0
// Calls while the arena has little room, or the tenant's buffers take all of its memory, and calls whose message would
// be too long: none keeps a range for ever.
#include <atomic>
#include <fstream>
#include <numeric>
#include <thread>

#include "tests/harness/temp_folder.h"
#include "tests/opencl/client_calls.h"

namespace weir::opencl::icd {
namespace {

constexpr std::size_t kRoom = 64 << 10;

class OpenClWithLittleRoom : public OpenCl {
 protected:
  /// Leaves one free range of kRoom bytes.
  void SetUp() override {
    OpenCl::SetUp();
    FillArena();
  }
  void TearDown() override {
    EmptyArena();
    OpenCl::TearDown();
  }
  void FillArena() {
    link().Sync();  // ranges that nobody waits for are free
    const auto room = link().AllocateStaging(kRoom);
    ASSERT_TRUE(room);
    for (std::uint64_t bytes = link().memory_bytes(); bytes > 0; bytes /= 2)
      while (const auto offset = link().AllocateStaging(bytes)) taken_.push_back({*offset, bytes});
    link().Free({*room, kRoom});
  }
  void EmptyArena() {
    for (const Range& range : taken_) link().Free(range);
    taken_.clear();
  }
  /// Whether nothing lies in the room any more. Waits for what the executor is about to free.
  static bool RoomIsFree() {
    const auto room = link().AllocateStaging(kRoom);
    if (room) link().Free({*room, kRoom});
    return room.has_value();
  }
  static Link& link() { return *Link::Existing(); }

  std::vector<Range> taken_;
};

TEST_F(OpenClWithLittleRoom, ACallThatWaitsForRoomTakesItOnce) {
  EmptyArena();
  cl_mem buffer = Buffer(kRoom);
  FillArena();
  const std::vector<unsigned char> bytes(kRoom, 5);
  for (int i = 0; i < 20; ++i) {
    cl_event gate = cl.clCreateUserEvent(context_, &error_);
    EXPECT_EQ(cl.clEnqueueWriteBuffer(queue_, buffer, CL_FALSE, 0, kRoom, bytes.data(), 1, &gate, nullptr), CL_SUCCESS);
    EXPECT_EQ(cl.clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
    ASSERT_TRUE(RoomIsFree()) << i;  // once the write has ended
    cl.clReleaseEvent(gate);
  }
  cl.clReleaseMemObject(buffer);
}

TEST_F(OpenClWithLittleRoom, ACallFindsRoomThatAnotherThreadIsToldOf) {
  EmptyArena();
  cl_mem buffer = Buffer(kRoom);
  FillArena();
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) link().Sync();
  });
  const std::vector<unsigned char> bytes(kRoom, 5);
  int without_room = 0;
  for (int i = 0; i < 10'000; ++i) {
    cl_event gate = cl.clCreateUserEvent(context_, &error_);
    EXPECT_EQ(cl.clEnqueueWriteBuffer(queue_, buffer, CL_FALSE, 0, kRoom, bytes.data(), 1, &gate, nullptr), CL_SUCCESS);
    EXPECT_EQ(cl.clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
    without_room += RoomIsFree() ? 0 : 1;
    cl.clReleaseEvent(gate);
  }
  stop = true;
  reader.join();
  EXPECT_EQ(without_room, 0);
  cl.clReleaseMemObject(buffer);
}

TEST_F(OpenClWithLittleRoom, ReadsWaitForRoomOfOtherReads) {
  EmptyArena();
  std::vector<int> content(kRoom / sizeof(int));
  std::iota(content.begin(), content.end(), 0);
  cl_mem buffer = Buffer(kRoom, content.data()), scratch = Buffer(64);
  FillArena();
  const int zero = 0;
  ASSERT_EQ(cl.clEnqueueFillBuffer(queue_, scratch, &zero, 4, 0, 64, 0, nullptr, nullptr), CL_SUCCESS);
  std::vector<std::vector<int>> back(8, std::vector<int>(content.size()));
  for (std::vector<int>& into : back)
    EXPECT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_FALSE, 0, kRoom, into.data(), 0, nullptr, nullptr), CL_SUCCESS);
  EXPECT_EQ(cl.clFinish(queue_), CL_SUCCESS);
  for (const std::vector<int>& into : back) EXPECT_TRUE(into == content);
  EXPECT_TRUE(RoomIsFree());
  cl.clReleaseMemObject(scratch);
  cl.clReleaseMemObject(buffer);
}

// Only this thread sets the event: a call that waited for it would never return.
TEST_F(OpenClWithLittleRoom, ACallDoesNotWaitLongForRoomBehindAUserEvent) {
  EmptyArena();
  cl_mem buffer = Buffer(kRoom);
  FillArena();
  std::vector<unsigned char> bytes(kRoom, 5), back(kRoom);
  link().set_wait_beside_user_events(milliseconds(10));
  cl_event gate = cl.clCreateUserEvent(context_, &error_);
  EXPECT_EQ(cl.clEnqueueWriteBuffer(queue_, buffer, CL_FALSE, 0, kRoom, bytes.data(), 1, &gate, nullptr), CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueWriteBuffer(queue_, buffer, CL_FALSE, 0, kRoom, bytes.data(), 0, nullptr, nullptr),
            CL_OUT_OF_RESOURCES);
  EXPECT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_FALSE, 0, kRoom, back.data(), 0, nullptr, nullptr),
            CL_OUT_OF_RESOURCES);
  EXPECT_EQ(cl.clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueReadBuffer(queue_, buffer, CL_FALSE, 0, kRoom, back.data(), 0, nullptr, nullptr), CL_SUCCESS);
  EXPECT_EQ(cl.clFinish(queue_), CL_SUCCESS);
  EXPECT_TRUE(back == bytes);
  link().set_wait_beside_user_events(kWaitBesideUserEvents);
  cl.clReleaseEvent(gate);
  cl.clReleaseMemObject(buffer);
}

// Nothing before the write waits for the event, and the buffer's own range needs no other room.
TEST_F(OpenClWithLittleRoom, AWriteWithoutRoomIsDoneBesideAUserEventThatItDoesNotWaitFor) {
  if (MemoryIsElastic() || IsRemote()) GTEST_SKIP() << "a buffer is no range of the arena";
  EmptyArena();
  cl_mem buffer = Buffer(2 * kRoom);
  FillArena();
  std::vector<unsigned char> bytes(2 * kRoom, 5), back(2 * kRoom);
  const auto write = [&] {
    return cl.clEnqueueWriteBuffer(queue_, buffer, CL_FALSE, 0, bytes.size(), bytes.data(), 0, nullptr, nullptr);
  };
  const auto read = [&] {
    return cl.clEnqueueReadBuffer(queue_, buffer, CL_TRUE, 0, back.size(), back.data(), 0, nullptr, nullptr);
  };
  const int zero = 0;
  cl_event gate = cl.clCreateUserEvent(context_, &error_);
  ASSERT_EQ(cl.clEnqueueFillBuffer(queue_, buffer, &zero, 4, 0, bytes.size(), 0, nullptr, nullptr), CL_SUCCESS);
  EXPECT_EQ(write(), CL_SUCCESS);
  EXPECT_EQ(read(), CL_SUCCESS);
  EXPECT_TRUE(back == bytes);

  // A command of the queue waits for the event, which only this thread sets.
  link().set_wait_beside_user_events(milliseconds(10));
  EXPECT_EQ(cl.clEnqueueMarkerWithWaitList(queue_, 1, &gate, nullptr), CL_SUCCESS);
  EXPECT_EQ(write(), CL_OUT_OF_RESOURCES);
  EXPECT_EQ(cl.clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
  bytes.assign(bytes.size(), 7);
  EXPECT_EQ(write(), CL_SUCCESS);
  EXPECT_EQ(read(), CL_SUCCESS);
  EXPECT_TRUE(back == bytes);
  link().set_wait_beside_user_events(kWaitBesideUserEvents);
  cl.clReleaseEvent(gate);
  cl.clReleaseMemObject(buffer);
}

TEST_F(OpenClWithLittleRoom, ABuildWithoutRoomForAllHeadersFails) {
  const testing::TempFolder folder;
  std::string source = "kernel void f(global int* out) { *out = ";
  std::string text;
  for (const char* name : {"a", "b", "c"}) {
    std::ofstream(folder / name) << "#define OF_" << name << " 7 //" << std::string(40'000, 'x') << "\n";
    text += std::string("#include \"") + name + "\"\n";
    source += std::string("OF_") + name + " + ";
  }
  text += source + "0; }";
  const std::string options = "-I " + folder.path();
  cl_program program = Program(text.c_str(), options.c_str());
  EXPECT_EQ(error_, CL_OUT_OF_RESOURCES);
  EXPECT_EQ(cl.clCompileProgram(program, 0, nullptr, options.c_str(), 0, nullptr, nullptr, nullptr, nullptr),
            CL_OUT_OF_RESOURCES);
  EXPECT_TRUE(RoomIsFree());
  EmptyArena();
  EXPECT_EQ(cl.clBuildProgram(program, 0, nullptr, options.c_str(), nullptr, nullptr), CL_SUCCESS);
  cl.clReleaseProgram(program);
}

TEST_F(OpenClWithLittleRoom, ABuildWithTooLongOptionsFails) {
  const testing::TempFolder folder;
  std::ofstream(folder / "a") << "//" << std::string(40'000, 'x') << "\n";
  const char* text = "#include \"a\"\nkernel void f() {}";
  const std::string options = "-I " + folder.path(), longer = options + " -DX=" + std::string(70'000, '1');
  cl_program program = Program(text, longer.c_str());
  EXPECT_EQ(error_, CL_OUT_OF_RESOURCES);
  EXPECT_TRUE(RoomIsFree());
  EXPECT_EQ(cl.clBuildProgram(program, 0, nullptr, options.c_str(), nullptr, nullptr), CL_SUCCESS);
  cl.clReleaseProgram(program);
}

TEST_F(OpenClWithLittleRoom, ACommandWithTooLongAWaitListFails) {
  EmptyArena();
  const cl_image_format format{CL_RGBA, CL_UNSIGNED_INT8};
  cl_image_desc shape{};
  shape.image_type = CL_MEM_OBJECT_IMAGE2D;
  shape.image_width = shape.image_height = 128;
  const std::size_t origin[3] = {}, region[3] = {128, 128, 1}, rows[3] = {256, 256, 1};
  cl_mem buffer = Buffer(kRoom), image = cl.clCreateImage(context_, 0, &format, &shape, nullptr, &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  FillArena();
  std::size_t pitch = 0;
  void* const mapped = cl.clEnqueueMapImage(queue_, image, CL_TRUE, CL_MAP_WRITE, origin, region, &pitch, nullptr, 0,
                                            nullptr, nullptr, &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  cl_event gate = cl.clCreateUserEvent(context_, &error_);
  const std::vector<cl_event> waits(20'000, gate);
  const auto count = static_cast<cl_uint>(waits.size());
  const std::vector<unsigned char> bytes(kRoom, 5);
  EXPECT_EQ(cl.clEnqueueUnmapMemObject(queue_, image, mapped, count, waits.data(), nullptr), CL_OUT_OF_RESOURCES);
  EXPECT_EQ(cl.clEnqueueUnmapMemObject(queue_, image, mapped, 1, &gate, nullptr), CL_SUCCESS) << "still mapped";
  EXPECT_EQ(cl.clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
  EXPECT_EQ(cl.clFinish(queue_), CL_SUCCESS);
  cl.clReleaseEvent(gate);

  gate = cl.clCreateUserEvent(context_, &error_);
  const std::vector<cl_event> again(20'000, gate);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cl.clEnqueueWriteBuffer(queue_, buffer, CL_FALSE, 0, kRoom, bytes.data(), count, again.data(), nullptr),
              CL_OUT_OF_RESOURCES);
    EXPECT_EQ(cl.clEnqueueWriteBufferRect(queue_, buffer, CL_FALSE, origin, origin, rows, 0, 0, 0, 0, bytes.data(),
                                          count, again.data(), nullptr),
              CL_OUT_OF_RESOURCES);
    EXPECT_EQ(cl.clEnqueueWriteImage(queue_, image, CL_FALSE, origin, region, 0, 0, bytes.data(), count, again.data(),
                                     nullptr),
              CL_OUT_OF_RESOURCES);
  }
  EXPECT_EQ(cl.clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueWriteBuffer(queue_, buffer, CL_TRUE, 0, kRoom, bytes.data(), 0, nullptr, nullptr), CL_SUCCESS);
  EXPECT_EQ(Read(buffer, 1)[0], 0x05050505);
  EXPECT_TRUE(RoomIsFree());
  cl.clReleaseEvent(gate);
  cl.clReleaseMemObject(image);
  cl.clReleaseMemObject(buffer);
}

/// The tenant's buffers take all of its memory.
class OpenClWithFullMemory : public OpenCl {
 protected:
  static constexpr std::size_t kLong = 24 << 20;  // is read and written in parts

  void SetUp() override {
    OpenCl::SetUp();
    buffer_ = Buffer(kLong);
    const cl_image_format format{CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc shape{};
    shape.image_type = CL_MEM_OBJECT_IMAGE2D;
    shape.image_width = shape.image_height = kSide;
    image_ = cl.clCreateImage(context_, 0, &format, &shape, nullptr, &error_);
    ASSERT_EQ(error_, CL_SUCCESS);
    link().Sync();
    for (std::uint64_t bytes = link().memory_bytes(); bytes > 0; bytes /= 2)
      while (const auto offset = link().AllocateBuffer(bytes)) taken_.push_back({*offset, bytes});
  }
  void TearDown() override {
    for (const Range& range : taken_) link().Free(range);
    cl.clReleaseMemObject(image_);
    cl.clReleaseMemObject(buffer_);
    OpenCl::TearDown();
  }
  static Link& link() { return *Link::Existing(); }

  static constexpr std::size_t kSide = 256;
  const std::size_t origin_[3] = {}, whole_[3] = {kSide, kSide, 1};
  cl_mem buffer_ = nullptr, image_ = nullptr;
  std::vector<Range> taken_;
};

TEST_F(OpenClWithFullMemory, NoFurtherBufferIsMade) {
  EXPECT_EQ(cl.clCreateBuffer(context_, 0, 4096, nullptr, &error_), nullptr);
  EXPECT_EQ(error_, CL_MEM_OBJECT_ALLOCATION_FAILURE);
}

TEST_F(OpenClWithFullMemory, BuffersAreReadAndWritten) {
  std::vector<unsigned char> bytes(kLong), got(kLong);
  for (std::size_t i = 0; i < kLong; ++i) bytes[i] = static_cast<unsigned char>(i * 7 + i / 251);
  for (const cl_bool blocking : {CL_TRUE, CL_FALSE}) {
    bytes[kLong / 2] = blocking == CL_TRUE ? 1 : 2;
    std::ranges::fill(got, std::uint8_t{0});
    EXPECT_EQ(cl.clEnqueueWriteBuffer(queue_, buffer_, blocking, 0, kLong, bytes.data(), 0, nullptr, nullptr),
              CL_SUCCESS);
    EXPECT_EQ(cl.clEnqueueReadBuffer(queue_, buffer_, blocking, 0, kLong, got.data(), 0, nullptr, nullptr), CL_SUCCESS);
    EXPECT_EQ(cl.clFinish(queue_), CL_SUCCESS);
    EXPECT_TRUE(got == bytes) << blocking;
  }
}

TEST_F(OpenClWithFullMemory, ALongReadWithAnEventNeedsLittleRoom) {
  std::vector<unsigned char> bytes(kLong), got(kLong);
  for (std::size_t i = 0; i < kLong; ++i) bytes[i] = static_cast<unsigned char>(i * 7 + i / 251);
  ASSERT_EQ(cl.clEnqueueWriteBuffer(queue_, buffer_, CL_TRUE, 0, kLong, bytes.data(), 0, nullptr, nullptr), CL_SUCCESS);
  ASSERT_EQ(cl.clFinish(queue_), CL_SUCCESS);
  constexpr std::uint64_t kLittle = 4 << 20;
  const auto little = link().AllocateStaging(kLittle);
  ASSERT_TRUE(little);
  for (std::uint64_t room = link().staging_bytes(); room > 0; room /= 2)
    while (const auto offset = link().AllocateStaging(room)) taken_.push_back({*offset, room});
  link().Free({*little, kLittle});
  cl_event read = nullptr;
  ASSERT_EQ(cl.clEnqueueReadBuffer(queue_, buffer_, CL_TRUE, 0, kLong, got.data(), 0, nullptr, &read), CL_SUCCESS);
  EXPECT_TRUE(got == bytes);
  cl_int status = CL_QUEUED;
  cl_command_type type = 0;
  cl.clGetEventInfo(read, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  cl.clGetEventInfo(read, CL_EVENT_COMMAND_TYPE, sizeof type, &type, nullptr);
  EXPECT_EQ(status, CL_COMPLETE);
  EXPECT_EQ(type, cl_command_type{CL_COMMAND_READ_BUFFER});
  cl.clReleaseEvent(read);
}

TEST_F(OpenClWithFullMemory, ImagesAreReadWrittenAndMapped) {
  std::vector<unsigned char> bytes(kSide * kSide * 4, 9), got(bytes.size());
  EXPECT_EQ(cl.clEnqueueWriteImage(queue_, image_, CL_TRUE, origin_, whole_, 0, 0, bytes.data(), 0, nullptr, nullptr),
            CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueReadImage(queue_, image_, CL_TRUE, origin_, whole_, 0, 0, got.data(), 0, nullptr, nullptr),
            CL_SUCCESS);
  EXPECT_TRUE(got == bytes);
  std::size_t pitch = 0;
  void* const mapped = cl.clEnqueueMapImage(queue_, image_, CL_TRUE, CL_MAP_READ, origin_, whole_, &pitch, nullptr, 0,
                                            nullptr, nullptr, &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  EXPECT_EQ(static_cast<unsigned char*>(mapped)[pitch * (kSide - 1)], 9);
  EXPECT_EQ(cl.clEnqueueUnmapMemObject(queue_, image_, mapped, 0, nullptr, nullptr), CL_SUCCESS);
}

}  // namespace
}  // namespace weir::opencl::icd
