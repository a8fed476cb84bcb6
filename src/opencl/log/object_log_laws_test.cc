// SPDX-License-Identifier: Apache-2.0
// Properties of any sequence of messages, against a modelled executor that may also receive nonsense.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>

#include "proto/opencl_message_list.h"
#include "tests/harness/followed_connection.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;
using testing::FollowedConnection;
using testing::ModelKind;

/// One message, as numbers that are interpreted when it is sent: which op, which ids.
using Drawn = std::array<std::uint16_t, 6>;

class Player {
 public:
  explicit Player(FollowedConnection& on) : on_(on) {}

  void Play(const Drawn& drawn) {
    const std::uint32_t id = 2 + drawn[1] % 12;
    // Other objects may be replaced, although no client library does so. For a busy queue, nothing could be reported
    // any more.
    for (std::uint32_t taken = id; taken < id + 3; ++taken)
      if (const auto there = on_.executor.Any(taken); there && there->kind == ModelKind::kQueue)
        on_.Send(wire::Release{.id = taken});
    const unsigned op = drawn[0] % 24;
    if (op < 8) return Create(drawn, id);
    if (op < 16) return Change(drawn, id);
    if (op >= 18 && op < 23) return Ask(drawn, id);
    return Enqueue(drawn, id);
  }

 private:
  /// The messages 0 to 7.
  void Create(const Drawn& drawn, std::uint32_t id) {
    const auto& [op, a, b, c, d, e] = drawn;
    switch (op % 24) {
      case 0: {
        const std::uint32_t devices[] = {Pick(ModelKind::kDevice, b), Pick(ModelKind::kDevice, c)};
        return on_.Send(wire::CreateContext{.id = id, .devices = wire::IdList(devices, 1 + d % 2)});
      }
      case 1:
        return on_.Send(wire::CreateQueue{.id = id,
                                          .context = Pick(ModelKind::kContext, b),
                                          .device = Pick(ModelKind::kDevice, c),
                                          .properties = d % 2U});
      case 2:
        return on_.Send(wire::CreateBuffer{.id = id,
                                           .context = Pick(ModelKind::kContext, b),
                                           .flags = 1,
                                           .size = 1U + c,
                                           .offset = 4096U * d,
                                           .filled = static_cast<std::uint8_t>(e % 2)});
      case 3:
        return on_.Send(
            wire::CreateSubBuffer{.id = id, .parent = Pick(ModelKind::kMemory, b), .origin = c, .size = 1U + d});
      case 4:
        return on_.Send(wire::CreateImage{.id = id,
                                          .context = Pick(ModelKind::kContext, b),
                                          .width = 1U + c,
                                          .buffer = d % 2 == 0 ? 0 : Pick(ModelKind::kMemory, e),
                                          .content = wire::Blob::Inline(wire::BytesOf(e % 3 == 0 ? "pixels" : "")),
                                          .ticket = Ticket(e)});
      case 5: return on_.Send(wire::CreateSampler{.id = id, .context = Pick(ModelKind::kContext, b), .filter = c});
      case 6:
        return on_.Send(wire::CreateProgram{
            .id = id, .context = Pick(ModelKind::kContext, b), .source = Content(c, d), .ticket = Ticket(e)});
      default: {
        const std::uint32_t device = Pick(ModelKind::kDevice, c);
        return on_.Send(wire::CreateProgramFromBinary{.id = id,
                                                      .context = Pick(ModelKind::kContext, b),
                                                      .devices = wire::IdList(&device, 1),
                                                      .binary = Content(d, e)});
      }
    }
  }
  /// The messages 8 to 15.
  void Change(const Drawn& drawn, std::uint32_t id) {
    const auto& [op, a, b, c, d, e] = drawn;
    switch (op % 24) {
      case 8:
      case 9: return on_.Send(wire::CreateKernel{.id = id, .program = Pick(ModelKind::kProgram, b), .name = "k"});
      case 10: return on_.Send(wire::CreateUserEvent{.id = id, .context = Pick(ModelKind::kContext, b)});
      case 11: return on_.Send(wire::SetUserEvent{.id = Pick(ModelKind::kEvent, b), .status = -(c % 3)});
      case 12:
        return on_.Send(wire::SetArg{.kernel = Pick(ModelKind::kKernel, b),
                                     .index = c % 4U,
                                     .kind = 0,
                                     .data = wire::BytesOf(std::to_string(d))});
      case 13:
        return on_.Send(wire::SetArg{.kernel = Pick(ModelKind::kKernel, b),
                                     .index = c % 4U,
                                     .kind = static_cast<std::uint8_t>(d % 9 == 0 ? 7 : 1),
                                     .object = Pick(e % 4 == 0 ? ModelKind::kSampler : ModelKind::kMemory, e)});
      default: return on_.Send(wire::Release{.id = id, .ticket = Ticket(b)});
    }
  }
  /// The messages 16, 17 and 23.
  void Enqueue(const Drawn& drawn, std::uint32_t id) {
    const auto& [op, a, b, c, d, e] = drawn;
    switch (op % 24) {
      case 16:
        return on_.Send(wire::NdRange{.enqueue = {.queue = Pick(ModelKind::kQueue, b), .event = Event(c, id)},
                                      .kernel = Pick(ModelKind::kKernel, d)});
      case 17:
        return on_.Send(wire::WriteBuffer{.enqueue = {.queue = Pick(ModelKind::kQueue, b), .event = Event(c, id)},
                                          .buffer = Pick(ModelKind::kMemory, d),
                                          .ticket = Ticket(e)});
      default:
        if (b % 2 == 0) return on_.Send(wire::Watch{.event = Pick(ModelKind::kEvent, c)});
        return on_.Send(wire::Finish{.request = ++request_, .queue = Pick(ModelKind::kQueue, c)});
    }
  }
  /// The messages 18 to 22, which have an answer.
  void Ask(const Drawn& drawn, std::uint32_t id) {
    const auto& [op, a, b, c, d, e] = drawn;
    switch (op % 24) {
      case 18:
      case 19: {
        wire::Build build{.request = ++request_, .program = Pick(ModelKind::kProgram, b), .options = Options(c)};
        const std::uint32_t device = Pick(ModelKind::kDevice, e);
        if (d % 3 == 0) build.devices = wire::IdList(&device, 1);
        if (d % 4 == 0) build.headers.push_back({.name = "a.h", .content = Content(e, d), .ticket = Ticket(d)});
        return on_.Send(build);
      }
      case 20: {
        wire::Compile compile{.request = ++request_, .program = Pick(ModelKind::kProgram, b), .options = Options(c)};
        const std::uint32_t header = Pick(ModelKind::kProgram, e);
        if (d % 2 == 0) compile.header_programs = wire::IdList(&header, 1);
        if (d % 2 == 0) compile.header_names.push_back("h.h");
        return on_.Send(compile);
      }
      case 21: {
        const std::uint32_t inputs[] = {Pick(ModelKind::kProgram, c), Pick(ModelKind::kProgram, d)};
        return on_.Send(wire::Link{.request = ++request_,
                                   .id = id,
                                   .context = Pick(ModelKind::kContext, b),
                                   .options = Options(e),
                                   .programs = wire::IdList(inputs, 1 + e % 2)});
      }
      default: {
        const std::uint64_t properties[] = {CL_DEVICE_PARTITION_EQUALLY, 1U + b % 3, 0};
        return on_.Send(wire::CreateSubDevices{.request = ++request_,
                                               .device = Pick(ModelKind::kDevice, c),
                                               .first = id,
                                               .properties = wire::NumberList<std::uint64_t>(properties, 3)});
      }
    }
  }
  /// Usually the id of an object of that kind.
  std::uint32_t Pick(ModelKind kind, std::uint16_t drawn) const {
    const auto ids = on_.executor.IdsOf(kind);
    if (ids.empty() || drawn % 9 == 0) return drawn / 9 % 16;
    return ids[drawn / 9 % ids.size()];
  }
  static std::uint32_t Event(std::uint16_t drawn, std::uint32_t id) { return drawn % 2 == 0 ? id : 0; }
  std::uint64_t Ticket(std::uint16_t drawn) { return drawn % 3 == 0 ? ++tickets_ : 0; }
  static std::string_view Options(std::uint16_t drawn) {
    constexpr std::string_view kOptions[] = {"", "-DA", "-DB", "-DC", "fail", "refuse"};
    return kOptions[drawn % 6];
  }
  /// In the message or in the arena; rarely long, rarely outside.
  wire::Blob Content(std::uint16_t drawn, std::uint16_t where) {
    if (where % 3 != 0) {
      text_ = "content " + std::to_string(drawn);
      return wire::Blob::Inline(wire::BytesOf(text_));
    }
    auto& arena = on_.executor.arena;
    const std::uint64_t offset = 64U * (where % 1024), size = drawn % 5 == 0 ? 20'000 : 1 + drawn % 100;
    for (std::uint64_t i = 0; i < size; ++i) arena[offset + i] = static_cast<std::byte>('a' + (i + drawn) % 26);
    return wire::Blob::Arena(drawn % 31 == 0 ? arena.size() : offset, size);
  }

