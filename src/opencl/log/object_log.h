// SPDX-License-Identifier: Apache-2.0
// Follows one OpenCL connection by its messages, and can say at any moment what would make the client's objects anew on
// another executor, whose contents would have to be moved, and what is in flight (docs/migration.md).
//
//   messages of the client ────▶ ┌───────────┐ ──▶ Replay: messages that make its objects anew
//   messages of the executor ──▶ │ ObjectLog │ ──▶ Memory: contents that are to be moved
//   contents in the arena ─────▶ └───────────┘ ──▶ InFlight: what has not ended; Questions: how to learn that it has
//
// It does no I/O and reads no clock. One thread at a time.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "opencl/channel/limits.h"
#include "opencl/log/id_table.h"
#include "opencl/log/logged.h"

namespace weir::opencl {

class ObjectLog {
 public:
  using ByteView = proto::cl::ByteView;
  using Message = std::vector<std::byte>;
  /// The bytes of a range of the arena; of another length than `size` where it is not within the arena.
  using Arena = std::function<ByteView(std::uint64_t offset, std::uint64_t size)>;
  /// Places bytes that are too long for a message where the new executor finds them. Nothing: there is no room. They
  /// may go when all of the replay has been carried out.
  using Place = std::function<std::optional<proto::cl::Blob>(ByteView bytes)>;

  /// Numbers of requests of the log's own begin here. A client counts up from 1.
  static constexpr std::uint32_t kReplayRequests = 0xFFF00000, kQuestions = 0xFFE00000;
  /// Beyond all ids.
  static constexpr std::uint32_t kIdsEnd = kIdMax + 1;

  explicit ObjectLog(Arena arena);
  ObjectLog(const ObjectLog&) = delete;
  ObjectLog& operator=(const ObjectLog&) = delete;

  // -- Following. False: malformed, or not that side's to send; the connection is to end.

  /// Before the message goes on: what it refers to in the arena is read now.
  bool FromClient(ByteView message);
  bool FromExecutor(ByteView message);

  /// What has to be sent ahead of this message for its effects to be followed: a Finish, where a queue is released that
  /// may be busy. Mostly nothing.
  std::optional<Message> Ahead(ByteView message);
  /// Whether a message of the executor answers a question of the log's and is not for the client. To be asked before
  /// FromExecutor is called with it.
  [[nodiscard]] bool IsOwn(ByteView message) const;

  // -- What is in flight

  struct InFlight {
    std::uint64_t commands = 0;     // of queues, not known to have ended
    std::uint64_t lost_queues = 0;  // released while they may have been busy, without what Ahead says
    std::size_t requests = 0;       // not answered
    std::size_t tickets = 0;        // not freed, though nothing keeps them any more
    std::size_t ends_untold = 0;    // events of commands whose end is not known
    std::size_t errors_untold = 0;  // queues that have ended, and may owe an error that only a Finish tells
    std::size_t user_events = 0;    // not set; they keep nobody from moving, but commands may wait for them
    [[nodiscard]] bool none() const {
      return commands + lost_queues + requests + tickets + ends_untold + errors_untold == 0;
    }
  };
  [[nodiscard]] InFlight in_flight() const;
  /// What to send to the executor to be told of the end of all that is in flight. The log knows of them by this call;
  /// FromClient is not told of them.
  std::vector<Message> Questions();
  /// Where the connection stays with its executor after Questions: commands that fail as those did whose errors the
  /// answers have told to nobody. A replay has them in it.
  std::vector<Message> ErrorsOwed();

  // -- Contents

  using Contents = logged::Contents;
  /// A buffer or an image that has contents of its own, or a part of a buffer that the client has released.
  struct Memory {
    std::uint32_t id = 0;
    std::uint64_t number = 0;   // of the message that made it: no other object has it
    std::uint32_t context = 0;  // 0: the client has released that
    std::uint64_t context_number = 0;
    std::uint32_t device = 0;  // one of the context's, for a queue to read and to write it by; 0: released, too
    bool image = false;
    Contents contents = Contents::kNone;
    std::uint64_t flags = 0;        // cl_mem_flags: some forbid the host to read or to write
    std::uint64_t size = 0;         // in bytes; of an image, tightly packed; 0: of a format that we don't know
    std::uint64_t pixel_bytes = 0;  // of an image
    std::uint64_t extent[3] = {};   // of an image: a region that is all of it
    [[nodiscard]] bool must_move() const { return contents == Contents::kGiven || contents == Contents::kWritten; }
  };
  [[nodiscard]] std::vector<Memory> memories() const;
  /// The caller gets hold of what this memory object holds after all that the client has sent so far. It is kKnown
  /// until it is written to.
  void ContentsKnown(std::uint32_t id);
  /// Nobody has got hold of anything: what is kKnown is kWritten.
  void ForgetContents();
  /// Queues of the context under this id that may be at work: whoever reads its memory waits for these. Nothing: who is
  /// at work cannot be named, or may wait for the client.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> BusyQueues(std::uint32_t context) const;

  // -- Made ahead of a replay

