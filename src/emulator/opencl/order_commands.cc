// SPDX-License-Identifier: Apache-2.0
// Markers, barriers and migrations: they order commands and cost nothing.
#include "emulator/opencl/driver.h"

namespace weir::emulator::cl {
namespace {

cl_int CL_API_CALL MarkerWithWaitList(cl_command_queue queue, cl_uint count, const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(queue, {.type = CL_COMMAND_MARKER, .order = Timeline::Order::kMarker}, count, events,
                                 out, [&](cl_uint n, const cl_event* waits, cl_event* event) {
                                   return Pocl().clEnqueueMarkerWithWaitList(queue, n, waits, event);
                                 });
  });
}

cl_int CL_API_CALL BarrierWithWaitList(cl_command_queue queue, cl_uint count, const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(queue, {.type = CL_COMMAND_BARRIER, .order = Timeline::Order::kBarrier}, count, events,
                                 out, [&](cl_uint n, const cl_event* waits, cl_event* event) {
                                   return Pocl().clEnqueueBarrierWithWaitList(queue, n, waits, event);
                                 });
  });
}

cl_int CL_API_CALL Marker(cl_command_queue queue, cl_event* out) {
  return out == nullptr ? CL_INVALID_VALUE : MarkerWithWaitList(queue, 0, nullptr, out);
}
cl_int CL_API_CALL Barrier(cl_command_queue queue) { return BarrierWithWaitList(queue, 0, nullptr, nullptr); }
cl_int CL_API_CALL WaitFor(cl_command_queue queue, cl_uint count, const cl_event* events) {
  return count == 0 ? CL_INVALID_VALUE : BarrierWithWaitList(queue, count, events, nullptr);
}

cl_int CL_API_CALL Migrate(cl_command_queue queue, cl_uint objects, const cl_mem* list, cl_mem_migration_flags flags,
                           cl_uint count, const cl_event* events, cl_event* out) {
  return Guarded([&] {
    return Driver::The().Enqueue(queue, {.type = CL_COMMAND_MIGRATE_MEM_OBJECTS}, count, events, out,
                                 [&](cl_uint n, const cl_event* waits, cl_event* event) {
                                   return Pocl().clEnqueueMigrateMemObjects(queue, objects, list, flags, n, waits,
                                                                            event);
                                 });
  });
}

}  // namespace

void AddOrderCommands(cl_icd_dispatch& table) {
  table.clEnqueueMarkerWithWaitList = MarkerWithWaitList;
  table.clEnqueueBarrierWithWaitList = BarrierWithWaitList;
  table.clEnqueueMarker = Marker;
  table.clEnqueueBarrier = Barrier;
  table.clEnqueueWaitForEvents = WaitFor;
  table.clEnqueueMigrateMemObjects = Migrate;
}

}  // namespace weir::emulator::cl
