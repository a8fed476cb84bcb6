// SPDX-License-Identifier: Apache-2.0
// The part of a migration that runs before the pause. It is optional, and shortens the pause.
#include <algorithm>

#include "opencl/channel/cl.h"
#include "platform/clock.h"
#include "proto/opencl_messages.h"
#include "remote/move.h"

namespace weir::remote {
namespace {

namespace cl = proto::cl;

constexpr Duration kAheadWithin = seconds(60);
constexpr int kRoundsMax = 5;
/// Small, so that the program does not queue behind many pieces.
constexpr std::size_t kFlyingAhead = 4;

}  // namespace

Status Mover::CopyAhead(const AtBoundary& at_boundary) {
  WEIR_TRY_STATUS(Start());
  WEIR_TRY_STATUS(BuildAhead());
  const std::int64_t until_ns = platform::NowNs() + kAheadWithin.count();
  std::uint64_t before = UINT64_MAX;
  for (int round = 0; round < kRoundsMax && !stuck_; ++round) {
    std::uint64_t bytes = 0;
    const std::vector<std::uint64_t> dirty = DirtyAhead(bytes);
    // Another round is useless if the program writes as fast as the contents are copied.
    if (bytes == 0 || bytes > before / 2) break;
    before = bytes;
    for (const std::uint64_t number : dirty) {
      if (stuck_ || platform::NowNs() > until_ns) break;
      WEIR_TRY_STATUS(CopyItemAhead(number, at_boundary));
    }
    WEIR_TRY_STATUS(LandAll());
  }
  return Ok();
}

void Mover::StandAhead(opencl::ObjectLog::Standing standing) {
  // An earlier object with the same id no longer exists on either node.
  std::erase_if(standing_, [&](const opencl::ObjectLog::Standing& other) { return other.id == standing.id; });
  standing_.push_back(std::move(standing));
}

/// Requires the mutex. False: the context cannot be created ahead.
bool Mover::AddContext(const opencl::ObjectLog::Standing& context, std::vector<Message>& messages) {
  const opencl::ObjectLog& log = old_.followed.log;
  const auto maker = log.Stands(context) ? log.MakerOf(context.id) : std::nullopt;
  if (!maker) return false;
  const auto is_it = [&](const opencl::ObjectLog::Standing& other) { return other.number == context.number; };
  if (std::ranges::any_of(standing_, is_it)) return true;
  messages.push_back(*maker);
  StandAhead(context);
  return true;
}

Status Mover::BuildAhead() {
  std::vector<std::pair<opencl::ObjectLog::Standing, opencl::ObjectLog::Standing>> programs;
  {
    const std::lock_guard lock(old_.followed.mutex);
    programs = old_.followed.log.Programs();
  }
  for (const auto& [program, context] : programs) WEIR_TRY_STATUS(BuildOneAhead(program, context));
  return Ok();
}

Status Mover::BuildOneAhead(opencl::ObjectLog::Standing program, const opencl::ObjectLog::Standing& context) {
  std::vector<Message> messages;
  std::vector<std::pair<std::uint64_t, Message>> placed;
  std::uint64_t room = old_.arena_bytes / kPlaceAlignment * kPlaceAlignment;
  std::optional<opencl::ObjectLog::Replay> builder;
  {
    const std::lock_guard lock(old_.followed.mutex);
    if (!Mine() || !AddContext(context, messages)) return Ok();
    builder = old_.followed.log.BuilderOf(program, fresh_request_, [&](cl::ByteView bytes) -> std::optional<cl::Blob> {
      if (bytes.size() > room) return std::nullopt;
      room = (room - bytes.size()) / kPlaceAlignment * kPlaceAlignment;
      placed.emplace_back(room, Message(bytes.begin(), bytes.end()));
      return cl::Blob::Arena(room, bytes.size());
    });
  }
  if (builder) {
    StandAhead(program);
    messages.insert(messages.end(), builder->messages.begin(), builder->messages.end());
    fresh_request_ += static_cast<std::uint32_t>(builder->answers.size());
    for (const auto& [at, bytes] : placed) WEIR_TRY_STATUS(fresh_.Put(at, bytes));
  }
  WEIR_TRY_STATUS(fresh_.Send(messages));
  if (builder)
    for (const auto& answer : builder->answers) WEIR_TRY_STATUS(fresh_.Await(answer.request, answer.status, "a build"));
  return Ok();
}

/// Objects whose current contents the new node lacks. Excludes objects that need a temporary buffer, because its device
/// memory would be taken from the running program.
std::vector<std::uint64_t> Mover::DirtyAhead(std::uint64_t& bytes) {
  std::vector<std::uint64_t> numbers;
  const std::lock_guard lock(old_.followed.mutex);
  for (const Memory& memory : old_.followed.log.memories()) {
    const bool by_copying = (memory.flags & (kHostMayNotRead | kHostMayNotWrite)) != 0;
    if (memory.contents == opencl::ObjectLog::Contents::kNone || by_copying || memory.context == 0 ||
        memory.device == 0 || !WasMade(memory))
      continue;
    const Item& item = ItemOf(memory);
    if (item.refused || (!memory.must_move() && item.whole())) continue;
    numbers.push_back(memory.number);
    bytes += memory.size;
  }
  return numbers;
}

Status Mover::CopyItemAhead(std::uint64_t number, const AtBoundary& at_boundary) {
  WEIR_TRY_STATUS(DropDead());
  const auto found = items_.find(number);
  if (found == items_.end()) return Ok();
  Item& item = found->second;
  WEIR_TRY(const bool made, MakeAhead(item));
  if (!made) return Ok();
  const std::vector<Piece> pieces = PiecesOf(item.memory, kSpareSlotBytes);
  item.landed = 0;
  item.pieces = pieces.size();
  for (std::size_t index = 0; index < pieces.size(); ++index) {
    WEIR_TRY(const unsigned slot, FreeSlot(kFlyingAhead));
    if (stuck_ || item.refused) return Ok();
    bool asked = false;
    Status reads = Ok();
    WEIR_TRY_STATUS(at_boundary([&] {
      std::vector<Message> messages = AskAhead(item, index, pieces[index], slot, reads);
      asked = !messages.empty();
      return messages;
    }));
    WEIR_TRY_STATUS(std::move(reads));
    if (!asked) return Ok();
  }
  return Ok();
}

/// Releases on the new node what the client has released since it was created there.
Status Mover::DropDead() {
  std::vector<Message> releases;
  {
    const std::lock_guard lock(old_.followed.mutex);
    std::erase_if(standing_, [&](const opencl::ObjectLog::Standing& standing) {
      const auto item = items_.find(standing.number);
      if (item == items_.end() || old_.followed.log.Stands(standing)) return false;  // contexts stay
      releases.push_back(cl::Encode(cl::Release{.id = standing.id}));
      items_.erase(item);
      return true;
    });
  }
  return fresh_.Send(releases);
}

/// False: the object no longer exists, or has to be created in the pause.
Result<bool> Mover::MakeAhead(Item& item) {
  if (item.there) return true;
  const Memory& memory = item.memory;
  const opencl::ObjectLog::Standing context{.id = memory.context, .number = memory.context_number};
  std::vector<Message> messages;
  {
    const std::lock_guard lock(old_.followed.mutex);
    const opencl::ObjectLog& log = old_.followed.log;
    if (!Mine() || !log.Stands({.id = memory.id, .number = memory.number})) return false;
    const auto makes_it = log.MakerOf(memory.id);
    Own* own = OwnIn(memory);
    if (!makes_it || own == nullptr || !AddContext(context, messages)) return false;
    if (!std::exchange(own->fresh_queue, true))
      messages.push_back(cl::Encode(cl::CreateQueue{.id = own->queue, .context = own->context, .device = own->device}));
    messages.push_back(*makes_it);
  }
  StandAhead({.id = memory.id, .number = memory.number});
  item.there = true;
  WEIR_TRY_STATUS(fresh_.Send(messages));
  return true;
}

/// Called between two messages of the client. The first piece is read after all earlier commands that may write to the
/// object; the other pieces follow in the same queue. The log records later commands that write to it. Returns no
/// messages if there is nothing to be asked; `reads`: whether the old node reads.
std::vector<Mover::Message> Mover::AskAhead(const Item& item, std::size_t index, const Piece& piece, unsigned slot,
                                            Status& reads) {
  reads = AwaitOldNode();
  if (!reads) return {};
  const Memory& memory = item.memory;
  Own& own = own_.at(memory.context_number);
  std::vector<std::uint32_t> busy, markers;
  {
    const std::lock_guard lock(old_.followed.mutex);
    opencl::ObjectLog& log = old_.followed.log;
    if (!Mine() || !log.Stands({.id = memory.id, .number = memory.number})) return {};
    if (index == 0) {
      auto queues = log.BusyQueues(memory.context);
      if (!queues || queues->size() > kMarkersMax ||
          !log.Stands({.id = own.context, .number = memory.context_number}) || !log.MakerOf(own.context))
        return {};
      busy = std::move(*queues);
      log.ContentsKnown(memory.id);
    }
  }
  std::vector<Message> messages;
  if (index == 0 && !std::exchange(own.old_queue, true))
    messages.push_back(cl::Encode(cl::CreateQueue{.id = own.queue, .context = own.context, .device = own.device}));
  for (const std::uint32_t queue : busy) {
    markers.push_back(base_ + kMarkersAt + static_cast<std::uint32_t>(markers.size()));
    messages.push_back(cl::Encode(cl::Marker{.enqueue = {.queue = queue, .event = markers.back()}}));
    messages.push_back(cl::Encode(cl::Flush{.queue = queue}));
  }
  AddRead(item, index, piece, slot, markers, messages);
  for (const std::uint32_t marker : markers) messages.push_back(cl::Encode(cl::Release{.id = marker}));
  return messages;
}

}  // namespace weir::remote
