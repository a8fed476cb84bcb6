// SPDX-License-Identifier: Apache-2.0
#include "remote/move.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "opencl/channel/cl.h"
#include "opencl/channel/limits.h"
#include "platform/clock.h"
#include "proto/opencl_messages.h"

namespace weir::remote {
namespace {

namespace cl = proto::cl;

constexpr Duration kQuietWithin = seconds(30);  // allows for a running kernel
/// Interval at which a wait for the old node checks whether the connection is to end.
constexpr Duration kStopSeenWithin = milliseconds(50);
/// Interval at which the old node is asked again whether its commands have ended.
constexpr Duration kAskAgain = milliseconds(200);
constexpr Duration kReadWithin = seconds(60);  // for one piece in the pause
/// For one piece before the pause, when reads queue behind the program's commands.
constexpr Duration kReadAheadWithin = seconds(10);
/// Bound of a frame to the old node. A connection that takes data takes as much at once.
constexpr std::size_t kOldFrameBytes = 4096;
/// Bound of pieces that are requested at once. Smaller than the number of slots, because some slots are still being
/// written to the new node.
constexpr std::size_t kFlyingInPause = 10;

template <typename M>
void CopyBoxTo(M& message, const Piece& piece) {
  std::ranges::copy(piece.origin, message.origin);
  std::ranges::copy(piece.region, message.region);
}

}  // namespace

Error OldNodeReadsNothing(Duration within) {
  return Fail(Errc::kTimeout,
              fmt::format("the old node has read nothing for {:g} s, so the program stays there; is its portal, its "
                          "vGPU's executor or the vGPU stopped?",
                          SecondsOf(within)));
}

// -- Both stages ------------------------------------------------------------------------------------------------------

Status Mover::Start() {
  if (std::exchange(started_, true)) return Ok();
  // Buffers and staged contents keep their places, so the arena must be as large as on the old node. A vGPU whose
  // memory is smaller although its arena is as large fails later, when its objects are made (nodes of different
  // versions).
  if (entry_.arena.bytes < old_.arena_bytes + opencl::kSpareBytes)
    return Fail(Errc::kResourceExhausted,
                "the new node's vGPU has less memory than the program was shown: its arena has " +
                    std::to_string(entry_.arena.bytes >> 20) + " MiB, and " +
                    std::to_string((old_.arena_bytes + opencl::kSpareBytes) >> 20) + " are needed");
  std::vector<std::byte> facts;
  {
    const std::lock_guard lock(old_.followed.mutex);
    if (!old_.followed.facts_complete)
      return Fail(Errc::kUnavailable, "the program has only just connected; try again");
    facts = old_.followed.facts;
  }
  WEIR_TRY_STATUS(fresh_.SameDeviceAs(facts));
  old_.sink.OpenSpare();
  if (!old_.sink.AwaitAnswers(kReadWithin))
    return Fail(Errc::kTimeout, "the old node has not answered a request of an earlier move; try again");
  const std::lock_guard lock(old_.followed.mutex);
  old_.followed.log.ForgetContents();
  if (!ChooseIds()) return Fail(Errc::kResourceExhausted, "the program has too many objects to be moved");
  return Ok();
}

/// Requires the mutex of old_.followed.
bool Mover::ChooseIds() {
  base_ = old_.followed.log.ids_end() + kIdsApart;
  return base_ + kOwnIds <= opencl::kIdMax;
}

bool Mover::Mine() const { return old_.followed.log.ids_end() <= base_; }

Mover::Item& Mover::ItemOf(const Memory& memory) {
  Item& item = items_[memory.number];
  item.memory = memory;
  return item;
}

/// Null: there are too many contexts.
Mover::Own* Mover::OwnIn(const Memory& memory) {
  if (const auto found = own_.find(memory.context_number); found != own_.end()) return &found->second;
  if (own_.size() >= kContextsMax) return nullptr;
  const auto first = base_ + 2 * static_cast<std::uint32_t>(own_.size());
  return &own_.emplace(memory.context_number,
                       Own{.context = memory.context, .device = memory.device, .queue = first, .temporary = first + 1})
              .first->second;
}

std::vector<Mover::Message> Mover::Leavings() const {
  std::vector<Message> messages = unsent_;
  const std::lock_guard lock(old_.followed.mutex);
  if (!Mine()) return messages;  // the ids are now used by the client, which has replaced these objects or will
  for (const auto& [number, own] : own_) {
    if (own.temporaries) messages.push_back(cl::Encode(cl::Release{.id = own.temporary}));
    if (own.old_queue) messages.push_back(cl::Encode(cl::Release{.id = own.queue}));
  }
  return messages;
}

Status Mover::Leave() {
  const std::vector<Message> messages = Leavings();
  own_.clear();
  unsent_.clear();
  return SendToOldNode(messages);
}

/// Waits until the old node takes data, so that a message to it is not stopped in the middle: the client's next one
/// could then not follow. kTimeout: it reads nothing.
Status Mover::AwaitOldNode() {
  const Instant since = platform::Now();
  while (!old_.stream.AwaitSend(kStopSeenWithin)) {
    if (stop_.load(std::memory_order_relaxed)) return Fail(Errc::kUnavailable, "the connection was ended");
    if (platform::Now() - since >= old_.reads_within) return OldNodeReadsNothing(old_.reads_within);
  }
  return Ok();
}

/// Sends the messages in frames so small that none is stopped in the middle. kTimeout: the old node has read nothing,
/// and unsent_ has the rest.
Status Mover::SendToOldNode(std::span<const Message> messages) {
  while (!messages.empty()) {
    if (Status reads = AwaitOldNode(); !reads) {
      unsent_.insert(unsent_.end(), messages.begin(), messages.end());
      return reads;
    }
    std::size_t count = 0;
    for (std::size_t bytes = 0; count < messages.size(); ++count) {
      bytes += cl::Padded(messages[count].size());
      if (count > 0 && bytes > kOldFrameBytes) break;
    }
    WEIR_TRY_STATUS(SendMessages(old_.stream, messages.first(count), stop_));
    messages = messages.subspan(count);
  }
  return Ok();
}

// -- Pieces ----------------------------------------------------------------------------------------------------------

/// Returns the next slot once it is free on both nodes, and fewer than `flying_most` pieces are in flight.
Result<unsigned> Mover::FreeSlot(std::size_t flying_most) {
  while (flying_.size() >= flying_most && !stuck_) WEIR_TRY_STATUS(Land());
  const unsigned slot = next_slot_;
  if (stuck_) return slot;
  next_slot_ = next_slot_ % (kSpareSlots - 1) + 1;
  if (const std::uint32_t request = std::exchange(writing_[slot], 0); request != 0)
    WEIR_TRY_STATUS(fresh_.Await(request, CL_SUCCESS, "writing contents"));
  return slot;
}

/// Appends the messages that copy the piece into the slot, by way of the temporary buffer if the host may not read the
/// object. The queue is in order, so the next piece can use the temporary buffer immediately.
void Mover::AddRead(const Item& item, std::size_t index, const Piece& piece, unsigned slot,
                    std::span<const std::uint32_t> waits, std::vector<Message>& messages) {
  const Own& own = own_.at(item.memory.context_number);
  const std::uint32_t id = item.memory.id;
  const std::uint64_t to = SpareAt(slot);
  const cl::Enqueue enqueue{.queue = own.queue, .waits = cl::IdList(waits)};
  old_.sink.Expect(slot);
  if ((item.memory.flags & kHostMayNotRead) != 0) {
    if (item.memory.image) {
      cl::CopyImageToBuffer copy{.enqueue = enqueue, .image = id, .buffer = own.temporary};
      CopyBoxTo(copy, piece);
      messages.push_back(cl::Encode(copy));
    } else {
      messages.push_back(cl::Encode(cl::CopyBuffer{
          .enqueue = enqueue, .from = id, .to = own.temporary, .from_offset = piece.at, .size = piece.bytes}));
    }
    messages.push_back(cl::Encode(
        cl::ReadBuffer{.enqueue = {.queue = own.queue}, .buffer = own.temporary, .size = piece.bytes, .to = to}));
  } else if (item.memory.image) {
    cl::ReadImage read{.enqueue = enqueue, .image = id, .to = to, .size = piece.bytes};
    CopyBoxTo(read, piece);
    messages.push_back(cl::Encode(read));
  } else {
    messages.push_back(cl::Encode(
        cl::ReadBuffer{.enqueue = enqueue, .buffer = id, .offset = piece.at, .size = piece.bytes, .to = to}));
  }
  const std::uint32_t request = old_.sink.NewRequest();
  messages.push_back(cl::Encode(cl::Finish{.request = request, .queue = own.queue}));
  flying_.push_back({.number = item.memory.number,
                     .index = index,
                     .piece = piece,
                     .slot = slot,
                     .request = request,
                     .ahead = !paused_});
}

/// Waits, with a time limit, for the piece that was requested first.
Status Mover::Land() {
  const auto status = old_.sink.AnswerTo(flying_.front().request, paused_ ? kReadWithin : kReadAheadWithin);
  if (!status) {
    stuck_ = true;
    if (!paused_) return Ok();
    return Fail(Errc::kTimeout, fmt::format("the old node did not answer within {:g} s, so the program stays there",
                                            SecondsOf(kReadWithin)));
  }
  const Flying landed = flying_.front();
  flying_.pop_front();
  const auto found = items_.find(landed.number);
  if (found == items_.end()) return Ok();  // the object was released meanwhile
  Item& item = found->second;
  const std::span<const std::byte> bytes = old_.sink.ArrivedIn(landed.slot);
  if (*status != CL_SUCCESS || bytes.size() != landed.piece.bytes) {
    item.refused = true;
    if (landed.ahead) return Ok();  // the pause will read it again
    return Fail(Errc::kUnavailable, std::string("reading ") + (item.memory.image ? "an image" : "a buffer") +
                                        " ended with " + std::to_string(*status) + ", and " +
                                        std::to_string(bytes.size()) + " bytes came");
  }
  ++item.landed;
  return Write(item, landed, bytes);
}

Status Mover::LandAll() {
  while (!flying_.empty() && !stuck_) WEIR_TRY_STATUS(Land());
  return Ok();
}

/// Sends the blocks that the new node does not have.
Status Mover::Write(Item& item, const Flying& landed, std::span<const std::byte> bytes) {
  const unsigned slot = landed.slot;
  std::uint64_t sent = 0;
  std::vector<Message> messages;
  const Own& own = own_.at(item.memory.context_number);
  for (const SentBlocks::Run& run : item.sent.Send(landed.index, bytes, item.memory.image)) {
    WEIR_TRY_STATUS(fresh_.Put(SpareAt(slot) + run.at, bytes.subspan(run.at, run.bytes)));
    AddWrite(item, own, landed.piece, run, slot, messages);
    sent += run.bytes;
  }
  // A piece that was requested before the pause and arrives in it counts as sent before the pause: it may have changed
  // since, and is then read once more.
  if (paused_ && !landed.ahead) moved_.bytes_unchanged += bytes.size() - sent;
  (paused_ && !landed.ahead ? moved_.bytes_in_pause : moved_.bytes_before) += sent;
  if (messages.empty()) return Ok();
  writing_[slot] = fresh_request_++;
  messages.push_back(cl::Encode(cl::Finish{.request = writing_[slot], .queue = own.queue}));
  return fresh_.Send(messages);
}

void Mover::AddWrite(const Item& item, const Own& own, const Piece& piece, const SentBlocks::Run& run, unsigned slot,
                     std::vector<Message>& messages) const {
  const std::uint32_t id = item.memory.id;
  const cl::Enqueue enqueue{.queue = own.queue};
  const cl::Blob content = cl::Blob::Arena(SpareAt(slot) + run.at, run.bytes);
  const bool by_copying = (item.memory.flags & kHostMayNotWrite) != 0;
  if (by_copying)
    messages.push_back(cl::Encode(cl::WriteBuffer{.enqueue = enqueue, .buffer = own.temporary, .content = content}));
  if (item.memory.image && by_copying) {
    cl::CopyBufferToImage copy{.enqueue = enqueue, .buffer = own.temporary, .image = id};
    CopyBoxTo(copy, piece);
    messages.push_back(cl::Encode(copy));
  } else if (item.memory.image) {
    cl::WriteImage write{.enqueue = enqueue, .image = id, .content = content};
    CopyBoxTo(write, piece);
    messages.push_back(cl::Encode(write));
  } else if (by_copying) {
    messages.push_back(cl::Encode(cl::CopyBuffer{
        .enqueue = enqueue, .from = own.temporary, .to = id, .to_offset = piece.at + run.at, .size = run.bytes}));
  } else {
    messages.push_back(
        cl::Encode(cl::WriteBuffer{.enqueue = enqueue, .buffer = id, .offset = piece.at + run.at, .content = content}));
  }
}

// -- The pause --------------------------------------------------------------------------------------------------------

Result<Moved> Mover::Finish() {
  WEIR_TRY_STATUS(Start());
  WEIR_TRY_STATUS(AwaitQuiet());
  stuck_ = false;
  paused_ = true;
  WEIR_TRY_STATUS(LandAll());
  {
    const std::lock_guard lock(old_.followed.mutex);
    if (!Mine()) {
      in_the_way_ = !own_.empty();
      if (in_the_way_ || !ChooseIds()) return Fail(Errc::kResourceExhausted, "the program has made too many objects");
    }
  }
  old_.sink.Notices(/*nobodys=*/true);
  const auto move = [this]() -> Status {
    WEIR_TRY_STATUS(Replay());
    return MoveContents();
  };
  const Status moved = move();
  old_.sink.Notices(/*nobodys=*/false);
  if (!moved) return moved.error();
  moved_.late = fresh_.TakeLate();
  moved_.drain_reason = fresh_.TakeDrainReason();
  return std::move(moved_);
}

Status Mover::AwaitQuiet() {
  const std::int64_t until = platform::NowNs() + kQuietWithin.count();
  for (;;) {
    WEIR_TRY_STATUS(AwaitOldNode());
    std::vector<Message> questions;
    {
      std::unique_lock lock(old_.followed.mutex);
      if (old_.followed.log.in_flight().none()) return Ok();
      questions = old_.followed.log.Questions();
    }
    WEIR_TRY_STATUS(SendToOldNode(questions));
    std::unique_lock lock(old_.followed.mutex);
    old_.followed.changed.wait_for(lock, kAskAgain, [&] { return old_.followed.log.in_flight().none(); });
    const auto now = old_.followed.log.in_flight();
    if (now.none()) return Ok();
    if (stop_.load(std::memory_order_relaxed)) return Fail(Errc::kUnavailable, "the connection was ended");
    if (platform::NowNs() > until)
      return Fail(Errc::kTimeout,
                  std::to_string(now.commands) + " commands have not ended within " +
                      std::to_string(kQuietWithin.count() / 1'000'000'000) + " s" +
                      (now.user_events > 0 ? ", and may wait for an event that the program has not set" : ""));
  }
}

Status Mover::Replay() {
  // Places data from the end of the client's part of the arena downwards. The client's own arena is not touched, and on
  // the new node no other code uses the arena yet.
  std::uint64_t room = old_.arena_bytes / kPlaceAlignment * kPlaceAlignment;
  Status placed = Ok();
  std::optional<opencl::ObjectLog::Replay> replay;
  {
    const std::lock_guard lock(old_.followed.mutex);
    replay = old_.followed.log.MakeReplay(
        [&](cl::ByteView bytes) -> std::optional<cl::Blob> {
          const std::uint64_t takes = (bytes.size() + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
          if (takes > room || !placed) return std::nullopt;
          room -= takes;
          placed = fresh_.Put(room, bytes);
          return cl::Blob::Arena(room, bytes.size());
        },
        {.standing = standing_, .ids_end = base_});
  }
  WEIR_TRY_STATUS(std::move(placed));
  in_the_way_ = !replay && !standing_.empty();
  if (!replay) return Fail(Errc::kResourceExhausted, "there is no room to recreate the program's objects");
  moved_.objects = standing_.size() + replay->messages.size();
  WEIR_TRY_STATUS(fresh_.Send(replay->messages));
  for (const auto& answer : replay->answers) WEIR_TRY_STATUS(fresh_.Await(answer.request, answer.status, "a build"));
  return Ok();
}

Status Mover::MoveContents() {
  std::vector<Memory> memories;
  {
    const std::lock_guard lock(old_.followed.mutex);
    memories = old_.followed.log.memories();
  }
  for (const Memory& memory : memories) {
    if (memory.contents == opencl::ObjectLog::Contents::kNone) continue;
    // An object larger than the arena cannot be created on any node, so it has no contents.
    if (!WasMade(memory) && !(memory.image && memory.size == 0)) continue;
    Item& item = ItemOf(memory);
    ++moved_.memories;
    if (!memory.must_move() && item.whole()) {
      moved_.bytes_unchanged += memory.size;
      continue;
    }
    WEIR_TRY_STATUS(MoveItem(item));
  }
  WEIR_TRY_STATUS(LandAll());
  for (std::uint32_t& request : writing_)
    if (const std::uint32_t last = std::exchange(request, 0); last != 0)
      WEIR_TRY_STATUS(fresh_.Await(last, CL_SUCCESS, "writing contents"));
  std::vector<Message> releases;
  for (const auto& [number, own] : own_) {
    if (own.temporaries) releases.push_back(cl::Encode(cl::Release{.id = own.temporary}));
    if (own.fresh_queue) releases.push_back(cl::Encode(cl::Release{.id = own.queue}));
  }
  return fresh_.Send(releases);
}

Status Mover::MoveItem(Item& item) {
  const Memory& memory = item.memory;
  if (memory.context == 0 || memory.device == 0)
    return Fail(Errc::kInvalidArgument, "it has released the context of a buffer, or its devices, and kept the buffer");
  const std::vector<Piece> pieces = PiecesOf(memory, kSpareSlotBytes);
  if (pieces.empty()) return Fail(Errc::kInvalidArgument, "it has an image of a format that Weir does not know");
  Own* own = OwnIn(memory);
  if (own == nullptr) return Fail(Errc::kResourceExhausted, "it has too many contexts");
  WEIR_TRY_STATUS(MakeOwn(item, *own));
  item.landed = 0;
  item.pieces = pieces.size();
  for (std::size_t index = 0; index < pieces.size(); ++index) {
    WEIR_TRY(const unsigned slot, FreeSlot(kFlyingInPause));
    WEIR_TRY_STATUS(AwaitOldNode());
    std::vector<Message> messages;
    AddRead(item, index, pieces[index], slot, {}, messages);
    WEIR_TRY_STATUS(SendToOldNode(messages));
  }
  return Ok();
}

/// Creates a queue on both nodes, and a temporary buffer if host access flags of the buffer forbid reading or writing
/// it directly.
Status Mover::MakeOwn(const Item& item, Own& own) {
  WEIR_TRY_STATUS(AwaitOldNode());
  std::vector<Message> old, fresh;
  const Message queue = cl::Encode(cl::CreateQueue{.id = own.queue, .context = own.context, .device = own.device});
  if (!std::exchange(own.old_queue, true)) old.push_back(queue);
  if (!std::exchange(own.fresh_queue, true)) fresh.push_back(queue);
  const bool by_copying = (item.memory.flags & (kHostMayNotRead | kHostMayNotWrite)) != 0;
  if (by_copying && !std::exchange(own.temporaries, true)) {
    const Message temporary = cl::Encode(cl::CreateBuffer{.id = own.temporary,
                                                          .context = own.context,
                                                          .flags = CL_MEM_READ_WRITE,
                                                          .size = kSpareSlotBytes,
                                                          .offset = SpareAt(0)});
    old.push_back(temporary);
    fresh.push_back(temporary);
  }
  WEIR_TRY_STATUS(SendToOldNode(old));
  return fresh_.Send(fresh);
}

}  // namespace weir::remote