  FollowedConnection& on_;
  std::uint32_t request_ = 0;
  std::uint64_t tickets_ = 0;
  std::string text_;
};

RC_GTEST_PROP(ObjectLogLaws, AReplayMakesTheSameObjects, (const std::vector<Drawn>& drawn)) {
  FollowedConnection connection;
  Player player(connection);
  for (const Drawn& message : drawn) player.Play(message);
  connection.Settle();
  RC_ASSERT(connection.log.in_flight().none());
  FollowedConnection fresh;
  connection.ReplayInto(fresh);
  for (const auto& failing : connection.log.ErrorsOwed()) connection.SendUnseen(failing);
  RC_ASSERT(fresh.executor.Describe() == connection.executor.Describe());
}

/// Objects that are created on a new executor before the replay, and those whose contents are there.
class MadeAheadOn {
 public:
  explicit MadeAheadOn(FollowedConnection& fresh) : fresh_(fresh) {}

  /// Creates the programs and memory objects that `which` has a bit for, and their contexts.
  void Make(FollowedConnection& from, std::uint32_t which) {
    DropDead(from);
    for (auto [program, context] : from.log.Programs()) {
      which = which >> 1 | which << 31;
      const auto makes_context = from.log.MakerOf(context.id);
      if ((which & 1) == 0 || Has(program) || !makes_context) continue;
      std::uint64_t place = 256 << 10;
      const auto builder = from.log.BuilderOf(program, 1 + requests_, [&](wire::ByteView bytes) {
        std::ranges::copy(bytes, fresh_.executor.arena.begin() + static_cast<std::ptrdiff_t>(place));
        place += bytes.size();
        return std::optional(wire::Blob::Arena(place - bytes.size(), bytes.size()));
      });
      if (!builder) continue;
      Add(context, {*makes_context});
      Add(program, builder->messages);
      for (const auto& answer : builder->answers) ExpectAnswer(answer);
    }
    for (const auto& memory : from.log.memories()) {
      which = which >> 1 | which << 31;
      if ((which & 1) == 0 || memory.context == 0) continue;
      const auto context = from.log.MakerOf(memory.context), maker = from.log.MakerOf(memory.id);
      if (!context || !maker) continue;
      Add({.id = memory.context, .number = memory.context_number}, {*context});
      Add({.id = memory.id, .number = memory.number}, {*maker});
      testing::MoveContent(from.executor, fresh_.executor, memory.id);
      from.log.ContentsKnown(memory.id);
    }
  }
  [[nodiscard]] ObjectLog::MadeAhead made() const { return {.standing = standing_}; }
  [[nodiscard]] bool Has(const ObjectLog::Standing& standing) const {
    return std::ranges::any_of(standing_, [&](const auto& there) { return there.number == standing.number; });
  }

