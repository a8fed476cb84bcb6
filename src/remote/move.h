// SPDX-License-Identifier: Apache-2.0
// Moves a connection's objects and their contents from one node to another (docs/migration.md).
//
//   CopyAhead   the client keeps running: its objects are created on the new node and their contents copied meanwhile
//   Finish      the client is paused: the remaining objects are created, and contents written since are copied
//
// If the migration fails, the old node can continue.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "opencl/channel/cl.h"
#include "remote/contents.h"
#include "remote/followed_sink.h"
#include "remote/fresh_node.h"
#include "remote/handshake.h"

namespace weir::remote {

struct Moved {
  std::size_t objects = 0;   // messages that recreated objects
  std::size_t memories = 0;  // memory objects with contents
  // Bytes of contents sent to the new node before and during the pause, and bytes that were not sent in the pause
  // because the new node had them.
  std::uint64_t bytes_before = 0, bytes_in_pause = 0, bytes_unchanged = 0;
  std::vector<std::vector<std::byte>> late;  // messages of the new executor for the client
  std::string drain_reason;                  // reason of a drain request of the new node; empty if there is none
};

/// The existing connection. Another thread passes the messages of `stream` to `sink`.
struct OldNode {
  Followed& followed;
  FollowedSink& sink;
  net::Stream& stream;
  std::uint64_t arena_bytes = 0;  // without the spare slots
  Duration reads_within{};        // a move ends when the node has taken no data for this long
};

/// The error of a move from a node that takes no data.
Error OldNodeReadsNothing(Duration within);

class Mover {
 public:
  using Message = std::vector<std::byte>;
  /// Returns messages to the old node.
  using Work = std::function<std::vector<Message>()>;
  /// Runs `work` between two messages of the client, after the old node was sent all earlier messages. What it returns
  /// is sent before the client's next message, and is not waited for. If it fails, `work` did not run: kUnavailable,
  /// the connection has ended; kTimeout, the old node reads nothing.
  using AtBoundary = std::function<Status(const Work& work)>;

  /// Moves to the executor behind `fresh`, which no other code may use meanwhile. `stop`: the connection is to end.
  Mover(OldNode old, const Entry& entry, net::Stream& fresh, InPump& fresh_in, const std::atomic<bool>& stop)
      : old_(old), entry_(entry), fresh_(fresh, fresh_in, stop), stop_(stop) {}

  /// Called at most once. Whatever it does not copy is copied by Finish. Errors concern the new node or the connection:
  /// kUnavailable, kTimeout, kVersionMismatch (different device), kResourceExhausted.
  Status CopyAhead(const AtBoundary& at_boundary);
  /// No message may be sent to the old node meanwhile. Errors as above, and kInvalidArgument with the reason why the
  /// program cannot be moved.
  Result<Moved> Finish();
  /// Whether Finish failed because of objects that CopyAhead has created, and could succeed without them.
  [[nodiscard]] bool in_the_way() const { return in_the_way_; }
  /// Messages for the old node if the client stays there: those that Finish could not send, and releases of the objects
  /// that the migration has created there.
  [[nodiscard]] std::vector<Message> Leavings() const;
  /// Sends Leavings to the old node. kTimeout: it reads nothing, and Leavings has the rest.
  Status Leave();

 private:
  using Memory = opencl::ObjectLog::Memory;
  struct Item {
    Memory memory;
    SentBlocks sent{};
    bool there = false;                  // exists on the new node since CopyAhead
    bool refused = false;                // a read before the pause has failed
    std::size_t pieces = 0, landed = 0;  // since the content was last requested
    [[nodiscard]] bool whole() const { return pieces > 0 && landed == pieces; }
  };
  /// The migration's own objects in a context. They have the same ids on both nodes.
  struct Own {
    std::uint32_t context = 0, device = 0, queue = 0, temporary = 0;
    bool old_queue = false, fresh_queue = false, temporaries = false;
  };
  /// A piece that was requested from the old node.
  struct Flying {
    std::uint64_t number = 0;  // of the memory object
    std::size_t index = 0;
    Piece piece{};
    unsigned slot = 0;
    std::uint32_t request = 0;
    bool ahead = false;
  };

  static constexpr std::uint64_t kPlaceAlignment = 4096;
  /// The migration's ids begin this far beyond the client's, which therefore seldom reach them: a pair of ids for each
  /// context, then markers.
  static constexpr std::uint32_t kIdsApart = 4096, kContextsMax = 1024, kMarkersMax = 1024;
  static constexpr std::uint32_t kMarkersAt = 2 * kContextsMax, kOwnIds = kMarkersAt + kMarkersMax;
  static constexpr std::uint64_t kHostMayNotRead = CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_WRITE_ONLY;
  static constexpr std::uint64_t kHostMayNotWrite = CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_READ_ONLY;

  Status Start();
  bool ChooseIds();
  /// Whether the client has not yet used ids that the migration has chosen for itself.
  [[nodiscard]] bool Mine() const;
  [[nodiscard]] std::uint64_t SpareAt(unsigned slot) const { return old_.arena_bytes + slot * kSpareSlotBytes; }
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
  std::vector<Message> AskAhead(const Item& item, std::size_t index, const Piece& piece, unsigned slot, Status& reads);

  Status AwaitOldNode();
  Status SendToOldNode(std::span<const Message> messages);
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
  bool stuck_ = false;  // no more reads before the pause: the old node did not answer in time
  bool paused_ = false;
  std::uint32_t base_ = 0;                             // first id of the migration's own objects
  std::map<std::uint64_t, Item> items_;                // by object number
  std::map<std::uint64_t, Own> own_;                   // by context number
  std::vector<opencl::ObjectLog::Standing> standing_;  // created on the new node before the pause
  std::vector<Message> unsent_;                        // to the old node, which did not read in time
  std::deque<Flying> flying_;                          // in the order of the requests
  unsigned next_slot_ = 1;                             // slot 0 backs the temporary buffers
  std::uint32_t writing_[kSpareSlots] = {};            // the request after which the new node no longer uses the slot
  std::uint32_t fresh_request_ = FollowedSink::kRequests;
  Moved moved_;
};

}  // namespace weir::remote