  /// An object that a fresh executor has already, under the id that it has here.
  struct Standing {
    std::uint32_t id = 0;
    std::uint64_t number = 0;
    std::vector<std::uint64_t> builds{};  // of a program: the numbers of those that were carried out there
  };
  [[nodiscard]] bool Stands(const Standing& standing) const;
  /// What makes this object where all that it needs stands as it does here: a context of whole devices, a buffer or an
  /// image that is no part. Nothing: it is no such object.
  [[nodiscard]] std::optional<Message> MakerOf(std::uint32_t id) const;
  /// Programs that BuilderOf may know, and their contexts.
  [[nodiscard]] std::vector<std::pair<Standing, Standing>> Programs() const;
  /// No id of the client's is as large.
  [[nodiscard]] std::uint32_t ids_end() const { return slots_.end(); }

  // -- Replay

  struct Replay {
    std::vector<Message> messages;
    /// What the requests among them are answered with; the answers are not for the client, nor are notices meanwhile.
    struct Answer {
      std::uint32_t request = 0;
      std::int32_t status = 0;
    };
    std::vector<Answer> answers;
  };
  /// What makes a program and builds it as it is built now, where its context stands as it does here; requests are
  /// numbered from `first_request` on. `program` is told of the builds. Nothing: it is linked of others or includes
  /// them, a build was not answered yet, or there is no room.
  [[nodiscard]] std::optional<Replay> BuilderOf(Standing& program, std::uint32_t first_request,
                                                const Place& place) const;
  /// What a fresh executor has when it is sent a replay.
  struct MadeAhead {
    std::vector<Standing> standing{};
    std::uint32_t ids_end = kIdsEnd;  // ids from here on are the caller's
  };
  /// Makes on a fresh executor what the client has. Meant for when nothing is in flight: commands that are count as
  /// done. Nothing: no room for contents, or for ids, or what was made ahead stands in the way.
  [[nodiscard]] std::optional<Replay> MakeReplay(const Place& place, const MadeAhead& ahead) const;
  [[nodiscard]] std::optional<Replay> MakeReplay(const Place& place) const { return MakeReplay(place, MadeAhead()); }

  /// How many objects, builds and events it keeps, and the bytes of messages and contents; for tests and people.
  struct Kept {
    std::size_t objects = 0, builds = 0, events = 0, bytes = 0;
  };
  [[nodiscard]] Kept kept() const;

 private:
  using Object = logged::Object;
  using ObjectRef = logged::ObjectRef;
  using Kind = logged::Kind;

  struct Request {
    bool own = false;
    bool facts = false;  // the platform's, which come unasked
    ObjectRef queue{};   // of a Finish
    std::uint64_t place = 0;
    std::uint32_t program = 0;  // of a build: the id
    logged::BuildRef build{};
    std::weak_ptr<Object> linked{};
    std::shared_ptr<logged::Partition> partition{};
    Message body{};  // of those whose body tells something
  };

  void Do(proto::cl::CreateContext& m);
  void Do(proto::cl::CreateQueue& m);
  void Do(proto::cl::CreateBuffer& m);
  void Do(proto::cl::CreateSubBuffer& m);
  void Do(proto::cl::CreateImage& m);
  void Do(proto::cl::CreateSampler& m);
  void Do(proto::cl::CreateProgram& m);
  void Do(proto::cl::CreateProgramFromBinary& m);
  void Do(proto::cl::CreateKernel& m);
  void Do(proto::cl::CreateUserEvent& m);
  void Do(proto::cl::SetUserEvent& m);
  void Do(proto::cl::SetArg& m);
  void Do(proto::cl::Release& m);
  void Do(proto::cl::NdRange& m);
  void Do(proto::cl::Build& m);
  void Do(proto::cl::Compile& m);
  void Do(proto::cl::Link& m);
  void Do(proto::cl::CreateSubDevices& m);
  void Do(proto::cl::Finish& m);
  void Do(proto::cl::Watch& m);
  /// Any other command, and any other request.
  template <typename M>
  void Do(M& m);
  bool Answered(const proto::cl::Reply& m);
  void Ended(const proto::cl::EventDone& m);
  void Freed(std::uint64_t ticket);
  void Forget(std::uint32_t id, logged::Slot& slot);

  template <typename M>
  bool Fill(logged::Record& record, M& m, std::uint32_t& depth);
  template <typename M>
  ObjectRef Make(Kind kind, M& m);
  template <typename M>
  void MakeBuild(M& m);
  void Stand(std::uint32_t id, logged::Slot slot);
  void Command(const proto::cl::Enqueue& enqueue);
  void Written(std::uint32_t id);
  void Settle(const Request& request, std::int32_t status);
  bool TakePlatform(ByteView body);
  bool TakeParts(ByteView body, const std::shared_ptr<logged::Partition>& partition);
  void Expect(std::uint64_t ticket);
  [[nodiscard]] ObjectRef Find(Kind kind, std::uint32_t id) const;
  [[nodiscard]] Object* Look(Kind kind, std::uint32_t id) const;

  const Arena arena_;
  logged::IdTable<logged::Slot> slots_;
  std::map<std::uint32_t, std::vector<logged::BuildRef>> builds_;  // of the program with that id
  std::vector<ObjectRef> devices_;                                 // that were there from the start
  std::unordered_map<std::uint32_t, Request> requests_;
  std::unordered_multimap<std::uint64_t, std::weak_ptr<Object>> tickets_;  // of what they are the end
  std::unordered_set<std::uint32_t> own_watches_;                          // events that Questions has asked for
  std::uint64_t sequence_ = 0;                                             // messages of the client
  std::uint64_t known_ = 1;  // counts up when contents become known, so that kernels mark theirs again
  std::uint64_t lost_queues_ = 0;
  std::uint32_t next_question_ = kQuestions;
};

}  // namespace weir::opencl
