// SPDX-License-Identifier: Apache-2.0
// Buffers, parts of them, images and maps.
#include <algorithm>
#include <numeric>

#include "tests/opencl/client_calls.h"

namespace weir::opencl::icd {
namespace {

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

TEST_F(OpenCl, AnUnmapWritesNothingThatTheProgramCannotHaveWritten) {
  constexpr int kOld = 3, kNew = 7;
  std::vector<int> mine(16, kOld);
  cl_mem buffer = Buffer(64, mine.data(), CL_MEM_USE_HOST_PTR), out = Buffer(64);
  ASSERT_EQ(cl.clEnqueueFillBuffer(queue_, buffer, &kNew, 4, 0, 64, 0, nullptr, nullptr), CL_SUCCESS);
  ASSERT_EQ(cl.clFinish(queue_), CL_SUCCESS);
  cl_kernel add = Kernel("add");
  Set(add, 0, buffer), Set(add, 1, out), Set(add, 2, 0);
  cl_event held = cl.clCreateUserEvent(context_, &error_);
  const std::size_t items = 16;
  ASSERT_EQ(cl.clEnqueueNDRangeKernel(queue_, add, 1, nullptr, &items, nullptr, 1, &held, nullptr), CL_SUCCESS);
  void* mapped =
      cl.clEnqueueMapBuffer(queue_, buffer, CL_FALSE, CL_MAP_READ | CL_MAP_WRITE, 0, 64, 0, nullptr, nullptr, &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueUnmapMemObject(queue_, buffer, mapped, 0, nullptr, nullptr), CL_SUCCESS);
  EXPECT_EQ(cl.clSetUserEventStatus(held, CL_COMPLETE), CL_SUCCESS);
  EXPECT_EQ(Read(out, 16), std::vector<int>(16, kNew))
      << "the program's memory has old contents until the map has ended";
  EXPECT_EQ(Read(buffer, 16), std::vector<int>(16, kNew));
  cl.clReleaseEvent(held);
  cl.clReleaseKernel(add);
  cl.clReleaseMemObject(out);
  cl.clReleaseMemObject(buffer);
}

// A map that was not waited for is known to have ended when the queue is.
TEST_F(OpenCl, AnUnmapWritesWhatTheProgramHasWrittenAfterAFinish) {
  std::vector<int> mine(16, 3);
  cl_mem buffer = Buffer(64, mine.data(), CL_MEM_USE_HOST_PTR);
  const int five = 5;
  ASSERT_EQ(cl.clEnqueueFillBuffer(queue_, buffer, &five, 4, 0, 64, 0, nullptr, nullptr), CL_SUCCESS);
  auto* mapped = static_cast<int*>(cl.clEnqueueMapBuffer(queue_, buffer, CL_FALSE, CL_MAP_WRITE_INVALIDATE_REGION, 0,
                                                         64, 0, nullptr, nullptr, &error_));
  ASSERT_EQ(error_, CL_SUCCESS);
  ASSERT_EQ(cl.clFinish(queue_), CL_SUCCESS);
  std::fill_n(mapped, 16, 9);
  EXPECT_EQ(cl.clEnqueueUnmapMemObject(queue_, buffer, mapped, 0, nullptr, nullptr), CL_SUCCESS);
  EXPECT_EQ(Read(buffer, 16), std::vector<int>(16, 9));
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

TEST_F(OpenCl, TheSlicePitchOfASingleSliceDoesNotMatter) {
  std::vector<unsigned char> content(64 * 16);
  std::iota(content.begin(), content.end(), static_cast<unsigned char>(0));
  cl_mem from = Buffer(content.size(), content.data()), to = Buffer(content.size());
  constexpr std::size_t kRow = 64, kSlice = 4 * kRow + 5;
  const std::size_t origin[3] = {3, 2, 0}, region[3] = {8, 4, 1}, none[3] = {0, 0, 0};
  ASSERT_EQ(cl.clEnqueueCopyBufferRect(queue_, from, to, origin, origin, region, kRow, kSlice, kRow, kSlice, 0, nullptr,
                                       nullptr),
            CL_SUCCESS);
  std::vector<unsigned char> back(8 * 4), mine(8 * 4, 200);
  ASSERT_EQ(cl.clEnqueueReadBufferRect(queue_, to, CL_FALSE, origin, none, region, kRow, kSlice, 8, 0, back.data(), 0,
                                       nullptr, nullptr),
            CL_SUCCESS);
  ASSERT_EQ(cl.clEnqueueWriteBufferRect(queue_, to, CL_FALSE, origin, none, region, kRow, kSlice, 8, 0, mine.data(), 0,
                                        nullptr, nullptr),
            CL_SUCCESS);
  ASSERT_EQ(cl.clFinish(queue_), CL_SUCCESS);
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 8; ++x) ASSERT_EQ(back[y * 8 + x], content[(y + 2) * kRow + x + 3]);
  cl.clEnqueueReadBuffer(queue_, to, CL_TRUE, 0, content.size(), content.data(), 0, nullptr, nullptr);
  EXPECT_EQ(content[2 * kRow + 3], 200);
  const std::size_t second[3] = {0, 0, 1};
  EXPECT_EQ(cl.clEnqueueCopyBufferRect(queue_, from, to, second, second, region, kRow, kSlice, kRow, kSlice, 0, nullptr,
                                       nullptr),
            CL_INVALID_VALUE);
  cl.clReleaseMemObject(to);
  cl.clReleaseMemObject(from);
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

TEST_F(OpenCl, AnImageThatTheHostOnlyWritesIsMappedForWriting) {
  const cl_image_format format{CL_RGBA, CL_UNSIGNED_INT8};
  cl_image_desc desc{};
  desc.image_type = CL_MEM_OBJECT_IMAGE2D;
  desc.image_width = desc.image_height = 4;
  cl_mem image =
      cl.clCreateImage(context_, CL_MEM_READ_WRITE | CL_MEM_HOST_WRITE_ONLY, &format, &desc, nullptr, &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  const std::size_t origin[3] = {0, 0, 0}, region[3] = {4, 4, 1};
  std::size_t row_pitch = 0;
  void* mapped = cl.clEnqueueMapImage(queue_, image, CL_TRUE, CL_MAP_WRITE, origin, region, &row_pitch, nullptr, 0,
                                      nullptr, nullptr, &error_);
  ASSERT_EQ(error_, CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueUnmapMemObject(queue_, image, mapped, 0, nullptr, nullptr), CL_SUCCESS);
  EXPECT_EQ(cl.clFinish(queue_), CL_SUCCESS);
  EXPECT_EQ(cl.clEnqueueMapImage(queue_, image, CL_TRUE, CL_MAP_READ, origin, region, &row_pitch, nullptr, 0, nullptr,
                                 nullptr, &error_),
            nullptr);
  EXPECT_EQ(error_, CL_INVALID_OPERATION);
  cl.clReleaseMemObject(image);
}

TEST_F(OpenCl, AnUnsupportedImageFormatIsRefusedAtOnce) {
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

}  // namespace
}  // namespace weir::opencl::icd
