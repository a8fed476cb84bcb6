// SPDX-License-Identifier: Apache-2.0
// Commands on buffers. For a blocking call, PoCL gets a command that does not block, and the driver waits for the
// driver's own event.
#include "emulator/opencl/driver.h"
#include "emulator/opencl/maps.h"

namespace weir::emulator::cl {
namespace {

using core::EngineKind;

std::uint64_t Product(const std::size_t* region) {
  return region == nullptr ? 0 : std::uint64_t{region[0]} * region[1] * region[2];
}

cl_int CL_API_CALL Read(cl_command_queue queue, cl_mem buffer, cl_bool blocking, std::size_t offset, std::size_t size,
                        void* to, cl_uint count, const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(
        queue, {.type = CL_COMMAND_READ_BUFFER, .work = CopyWork(EngineKind::kCopyOut, size)}, count, events, out,
        [&](cl_uint n, const cl_event* waits, cl_event* event) {
          return Pocl().clEnqueueReadBuffer(queue, buffer, CL_FALSE, offset, size, to, n, waits, event);
        },
        blocking != CL_FALSE);
  });
}

cl_int CL_API_CALL Write(cl_command_queue queue, cl_mem buffer, cl_bool blocking, std::size_t offset, std::size_t size,
                         const void* from, cl_uint count, const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(
        queue, {.type = CL_COMMAND_WRITE_BUFFER, .work = CopyWork(EngineKind::kCopyIn, size)}, count, events, out,
        [&](cl_uint n, const cl_event* waits, cl_event* event) {
          return Pocl().clEnqueueWriteBuffer(queue, buffer, CL_FALSE, offset, size, from, n, waits, event);
        },
        blocking != CL_FALSE);
  });
}

cl_int CL_API_CALL ReadRect(cl_command_queue queue, cl_mem buffer, cl_bool blocking, const std::size_t* origin,
                            const std::size_t* host_origin, const std::size_t* region, std::size_t row,
                            std::size_t slice, std::size_t host_row, std::size_t host_slice, void* to, cl_uint count,
                            const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(
        queue, {.type = CL_COMMAND_READ_BUFFER_RECT, .work = CopyWork(EngineKind::kCopyOut, Product(region))}, count,
        events, out,
        [&](cl_uint n, const cl_event* waits, cl_event* event) {
          return Pocl().clEnqueueReadBufferRect(queue, buffer, CL_FALSE, origin, host_origin, region, row, slice,
                                                host_row, host_slice, to, n, waits, event);
        },
        blocking != CL_FALSE);
  });
}

cl_int CL_API_CALL WriteRect(cl_command_queue queue, cl_mem buffer, cl_bool blocking, const std::size_t* origin,
                             const std::size_t* host_origin, const std::size_t* region, std::size_t row,
                             std::size_t slice, std::size_t host_row, std::size_t host_slice, const void* from,
                             cl_uint count, const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(
        queue, {.type = CL_COMMAND_WRITE_BUFFER_RECT, .work = CopyWork(EngineKind::kCopyIn, Product(region))}, count,
        events, out,
        [&](cl_uint n, const cl_event* waits, cl_event* event) {
          return Pocl().clEnqueueWriteBufferRect(queue, buffer, CL_FALSE, origin, host_origin, region, row, slice,
                                                 host_row, host_slice, from, n, waits, event);
        },
        blocking != CL_FALSE);
  });
}

cl_int CL_API_CALL Copy(cl_command_queue queue, cl_mem from, cl_mem to, std::size_t from_offset, std::size_t to_offset,
                        std::size_t size, cl_uint count, const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(
        queue, {.type = CL_COMMAND_COPY_BUFFER, .work = Driver::The().CostOf("clEnqueueCopyBuffer", size).work}, count,
        events, out, [&](cl_uint n, const cl_event* waits, cl_event* event) {
          return Pocl().clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, size, n, waits, event);
        });
  });
}

cl_int CL_API_CALL CopyRect(cl_command_queue queue, cl_mem from, cl_mem to, const std::size_t* from_origin,
                            const std::size_t* to_origin, const std::size_t* region, std::size_t from_row,
                            std::size_t from_slice, std::size_t to_row, std::size_t to_slice, cl_uint count,
                            const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(queue,
                                 {.type = CL_COMMAND_COPY_BUFFER_RECT,
                                  .work = Driver::The().CostOf("clEnqueueCopyBufferRect", Product(region)).work},
                                 count, events, out, [&](cl_uint n, const cl_event* waits, cl_event* event) {
                                   return Pocl().clEnqueueCopyBufferRect(queue, from, to, from_origin, to_origin,
                                                                         region, from_row, from_slice, to_row, to_slice,
                                                                         n, waits, event);
                                 });
  });
}

cl_int CL_API_CALL Fill(cl_command_queue queue, cl_mem buffer, const void* pattern, std::size_t pattern_size,
                        std::size_t offset, std::size_t size, cl_uint count, const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(
        queue, {.type = CL_COMMAND_FILL_BUFFER, .work = Driver::The().CostOf("clEnqueueFillBuffer", size).work}, count,
        events, out, [&](cl_uint n, const cl_event* waits, cl_event* event) {
          return Pocl().clEnqueueFillBuffer(queue, buffer, pattern, pattern_size, offset, size, n, waits, event);
        });
  });
}

void* CL_API_CALL Map(cl_command_queue queue, cl_mem buffer, cl_bool blocking, cl_map_flags flags, std::size_t offset,
                      std::size_t size, cl_uint count, const cl_event* events, cl_event* out, cl_int* error) {
  void* mapped = nullptr;
  const cl_int status = Guarded([&] {
    return Driver::The().Enqueue(
        queue, {.type = CL_COMMAND_MAP_BUFFER, .work = MapWork(flags, size)}, count, events, out,
        [&](cl_uint n, const cl_event* waits, cl_event* event) {
          cl_int failed = CL_SUCCESS;
          mapped = Pocl().clEnqueueMapBuffer(queue, buffer, CL_FALSE, flags, offset, size, n, waits, event, &failed);
          if (failed == CL_SUCCESS) TheMaps().Add(buffer, mapped, flags, size);
          return failed;
        },
        blocking != CL_FALSE);
  });
  if (error != nullptr) *error = status;
  return status == CL_SUCCESS ? mapped : nullptr;
}

cl_int CL_API_CALL Unmap(cl_command_queue queue, cl_mem object, void* mapped, cl_uint count, const cl_event* events,
                         cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(queue, {.type = CL_COMMAND_UNMAP_MEM_OBJECT, .work = TheMaps().Remove(object, mapped)},
                                 count, events, out, [&](cl_uint n, const cl_event* waits, cl_event* event) {
                                   return Pocl().clEnqueueUnmapMemObject(queue, object, mapped, n, waits, event);
                                 });
  });
}

}  // namespace

void AddBufferCommands(cl_icd_dispatch& table) {
  table.clEnqueueReadBuffer = Read;
  table.clEnqueueWriteBuffer = Write;
  table.clEnqueueReadBufferRect = ReadRect;
  table.clEnqueueWriteBufferRect = WriteRect;
  table.clEnqueueCopyBuffer = Copy;
  table.clEnqueueCopyBufferRect = CopyRect;
  table.clEnqueueFillBuffer = Fill;
  table.clEnqueueMapBuffer = Map;
  table.clEnqueueUnmapMemObject = Unmap;
}

}  // namespace weir::emulator::cl
