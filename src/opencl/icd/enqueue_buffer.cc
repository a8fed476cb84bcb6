// SPDX-License-Identifier: Apache-2.0
// Reads, writes, copies and fills of buffers.
#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>

#include "opencl/icd/box_copy.h"
#include "opencl/icd/bulk_copy.h"
#include "opencl/icd/enqueue.h"
#include "opencl/icd/memory.h"

namespace weir::opencl::icd {
namespace {

/// Above this size, a blocking write to memory that the client can access waits and copies once instead of twice.
constexpr std::size_t kStagedBytesMax = 4 << 20;
/// A long write is staged and sent in parts: one is transferred while the next is copied, and the arena's ranges are
/// reused while they are in the caches.
constexpr std::size_t kPartBytes = 2 << 20;
/// Limit of the parts in flight of one long read or write: at most 64 MiB, which fill a link of 50 Gbit/s for 10 ms,
/// and a quarter of the arena's part for staged contents.
constexpr std::size_t kPartsAheadMost = 32;
std::size_t PartsAhead(const Link& link) {
  return std::clamp<std::size_t>(link.staging_bytes() / (4 * kPartBytes), 1, kPartsAheadMost);
}

/// A blocking write returns when its content is staged. Without a limit, a program that writes repeatedly could fill
/// the whole arena, each time using memory that was never touched before. The limit makes it reuse ranges.
void AwaitRoomToStage(const Command& command, std::size_t bytes) {
  command.queue().AwaitRoomToStage(bytes, kPartBytes * PartsAhead(command.link()));
}

bool Inside(const Memory& buffer, std::size_t offset, std::size_t size) {
  return offset <= buffer.size && size <= buffer.size - offset;
}

/// A box in a buffer or in the program's memory.
struct Rect {
  std::size_t origin[3] = {}, row_pitch = 0, slice_pitch = 0;
  [[nodiscard]] std::size_t first() const { return origin[0] + origin[1] * row_pitch + origin[2] * slice_pitch; }
};

/// Pitches of 0 mean tightly packed boxes. With one slice at 0 the slice pitch is unused, and programs pass arbitrary
/// values. False: invalid pitches.
bool MakeRect(const std::size_t* origin, const std::size_t* region, std::size_t row_pitch, std::size_t slice_pitch,
              Rect& rect) {
  if (row_pitch == 0) row_pitch = region[0];
  if (row_pitch < region[0]) return false;
  if (slice_pitch == 0) slice_pitch = row_pitch * region[1];
  if (slice_pitch < row_pitch * region[1]) return false;
  if (region[2] == 1 && origin[2] == 0) slice_pitch = row_pitch * region[1];
  if (region[2] > 1 && slice_pitch % row_pitch != 0) return false;
  rect = {.origin = {origin[0], origin[1], origin[2]}, .row_pitch = row_pitch, .slice_pitch = slice_pitch};
  return true;
}

bool Inside(const Memory& buffer, const Rect& rect, const std::size_t* region) {
  if (rect.slice_pitch % rect.row_pitch != 0) return false;  // a single slice, not at 0: drivers refuse it
  unsigned __int128 end = rect.origin[0] + static_cast<unsigned __int128>(region[0]);
  end += static_cast<unsigned __int128>(rect.origin[1] + region[1] - 1) * rect.row_pitch;
  end += static_cast<unsigned __int128>(rect.origin[2] + region[2] - 1) * rect.slice_pitch;
  return end <= buffer.size;
}

bool Empty(const std::size_t* region) { return region[0] == 0 || region[1] == 0 || region[2] == 0; }

void Copy3(std::uint64_t (&to)[3], const std::size_t* from) {
  for (int i = 0; i < 3; ++i) to[i] = from[i];
}

/// Sends a read through the arena, or with `whole` false a part of one: the data is copied to the program when the
/// command has ended.
template <typename M>
cl_int SendRead(Command& command, M& read, cl_command_type type, Arrival arrival, bool whole) {
  const std::size_t bytes = arrival.box[0] * arrival.box[1] * arrival.box[2];
  const auto offset = command.link().AllocateStaging(bytes);
  if (!offset) return command.link().usable() ? CL_OUT_OF_RESOURCES : kGone;
  arrival.from = read.to = *offset;
  arrival.free_after = {*offset, bytes};
  auto arrives = std::make_unique<Arrival>(arrival);
  const cl_int error =
      whole ? command.Send(read, type, std::move(arrives)) : command.SendPart(read, type, std::move(arrives));
  if (error != CL_SUCCESS) command.link().Free({*offset, bytes});
  return error;
}

template <typename M>
cl_int ReadStaged(Command& command, M& read, cl_command_type type, bool blocking, const Arrival& arrival) {
  const cl_int error = SendRead(command, read, type, arrival, /*whole=*/true);
  return error == CL_SUCCESS && blocking ? command.WaitForIt() : error;
}

/// A long blocking read in parts: one is copied to the program while the next is transferred and the one after it is
/// read. All parts have ended when this returns, even after an error. The program gets the event of the last part.
cl_int ReadParts(Command& command, const Memory& buffer, std::size_t offset, std::size_t size, std::byte* to) {
  const std::size_t ahead = PartsAhead(command.link());
  std::deque<Ref<Event>> sent;
  cl_int outcome = CL_SUCCESS;
  const auto end_first = [&] {
    const cl_int ended = command.WaitFor(*sent.front());
    sent.pop_front();
    if (outcome == CL_SUCCESS) outcome = ended;
  };
  while (size > 0 && outcome == CL_SUCCESS) {
    if (sent.size() >= ahead) end_first();
    const std::size_t bytes = std::min(size, kPartBytes);
    wire::ReadBuffer part{.buffer = buffer.id, .offset = offset, .size = bytes, .waited = 1};
    const cl_int error =
        SendRead(command, part, CL_COMMAND_READ_BUFFER,
                 {.to = to, .box = {bytes, 1, 1}, .row_pitch = bytes, .slice_pitch = bytes, .of_more = true},
                 /*whole=*/bytes == size);
    if (error == CL_OUT_OF_RESOURCES && !sent.empty()) {
      end_first();  // frees its range
      continue;
    }
    if (error == CL_SUCCESS)
      sent.push_back(command.made());
    else if (outcome == CL_SUCCESS)
      outcome = error;
    offset += bytes;
    size -= bytes;
    to += bytes;
  }
  while (!sent.empty()) end_first();
  return outcome;
}

/// Sends all parts of a long write except the last, and sets the arguments to the rest.
cl_int WriteParts(Command& command, const Memory& buffer, bool blocking, std::size_t& offset, std::size_t& size,
                  const void*& from) {
  while (size > kPartBytes) {
    if (blocking) AwaitRoomToStage(command, kPartBytes);
    StagedContent content;
    if (!content.Of(command.link(), from, kPartBytes, /*of_more=*/true))
      return command.link().usable() ? CL_OUT_OF_RESOURCES : kGone;
    wire::WriteBuffer part{
        .buffer = buffer.id, .offset = offset, .content = content.blob(), .ticket = content.ticket()};
    if (const cl_int error = command.SendPart(part, CL_COMMAND_WRITE_BUFFER); error != CL_SUCCESS) return error;
    if (blocking) command.queue().Stage(content.ticket(), kPartBytes);
    offset += kPartBytes;
    size -= kPartBytes;
    from = static_cast<const std::byte*>(from) + kPartBytes;
  }
  return CL_SUCCESS;
}

}  // namespace

namespace api {

cl_int EnqueueReadBuffer(cl_command_queue queue, cl_mem handle, cl_bool blocking, std::size_t offset, std::size_t size,
                         void* to, cl_uint wait_count, const cl_event* wait_list, cl_event* event) {
  Command command;
  if (const cl_int error = command.Open(queue, wait_count, wait_list, event); error != CL_SUCCESS) return error;
  Memory* buffer = nullptr;
  if (const cl_int error = CheckMemory(handle, *command.queue().context, true, buffer); error != CL_SUCCESS)
    return error;
  if (to == nullptr || size == 0 || !Inside(*buffer, offset, size)) return CL_INVALID_VALUE;
  if ((buffer->flags & kHostMayNotRead) != 0) return CL_INVALID_OPERATION;
  if (command.may_complete_locally() || (blocking != CL_FALSE && command.may_be_done_here_after_waiting())) {
    if (const cl_int error = command.WaitUntilItMay(); error != CL_SUCCESS) return error;
    BulkCopy(to, buffer->bytes() + offset, size);
    return command.CompleteLocally(CL_COMMAND_READ_BUFFER);
  }
  if (blocking != CL_FALSE && size > kStagedBytesMax && command.may_be_in_parts())
    return ReadParts(command, *buffer, offset, size, static_cast<std::byte*>(to));
  wire::ReadBuffer read{.buffer = buffer->id, .offset = offset, .size = size};
  return ReadStaged(command, read, CL_COMMAND_READ_BUFFER, blocking != CL_FALSE,
                    {.to = static_cast<std::byte*>(to), .box = {size, 1, 1}, .row_pitch = size, .slice_pitch = size});
}

cl_int EnqueueWriteBuffer(cl_command_queue queue, cl_mem handle, cl_bool blocking, std::size_t offset, std::size_t size,
                          const void* from, cl_uint wait_count, const cl_event* wait_list, cl_event* event) {
  Command command;
  if (const cl_int error = command.Open(queue, wait_count, wait_list, event); error != CL_SUCCESS) return error;
  Memory* buffer = nullptr;
  if (const cl_int error = CheckMemory(handle, *command.queue().context, true, buffer); error != CL_SUCCESS)
    return error;
  if (from == nullptr || size == 0 || !Inside(*buffer, offset, size)) return CL_INVALID_VALUE;
  if ((buffer->flags & kHostMayNotWrite) != 0) return CL_INVALID_OPERATION;
  if (command.FailsAtOnce(blocking)) return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  const bool large = blocking != CL_FALSE && size > kStagedBytesMax;
  bool here = command.may_complete_locally() || (large && command.may_be_done_here_after_waiting());
  if (!here && size > kStagedBytesMax && command.may_be_in_parts())
    if (const cl_int error = WriteParts(command, *buffer, blocking != CL_FALSE, offset, size, from);
        error != CL_SUCCESS)
      return error;
  const bool counts = !here && blocking != CL_FALSE && command.queue().in_order() && size > wire::kInlineBytesMax;
  if (counts) AwaitRoomToStage(command, size);
  const std::int64_t until_ns = command.link().MayWaitUntilNs();
  StagedContent content;
  bool for_limited_time = false;
  if (!here && !content.Of(command.link(), from, size)) {
    // The arena has no room to stage the content. Writing to the buffer's own range needs no room, but a wait, which
    // may be for a later call of the program. Which commands wait for which user event is known to the executor only.
    here = command.may_be_done_here_after_waiting();
    if (!here) return command.link().usable() ? CL_OUT_OF_RESOURCES : kGone;
    for_limited_time = blocking == CL_FALSE && command.link().user_events_unset() > 0;
  }
  if (here) {
    const cl_int error = for_limited_time ? command.WaitUntilItMay(until_ns) : command.WaitUntilItMay();
    if (error != CL_SUCCESS) return error;
    BulkCopy(buffer->bytes() + offset, from, size);
    return command.CompleteLocally(CL_COMMAND_WRITE_BUFFER);
  }
  wire::WriteBuffer write{
      .buffer = buffer->id, .offset = offset, .content = content.blob(), .ticket = content.ticket()};
  if (const cl_int error = command.Send(write, CL_COMMAND_WRITE_BUFFER, command.ArrivalOfWrite(blocking));
      error != CL_SUCCESS)
    return error;
  if (counts) command.queue().Stage(content.ticket(), size);
  return command.EndWrite(blocking);
}

cl_int EnqueueReadBufferRect(cl_command_queue queue, cl_mem handle, cl_bool blocking, const std::size_t* buffer_origin,
                             const std::size_t* host_origin, const std::size_t* region, std::size_t buffer_row_pitch,
                             std::size_t buffer_slice_pitch, std::size_t host_row_pitch, std::size_t host_slice_pitch,
                             void* to, cl_uint wait_count, const cl_event* wait_list, cl_event* event) {
  Command command;
  if (const cl_int error = command.Open(queue, wait_count, wait_list, event); error != CL_SUCCESS) return error;
  Memory* buffer = nullptr;
  if (const cl_int error = CheckMemory(handle, *command.queue().context, true, buffer); error != CL_SUCCESS)
    return error;
  Rect there, here;
  if (to == nullptr || buffer_origin == nullptr || host_origin == nullptr || region == nullptr || Empty(region) ||
      !MakeRect(buffer_origin, region, buffer_row_pitch, buffer_slice_pitch, there) ||
      !MakeRect(host_origin, region, host_row_pitch, host_slice_pitch, here) || !Inside(*buffer, there, region))
    return CL_INVALID_VALUE;
  if ((buffer->flags & kHostMayNotRead) != 0) return CL_INVALID_OPERATION;
  std::byte* const first = static_cast<std::byte*>(to) + here.first();
  const std::size_t box[3] = {region[0], region[1], region[2]};
  if (command.may_complete_locally() || (blocking != CL_FALSE && command.may_be_done_here_after_waiting())) {
    if (const cl_int error = command.WaitUntilItMay(); error != CL_SUCCESS) return error;
    CopyBox({first, here.row_pitch, here.slice_pitch},
            {buffer->bytes() + there.first(), there.row_pitch, there.slice_pitch}, box);
    return command.CompleteLocally(CL_COMMAND_READ_BUFFER_RECT);
  }
  wire::ReadBufferRect read{.buffer = buffer->id, .row_pitch = there.row_pitch, .slice_pitch = there.slice_pitch};
  Copy3(read.origin, buffer_origin);
  Copy3(read.region, region);
  return ReadStaged(command, read, CL_COMMAND_READ_BUFFER_RECT, blocking != CL_FALSE,
                    {.to = first,
                     .box = {region[0], region[1], region[2]},
                     .row_pitch = here.row_pitch,
                     .slice_pitch = here.slice_pitch});
}

cl_int EnqueueWriteBufferRect(cl_command_queue queue, cl_mem handle, cl_bool blocking, const std::size_t* buffer_origin,
                              const std::size_t* host_origin, const std::size_t* region, std::size_t buffer_row_pitch,
                              std::size_t buffer_slice_pitch, std::size_t host_row_pitch, std::size_t host_slice_pitch,
                              const void* from, cl_uint wait_count, const cl_event* wait_list, cl_event* event) {
  Command command;
  if (const cl_int error = command.Open(queue, wait_count, wait_list, event); error != CL_SUCCESS) return error;
  Memory* buffer = nullptr;
  if (const cl_int error = CheckMemory(handle, *command.queue().context, true, buffer); error != CL_SUCCESS)
    return error;
  Rect there, here;
  if (from == nullptr || buffer_origin == nullptr || host_origin == nullptr || region == nullptr || Empty(region) ||
      !MakeRect(buffer_origin, region, buffer_row_pitch, buffer_slice_pitch, there) ||
      !MakeRect(host_origin, region, host_row_pitch, host_slice_pitch, here) || !Inside(*buffer, there, region))
    return CL_INVALID_VALUE;
  if ((buffer->flags & kHostMayNotWrite) != 0) return CL_INVALID_OPERATION;
  if (command.FailsAtOnce(blocking)) return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  // CopyBox only reads from it.
  auto* const first = const_cast<std::byte*>(static_cast<const std::byte*>(from)) + here.first();
  const std::size_t box[3] = {region[0], region[1], region[2]};
  if (command.may_complete_locally()) {
    CopyBox({buffer->bytes() + there.first(), there.row_pitch, there.slice_pitch},
            {first, here.row_pitch, here.slice_pitch}, box);
    return command.CompleteLocally(CL_COMMAND_WRITE_BUFFER_RECT);
  }
  StagedContent content;
  if (!content.Make(command.link(), box[0] * box[1] * box[2]))
    return command.link().usable() ? CL_OUT_OF_RESOURCES : kGone;
  CopyBox(Packed(content.into(), box), {first, here.row_pitch, here.slice_pitch}, box);
  wire::WriteBufferRect write{.buffer = buffer->id,
                              .row_pitch = there.row_pitch,
                              .slice_pitch = there.slice_pitch,
                              .content = content.blob(),
                              .ticket = content.ticket()};
  Copy3(write.origin, buffer_origin);
  Copy3(write.region, region);
  if (const cl_int error = command.Send(write, CL_COMMAND_WRITE_BUFFER_RECT, command.ArrivalOfWrite(blocking));
      error != CL_SUCCESS)
    return error;
  return command.EndWrite(blocking);
}

cl_int EnqueueCopyBuffer(cl_command_queue queue, cl_mem from_handle, cl_mem to_handle, std::size_t from_offset,
                         std::size_t to_offset, std::size_t size, cl_uint wait_count, const cl_event* wait_list,
                         cl_event* event) {
  Command command;
  if (const cl_int error = command.Open(queue, wait_count, wait_list, event); error != CL_SUCCESS) return error;
  Memory *from = nullptr, *to = nullptr;
  if (const cl_int error = CheckMemory(from_handle, *command.queue().context, true, from); error != CL_SUCCESS)
    return error;
  if (const cl_int error = CheckMemory(to_handle, *command.queue().context, true, to); error != CL_SUCCESS)
    return error;
  if (size == 0 || !Inside(*from, from_offset, size) || !Inside(*to, to_offset, size)) return CL_INVALID_VALUE;
  // Sub-buffers of one buffer overlap if their arena ranges do.
  const std::uint64_t a = from->at + from_offset, b = to->at + to_offset;
  if (a < b + size && b < a + size) return CL_MEM_COPY_OVERLAP;
  wire::CopyBuffer copy{
      .from = from->id, .to = to->id, .from_offset = from_offset, .to_offset = to_offset, .size = size};
  return command.Send(copy, CL_COMMAND_COPY_BUFFER);
}

cl_int EnqueueCopyBufferRect(cl_command_queue queue, cl_mem from_handle, cl_mem to_handle,
                             const std::size_t* from_origin, const std::size_t* to_origin, const std::size_t* region,
                             std::size_t from_row_pitch, std::size_t from_slice_pitch, std::size_t to_row_pitch,
                             std::size_t to_slice_pitch, cl_uint wait_count, const cl_event* wait_list,
                             cl_event* event) {
  Command command;
  if (const cl_int error = command.Open(queue, wait_count, wait_list, event); error != CL_SUCCESS) return error;
  Memory *from = nullptr, *to = nullptr;
  if (const cl_int error = CheckMemory(from_handle, *command.queue().context, true, from); error != CL_SUCCESS)
    return error;
  if (const cl_int error = CheckMemory(to_handle, *command.queue().context, true, to); error != CL_SUCCESS)
    return error;
  Rect a, b;
  if (from_origin == nullptr || to_origin == nullptr || region == nullptr || Empty(region) ||
      !MakeRect(from_origin, region, from_row_pitch, from_slice_pitch, a) ||
      !MakeRect(to_origin, region, to_row_pitch, to_slice_pitch, b) || !Inside(*from, a, region) ||
      !Inside(*to, b, region))
    return CL_INVALID_VALUE;
  if (from == to && (a.row_pitch != b.row_pitch || a.slice_pitch != b.slice_pitch)) return CL_INVALID_VALUE;
  if (from == to) {
    bool apart = false;
    for (int i = 0; i < 3; ++i)
      apart = apart || from_origin[i] + region[i] <= to_origin[i] || to_origin[i] + region[i] <= from_origin[i];
    if (!apart) return CL_MEM_COPY_OVERLAP;
  }
  wire::CopyBufferRect copy{.from = from->id,
                            .to = to->id,
                            .from_row_pitch = a.row_pitch,
                            .from_slice_pitch = a.slice_pitch,
                            .to_row_pitch = b.row_pitch,
                            .to_slice_pitch = b.slice_pitch};
  Copy3(copy.from_origin, from_origin);
  Copy3(copy.to_origin, to_origin);
  Copy3(copy.region, region);
  return command.Send(copy, CL_COMMAND_COPY_BUFFER_RECT);
}

cl_int EnqueueFillBuffer(cl_command_queue queue, cl_mem handle, const void* pattern, std::size_t pattern_size,
                         std::size_t offset, std::size_t size, cl_uint wait_count, const cl_event* wait_list,
                         cl_event* event) {
  Command command;
  if (const cl_int error = command.Open(queue, wait_count, wait_list, event); error != CL_SUCCESS) return error;
  Memory* buffer = nullptr;
  if (const cl_int error = CheckMemory(handle, *command.queue().context, true, buffer); error != CL_SUCCESS)
    return error;
  if (pattern == nullptr || !std::has_single_bit(pattern_size) || pattern_size > 128 || offset % pattern_size != 0 ||
      size % pattern_size != 0 || !Inside(*buffer, offset, size))
    return CL_INVALID_VALUE;
  if (size == 0) {  // nothing to fill, but the event must be completed
    wire::Marker marker;
    return command.Send(marker, CL_COMMAND_FILL_BUFFER);
  }
  wire::FillBuffer fill{.buffer = buffer->id,
                        .offset = offset,
                        .size = size,
                        .pattern = {static_cast<const std::byte*>(pattern), pattern_size}};
  return command.Send(fill, CL_COMMAND_FILL_BUFFER);
}

cl_int EnqueueMigrateMemObjects(cl_command_queue queue, cl_uint count, const cl_mem* handles,
                                cl_mem_migration_flags flags, cl_uint wait_count, const cl_event* wait_list,
                                cl_event* event) {
  Command command;
  if (const cl_int error = command.Open(queue, wait_count, wait_list, event); error != CL_SUCCESS) return error;
  constexpr cl_mem_migration_flags kKnown = CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
  if (count == 0 || handles == nullptr || (flags & ~kKnown) != 0) return CL_INVALID_VALUE;
  std::vector<std::uint32_t> ids;
  for (cl_uint i = 0; i < count; ++i) {
    const Memory* memory = As<Memory>(handles[i]);
    if (memory == nullptr) return CL_INVALID_MEM_OBJECT;
    if (memory->context.get() != command.queue().context.get()) return CL_INVALID_CONTEXT;
    ids.push_back(memory->id);
  }
  wire::Migrate migrate{.objects = {ids.data(), ids.size()}, .flags = flags};
  return command.Send(migrate, CL_COMMAND_MIGRATE_MEM_OBJECTS);
}

}  // namespace api
}  // namespace weir::opencl::icd
