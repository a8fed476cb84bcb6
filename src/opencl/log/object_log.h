// SPDX-License-Identifier: Apache-2.0
// Follows one OpenCL connection by its messages. At any moment it can state which messages recreate the client's
// objects on another executor, which contents have to be moved, and what is in flight (docs/migration.md).
//
//   messages of the client ────▶ ┌───────────┐ ──▶ Replay: messages that recreate the objects
//   messages of the executor ──▶ │ ObjectLog │ ──▶ Memory: contents that have to be moved
//   contents in the arena ─────▶ └───────────┘ ──▶ InFlight: what has not ended; Questions: messages that find out
//
// Pure: does no I/O and reads no clock. Not thread-safe.
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
  /// Returns the bytes of a range of the arena. The result is shorter than `size` if the range exceeds the arena.
  using Arena = std::function<ByteView(std::uint64_t offset, std::uint64_t size)>;
  /// Stores bytes that are too long for a message where the new executor finds them. Nullopt: no room. They may be
  /// freed once the whole replay has been carried out.
  using Place = std::function<std::optional<proto::cl::Blob>(ByteView bytes)>;

  /// First numbers of the log's own requests. Clients count up from 1.
  static constexpr std::uint32_t kReplayRequests = 0xFFF00000, kQuestions = 0xFFE00000;
  /// Greater than all ids.
  static constexpr std::uint32_t kIdsEnd = kIdMax + 1;

  /// `questions_end`: the log's questions have the numbers from kQuestions to here. Tests give fewer, because counting
  /// through all of them takes long.
  explicit ObjectLog(Arena arena, std::uint32_t questions_end = kReplayRequests);
  ObjectLog(const ObjectLog&) = delete;
  ObjectLog& operator=(const ObjectLog&) = delete;

  // -- Following. False: the message is malformed or comes from the wrong side, and the connection has to end.

  /// Called before the message is forwarded, because the contents that it refers to in the arena are read now.
  bool FromClient(ByteView message);
  bool FromExecutor(ByteView message);

  /// Returns a message that has to be sent before this one so that its effects can be followed: a Finish before the
  /// release of a queue that may be busy. Usually there is none.
  std::optional<Message> Ahead(ByteView message);
  /// Whether a message of the executor answers one of the log's own questions and is not meant for the client. Must be
  /// called before FromExecutor.
  [[nodiscard]] bool IsOwn(ByteView message) const;

  // -- What is in flight

  struct InFlight {
    std::uint64_t commands = 0;     // of queues, not known to have ended
    std::uint64_t lost_queues = 0;  // queues released while possibly busy, without the message of Ahead
    std::size_t requests = 0;       // not answered
    std::size_t tickets = 0;        // not freed, although no object needs them
    std::size_t ends_untold = 0;    // events of commands whose end is not known
    // Queues whose commands have ended, but that may have an error which only a Finish reports
    std::size_t errors_untold = 0;
    std::size_t user_events = 0;  // not set; they do not prevent a migration, but commands may wait for them
    [[nodiscard]] bool none() const {
      return commands + lost_queues + requests + tickets + ends_untold + errors_untold == 0;
    }
  };
  [[nodiscard]] InFlight in_flight() const;
  /// Messages to the executor that find out when everything in flight has ended. The log records them here; they must
  /// not be passed to FromClient.
  std::vector<Message> Questions();
  /// For a connection that stays with its executor after Questions. The commands fail like those whose errors the
  /// answers to the questions consumed. A replay already contains them.
  std::vector<Message> ErrorsOwed();

  // -- Contents

  using Contents = logged::Contents;
  /// A buffer or an image with contents of its own, or a sub-buffer whose parent the client has released.
  struct Memory {
    std::uint32_t id = 0;
    std::uint64_t number = 0;   // number of the message that created it; unique
    std::uint32_t context = 0;  // 0: released by the client
    std::uint64_t context_number = 0;
    std::uint32_t device = 0;  // a device of the context, for the queue that reads and writes the object; 0: released
    bool image = false;
    Contents contents = Contents::kNone;
    std::uint64_t flags = 0;        // cl_mem_flags; some forbid the host to read or to write
    std::uint64_t size = 0;         // bytes; of an image, tightly packed; 0: unknown format
    std::uint64_t pixel_bytes = 0;  // images only
    std::uint64_t extent[3] = {};   // images only: the region of the whole image
    [[nodiscard]] bool must_move() const { return contents == Contents::kGiven || contents == Contents::kWritten; }
  };
  [[nodiscard]] std::vector<Memory> memories() const;
  /// Records that the caller will have a copy of the object's contents as they are after all messages sent so far. The
  /// object is kKnown until it is written to.
  void ContentsKnown(std::uint32_t id);
  /// Records that the copies no longer exist: kKnown becomes kWritten.
  void ForgetContents();
  /// The queues of a context that may be busy. A reader of the context's memory has to wait for them. Nullopt: a busy
  /// queue has no id, or may wait for the client.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> BusyQueues(std::uint32_t context) const;

  // -- Objects created before a replay

  /// An object that exists on the new executor under the same id.
  struct Standing {
    std::uint32_t id = 0;
    std::uint64_t number = 0;
    std::vector<std::uint64_t> builds{};  // of a program: numbers of the builds carried out there
  };
  [[nodiscard]] bool Stands(const Standing& standing) const;
  /// The message that creates this object if everything it needs exists under the same ids: a context of root devices,
  /// or a buffer or image that is not a part. Nullopt: the object is of another kind.
  [[nodiscard]] std::optional<Message> MakerOf(std::uint32_t id) const;
  /// Programs for BuilderOf, and their contexts.
  [[nodiscard]] std::vector<std::pair<Standing, Standing>> Programs() const;
  /// Greater than all ids of the client.
  [[nodiscard]] std::uint32_t ids_end() const { return slots_.end(); }

  // -- Replay

  struct Replay {
    std::vector<Message> messages;
    /// The expected answers to requests of the messages. Neither the answers nor notices during a replay go to the
    /// client.
    struct Answer {
      std::uint32_t request = 0;
      std::int32_t status = 0;
    };
    std::vector<Answer> answers;
  };
  /// The messages that create and build a program as it is built now, if its context exists under the same id. Requests
  /// are numbered from `first_request`. The builds are added to `program`. Nullopt: the program links or includes other
  /// programs, a build is unanswered, or there is no room.
  [[nodiscard]] std::optional<Replay> BuilderOf(Standing& program, std::uint32_t first_request,
                                                const Place& place) const;
  /// The objects that the new executor has before it receives a replay.
  struct MadeAhead {
    std::vector<Standing> standing{};
    std::uint32_t ids_end = kIdsEnd;  // ids from here on belong to the caller
  };
  /// Recreates the client's objects on a new executor. Intended for when nothing is in flight: unfinished commands
  /// count as done. Nullopt: no room for contents or ids, or an object created before the replay prevents it.
  [[nodiscard]] std::optional<Replay> MakeReplay(const Place& place, const MadeAhead& ahead) const;
  [[nodiscard]] std::optional<Replay> MakeReplay(const Place& place) const { return MakeReplay(place, MadeAhead()); }

  /// The number of objects, builds and events that the log keeps, and the bytes of messages and contents. For tests and
  /// statistics.
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
    bool facts = false;         // the platform's facts, which come without a request
    ObjectRef queue{};          // of a Finish
    std::uint64_t place = 0;    // of a Finish: the last command of the queue that it covers
    std::uint32_t program = 0;  // id of the program of a build
    logged::BuildRef build{};
    std::weak_ptr<Object> linked{};
    std::shared_ptr<logged::Partition> partition{};
    Message body{};  // collected body, if the log needs it
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
  /// All other commands and requests.
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
  /// Gives the id to an object or event, even if another one has it.
  void Stand(std::uint32_t id, logged::Slot slot);
  void Command(const proto::cl::Enqueue& enqueue);
  /// Records that a command may write to the memory object.
  void Written(std::uint32_t id);
  /// Records the result of a request that has been answered.
  void Settle(const Request& request, std::int32_t status);
  bool TakePlatform(ByteView body);
  bool TakeParts(ByteView body, const std::shared_ptr<logged::Partition>& partition);
  void Expect(std::uint64_t ticket);
  /// Records and returns a Finish of the log's own, with a number that no request in flight has. Nullopt: there are as
  /// many requests in flight as numbers, and the queue's end stays unknown for now.
  std::optional<Message> AskForEnd(std::uint32_t queue);
  [[nodiscard]] ObjectRef Find(Kind kind, std::uint32_t id) const;
  [[nodiscard]] Object* Look(Kind kind, std::uint32_t id) const;

  const Arena arena_;
  const std::uint32_t questions_end_;
  logged::IdTable<logged::Slot> slots_;
  std::map<std::uint32_t, std::vector<logged::BuildRef>> builds_;  // by the program's id
  std::vector<ObjectRef> devices_;                                 // root devices
  std::unordered_map<std::uint32_t, Request> requests_;
  // Tickets that are not freed yet, each with the memory object whose release carries it; expired: no object needs it
  std::unordered_multimap<std::uint64_t, std::weak_ptr<Object>> tickets_;
  std::unordered_set<std::uint32_t> own_watches_;  // events that Questions watches
  std::uint64_t sequence_ = 0;                     // number of client messages
  std::uint64_t known_ = 1;  // counts up when contents become known, so that kernels mark theirs again
  std::uint64_t lost_queues_ = 0;
  std::uint32_t next_question_ = kQuestions;
};

}  // namespace weir::opencl
