// SPDX-License-Identifier: Apache-2.0
// Commands on images.
#include "emulator/opencl/driver.h"
#include "emulator/opencl/maps.h"

namespace weir::emulator::cl {
namespace {

using core::EngineKind;

std::uint64_t BytesOf(cl_mem image, const std::size_t* region) {
  std::size_t element = 0;
  if (region == nullptr ||
      Pocl().clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, nullptr) != CL_SUCCESS)
    return 0;
  return std::uint64_t{region[0]} * region[1] * region[2] * element;
}

cl_int CL_API_CALL Read(cl_command_queue queue, cl_mem image, cl_bool blocking, const std::size_t* origin,
                        const std::size_t* region, std::size_t row, std::size_t slice, void* to, cl_uint count,
                        const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(
        queue, {.type = CL_COMMAND_READ_IMAGE, .work = CopyWork(EngineKind::kCopyOut, BytesOf(image, region))}, count,
        events, out,
        [&](cl_uint n, const cl_event* waits, cl_event* event) {
          return Pocl().clEnqueueReadImage(queue, image, CL_FALSE, origin, region, row, slice, to, n, waits, event);
        },
        blocking != CL_FALSE);
  });
}

cl_int CL_API_CALL Write(cl_command_queue queue, cl_mem image, cl_bool blocking, const std::size_t* origin,
                         const std::size_t* region, std::size_t row, std::size_t slice, const void* from, cl_uint count,
                         const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(
        queue, {.type = CL_COMMAND_WRITE_IMAGE, .work = CopyWork(EngineKind::kCopyIn, BytesOf(image, region))}, count,
        events, out,
        [&](cl_uint n, const cl_event* waits, cl_event* event) {
          return Pocl().clEnqueueWriteImage(queue, image, CL_FALSE, origin, region, row, slice, from, n, waits, event);
        },
        blocking != CL_FALSE);
  });
}

cl_int CL_API_CALL Copy(cl_command_queue queue, cl_mem from, cl_mem to, const std::size_t* from_origin,
                        const std::size_t* to_origin, const std::size_t* region, cl_uint count, const cl_event* events,
                        cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(
        queue,
        {.type = CL_COMMAND_COPY_IMAGE, .work = Driver::The().CostOf("clEnqueueCopyImage", BytesOf(from, region)).work},
        count, events, out, [&](cl_uint n, const cl_event* waits, cl_event* event) {
          return Pocl().clEnqueueCopyImage(queue, from, to, from_origin, to_origin, region, n, waits, event);
        });
  });
}

cl_int CL_API_CALL CopyToBuffer(cl_command_queue queue, cl_mem image, cl_mem buffer, const std::size_t* origin,
                                const std::size_t* region, std::size_t offset, cl_uint count, const cl_event* events,
                                cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(
        queue,
        {.type = CL_COMMAND_COPY_IMAGE_TO_BUFFER,
         .work = Driver::The().CostOf("clEnqueueCopyImageToBuffer", BytesOf(image, region)).work},
        count, events, out, [&](cl_uint n, const cl_event* waits, cl_event* event) {
          return Pocl().clEnqueueCopyImageToBuffer(queue, image, buffer, origin, region, offset, n, waits, event);
        });
  });
}

cl_int CL_API_CALL CopyFromBuffer(cl_command_queue queue, cl_mem buffer, cl_mem image, std::size_t offset,
                                  const std::size_t* origin, const std::size_t* region, cl_uint count,
                                  const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(
        queue,
        {.type = CL_COMMAND_COPY_BUFFER_TO_IMAGE,
         .work = Driver::The().CostOf("clEnqueueCopyBufferToImage", BytesOf(image, region)).work},
        count, events, out, [&](cl_uint n, const cl_event* waits, cl_event* event) {
          return Pocl().clEnqueueCopyBufferToImage(queue, buffer, image, offset, origin, region, n, waits, event);
        });
  });
}

cl_int CL_API_CALL Fill(cl_command_queue queue, cl_mem image, const void* colour, const std::size_t* origin,
                        const std::size_t* region, cl_uint count, const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(queue,
                                 {.type = CL_COMMAND_FILL_IMAGE,
                                  .work = Driver::The().CostOf("clEnqueueFillImage", BytesOf(image, region)).work},
                                 count, events, out, [&](cl_uint n, const cl_event* waits, cl_event* event) {
                                   return Pocl().clEnqueueFillImage(queue, image, colour, origin, region, n, waits,
                                                                    event);
                                 });
  });
}

void* CL_API_CALL Map(cl_command_queue queue, cl_mem image, cl_bool blocking, cl_map_flags flags,
                      const std::size_t* origin, const std::size_t* region, std::size_t* row, std::size_t* slice,
                      cl_uint count, const cl_event* events, cl_event* out, cl_int* error) {
  void* mapped = nullptr;
  const cl_int status = Guarded([&] {
    const std::uint64_t bytes = BytesOf(image, region);
    return Driver::The().Enqueue(
        queue, {.type = CL_COMMAND_MAP_IMAGE, .work = MapWork(flags, bytes)}, count, events, out,
        [&](cl_uint n, const cl_event* waits, cl_event* event) {
          cl_int failed = CL_SUCCESS;
          mapped = Pocl().clEnqueueMapImage(queue, image, CL_FALSE, flags, origin, region, row, slice, n, waits, event,
                                            &failed);
          if (failed == CL_SUCCESS) TheMaps().Add(image, mapped, flags, bytes);
          return failed;
        },
        blocking != CL_FALSE);
  });
  if (error != nullptr) *error = status;
  return status == CL_SUCCESS ? mapped : nullptr;
}

}  // namespace

void AddImageCommands(cl_icd_dispatch& table) {
  table.clEnqueueReadImage = Read;
  table.clEnqueueWriteImage = Write;
  table.clEnqueueCopyImage = Copy;
  table.clEnqueueCopyImageToBuffer = CopyToBuffer;
  table.clEnqueueCopyBufferToImage = CopyFromBuffer;
  table.clEnqueueFillImage = Fill;
  table.clEnqueueMapImage = Map;
}

}  // namespace weir::emulator::cl
