// SPDX-License-Identifier: Apache-2.0
// Moves a connection's objects and their contents from one node to another (docs/migration.md).
//
//   CopyAhead   the client's messages go on: contents are copied between them, to objects that are made for them there
//   Finish      they have stopped: the rest is made, and what was written since is copied
//
// Whatever fails, the old node can go on.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "opencl/channel/cl.h"
#include "remote/contents.h"
#include "remote/followed_sink.h"
#include "remote/fresh_node.h"
#include "remote/handshake.h"

namespace weir::remote {

struct Moved {
  std::size_t objects = 0;   // messages that made them anew
  std::size_t memories = 0;  // that have contents
  // Of contents, sent to the new node while the client's messages passed, and since they had stopped; and not sent
  // then, because it had them.
  std::uint64_t bytes_before = 0, bytes_in_pause = 0, bytes_unchanged = 0;
  std::vector<std::vector<std::byte>> late;  // what the new executor has said meanwhile and is the client's
  std::string leave_why;                     // why the new node asks to be left; empty: it does not
};

/// The connection as it is: what is behind `stream` speaks into `sink`, by another thread.
struct OldNode {
  Followed& followed;
  FollowedSink& sink;
  net::Stream& stream;
  std::uint64_t arena_bytes = 0;  // of the client's
};

class Mover {
 public:
  using Message = std::vector<std::byte>;
  /// Carries `work` out between two messages of the client, when the old node has been sent all before. False: the
  /// connection has ended, and it was not carried out.
  using AtBoundary = std::function<bool(const std::function<void()>& work)>;

  /// To the executor behind `fresh`, which nobody else reads or writes. `stop`: the connection is to end.
  Mover(OldNode old, const Entry& entry, net::Stream& fresh, InPump& fresh_in, const std::atomic<bool>& stop)
      : old_(old), entry_(entry), fresh_(fresh, fresh_in, stop), stop_(stop) {}

  /// Once, or not at all. What it does not manage is left to the pause; errors are of the new node, or of the
  /// connection: kUnavailable, kTimeout, kVersionMismatch (another device), kResourceExhausted.
  Status CopyAhead(const AtBoundary& at_boundary);
  /// Nobody sends to the old node meanwhile. As above; kInvalidArgument: what can't be moved, in words.
  Result<Moved> Finish();
  /// Finish has failed by what CopyAhead has made, and would not without.
  [[nodiscard]] bool in_the_way() const { return in_the_way_; }
  /// What frees the old node of what was made there for this.
  [[nodiscard]] std::vector<Message> Leavings() const;

 private:
  using Memory = opencl::ObjectLog::Memory;
  struct Item {
    Memory memory;
    SentBlocks sent{};
    bool there = false;                  // made ahead
    bool refused = false;                // reading it ahead has failed
    std::size_t pieces = 0, landed = 0;  // since they were last asked for
    [[nodiscard]] bool whole() const { return pieces > 0 && landed == pieces; }
  };
  /// What is ours in a context, on either node under the same ids.
  struct Own {
    std::uint32_t context = 0, device = 0, queue = 0, temporary = 0;
    bool old_queue = false, fresh_queue = false, temporaries = false;
  };
  /// A piece that the old node was asked for.
  struct Flying {
    std::uint64_t number = 0;  // of the memory object
    std::size_t index = 0;
    Piece piece{};
    unsigned slot = 0;
    std::uint32_t request = 0;
    bool ahead = false;
  };

  static constexpr std::uint64_t kPlaceAlignment = 4096;
  /// Ids of ours begin so far beyond the client's that it seldom comes there: a pair for each context, then markers.
  static constexpr std::uint32_t kIdsApart = 4096, kContextsMax = 1024, kMarkersMax = 1024;
  static constexpr std::uint32_t kMarkersAt = 2 * kContextsMax, kOwnIds = kMarkersAt + kMarkersMax;
  static constexpr std::uint64_t kHostMayNotRead = CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_WRITE_ONLY;
  static constexpr std::uint64_t kHostMayNotWrite = CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_READ_ONLY;

  Status Start();
  bool ChooseIds();
  [[nodiscard]] bool Mine() const;
  [[nodiscard]] std::uint64_t SpareAt(unsigned slot) const { return old_.arena_bytes + slot * kSlotBytes; }
  [[nodiscard]] bool WasMade(const Memory& memory) const { return memory.size > 0 && memory.size <= old_.arena_bytes; }
  Item& ItemOf(const Memory& memory);
  Own* OwnIn(const Memory& memory);

  void StandAhead(opencl::ObjectLog::Standing standing);
  bool AddContext(const opencl::ObjectLog::Standing& context, std::vector<Message>& messages);
  Status BuildAhead();
  Status BuildOneAhead(opencl::ObjectLog::Standing program, const opencl::ObjectLog::Standing& context);
  std::vector<std::uint64_t> DirtyAhead(std::uint64_t& bytes);
  Status CopyItemAhead(std::uint64_t number, const AtBoundary& at_boundary);
  Status DropDead();
  Result<bool> MakeAhead(Item& item);
  bool AskAhead(const Item& item, std::size_t index, const Piece& piece, unsigned slot, Status& sent);

  Status AwaitQuiet();
  Status Replay();
  Status MoveContents();
  Status MoveItem(Item& item);
  Status MakeOwn(const Item& item, Own& own);

  Result<unsigned> FreeSlot(std::size_t flying_most);
  void AddRead(const Item& item, std::size_t index, const Piece& piece, unsigned slot,
               std::span<const std::uint32_t> waits, std::vector<Message>& messages);
  Status Land();
  Status LandAll();
  Status Write(Item& item, const Flying& landed, std::span<const std::byte> bytes);
  void AddWrite(const Item& item, const Own& own, const Piece& piece, const SentBlocks::Run& run, unsigned slot,
                std::vector<Message>& messages) const;

  const OldNode old_;
  const Entry entry_;
  FreshNode fresh_;
  const std::atomic<bool>& stop_;
  bool started_ = false, in_the_way_ = false;
  bool stuck_ = false;  // the old node is asked for no more ahead
  bool paused_ = false;
  std::uint32_t base_ = 0;                             // ids from here on are ours
  std::map<std::uint64_t, Item> items_;                // by their numbers
  std::map<std::uint64_t, Own> own_;                   // by the contexts'
  std::vector<opencl::ObjectLog::Standing> standing_;  // made ahead
  std::deque<Flying> flying_;                          // in the order in which they were asked for
  unsigned next_slot_ = 1;                             // 0 is the temporaries' range
  std::uint32_t writing_[kSlots] = {};                 // the request that ends the new node's use of a slot
  std::uint32_t fresh_request_ = FollowedSink::kRequests;
  Moved moved_;
};

}  // namespace weir::remote