 private:
  void Add(const ObjectLog::Standing& standing, const std::vector<std::vector<std::byte>>& makers) {
    if (Has(standing)) return;
    std::erase_if(standing_, [&](const auto& other) { return other.id == standing.id; });
    for (const auto& maker : makers) fresh_.SendBytes(maker);
    standing_.push_back(standing);
  }
  void ExpectAnswer(const ObjectLog::Replay::Answer& expected) {
    requests_ = std::max(requests_, expected.request);
    bool answered = false;
    for (const auto& message : fresh_.to_client) {
      wire::Header header;
      wire::Reply reply;
      wire::ReadHeader(message, header);
      if (header.op == wire::Reply::kOp && wire::Decode(message, reply) && reply.request == expected.request)
        answered = reply.status == expected.status;
    }
    EXPECT_TRUE(answered) << expected.request;
  }
  /// Contexts stay, because other objects may have been created from them.
  void DropDead(const FollowedConnection& from) {
    std::erase_if(standing_, [&](const auto& there) {
      const auto object = fresh_.executor.Any(there.id);
      if (!object || object->kind != ModelKind::kMemory || from.log.Stands(there)) return false;
      fresh_.Send(wire::Release{.id = there.id});
      return true;
    });
  }
  FollowedConnection& fresh_;
  std::vector<ObjectLog::Standing> standing_;
  std::uint32_t requests_ = 0;
};

RC_GTEST_PROP(ObjectLogLaws, ObjectsMadeInAdvanceChangeNothing,
              (const std::vector<Drawn>& first, const std::vector<Drawn>& then, const std::vector<Drawn>& at_last,
               std::uint32_t drawn)) {
  const std::uint32_t which = drawn * 0x9E3779B1U;  // rapidcheck draws mostly small numbers
  FollowedConnection connection, fresh;
  Player player(connection);
  MadeAheadOn ahead(fresh);
  // Initial objects, because a short sequence creates few.
  connection.Send(wire::CreateContext{.id = 2, .devices = wire::IdList(&testing::ModelExecutor::kDevice, 1)});
  connection.Send(
      wire::CreateProgram{.id = 3, .context = 2, .source = wire::Blob::Inline(wire::BytesOf("of the beginning"))});
  connection.Send(wire::Build{.request = 9000, .program = 3});
  for (const std::uint32_t id : {4U, 5U, 6U})
    connection.Send(wire::CreateBuffer{.id = id, .context = 2, .size = 64, .offset = 4096U * id, .filled = 1});
  for (const Drawn& message : first) player.Play(message);
  ahead.Make(connection, which);
  for (const Drawn& message : then) player.Play(message);
  ahead.Make(connection, ~which);
  for (const Drawn& message : at_last) player.Play(message);
  connection.Settle();
  const auto replay = connection.MakeReplay(&fresh.executor, ahead.made());
  RC_CLASSIFY(!replay, "in the way");
  if (!replay) return;
  RC_CLASSIFY(!ahead.made().standing.empty(), "of use");
  const bool answered = connection.ReplayInto(fresh, *replay);
  // Known contents have another id if only parts of the object are left.
  for (const auto& memory : connection.log.memories())
    if (!ahead.Has({.number = memory.number})) testing::MoveContent(connection.executor, fresh.executor, memory.id);
  FollowedConnection without;
  connection.log.ForgetContents();
  RC_ASSERT(connection.ReplayInto(without, connection.MakeReplay(&without.executor)) == answered);
  RC_ASSERT(fresh.executor.Describe() == without.executor.Describe());
}

RC_GTEST_PROP(ObjectLogLaws, AReplayReplaysToItself, (const std::vector<Drawn>& drawn)) {
  FollowedConnection connection;
  Player player(connection);
  for (const Drawn& message : drawn) player.Play(message);
  connection.Settle();
  FollowedConnection first, second;
  connection.ReplayInto(first);
  first.Settle();
  first.ReplayInto(second);
  second.Settle();
  const auto once = first.MakeReplay(), twice = second.MakeReplay();
  RC_ASSERT(once.messages == twice.messages);
  // Memory is bounded by what the client has: a long history leaves no more than this short one.
  const auto kept = connection.log.kept();
  RC_ASSERT(kept.objects <= first.log.kept().objects + kept.events + 6 * kept.builds);
  RC_ASSERT(kept.builds <= 4 * kept.objects);
  RC_ASSERT(kept.events >= first.log.kept().events);
}

RC_GTEST_PROP(ObjectLogLaws, KeepsNothingOfReleasedObjects, (const std::vector<Drawn>& drawn)) {
  FollowedConnection connection;
  Player player(connection);
  for (const Drawn& message : drawn) player.Play(message);
  for (std::uint32_t id = 1; id < 24; ++id) connection.Send(wire::Release{.id = id});
  connection.Settle();
  const auto kept = connection.log.kept();
  RC_ASSERT(kept.objects == 0U);
  RC_ASSERT(kept.builds == 0U);
  RC_ASSERT(kept.events == 0U);
  RC_ASSERT(kept.bytes == 0U);
  RC_ASSERT(connection.log.in_flight().none());
}

// Contents that need not be moved equal those that a new executor creates, and no contents are reported for missing
// objects.
RC_GTEST_PROP(ObjectLogLaws, ContentsThatMatterAreMoved, (const std::vector<Drawn>& drawn)) {
  FollowedConnection connection;
  Player player(connection);
  for (const Drawn& message : drawn) player.Play(message);
  std::set<const testing::ModelObject*> moved;
  for (const auto& memory : connection.log.memories()) {
    const auto object = connection.executor.Any(memory.id);
    RC_ASSERT(object && object->kind == ModelKind::kMemory);
    if (memory.must_move()) moved.insert(&object->root());
  }
  for (const std::uint32_t id : connection.executor.IdsOf(ModelKind::kMemory)) {
    const auto memory = connection.executor.Any(id);
    if (memory->root().content != 0 && !memory->failed) RC_ASSERT(moved.contains(&memory->root()));
  }
}

RC_GTEST_PROP(ObjectLogLaws, MalformedBytesHarmNothing,
              (const std::vector<Drawn>& drawn, const std::vector<std::pair<std::uint16_t, std::uint8_t>>& changes)) {
  FollowedConnection connection;
  Player player(connection);
  for (const Drawn& message : drawn) player.Play(message);
  std::vector<std::byte> bytes = wire::Encode(wire::Build{.request = 7, .program = 4, .options = "-DX"});
  for (const auto& [at, value] : changes) bytes[8 + at % (bytes.size() - 8)] = static_cast<std::byte>(value);
  for (std::uint16_t op = 0; op < 110; ++op) {
    std::memcpy(bytes.data() + 4, &op, sizeof op);
    static_cast<void>(connection.log.Ahead(bytes));
    static_cast<void>(connection.log.FromClient(bytes));
    static_cast<void>(connection.log.IsOwn(bytes));
    static_cast<void>(connection.log.FromExecutor(bytes));
  }
  static_cast<void>(connection.MakeReplay());
}

}  // namespace
}  // namespace weir::opencl
