// SPDX-License-Identifier: Apache-2.0
#include "proto/attach_messages.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/harness/golden.h"

namespace weir::proto {
namespace {

Hello KnownHello() { return {1, 0, Api::kGl, "glxgears"}; }
Welcome KnownWelcome() {
  Welcome welcome{0x0102030405060708, 0x1112131415161718, 4096, 66'048, {}};
  welcome.device_cpus[0] = 0x2122232425262728;
  for (std::size_t i = 1; i < welcome.device_cpus.size(); ++i) welcome.device_cpus[i] = 0x3000000000000000 + i;
  return welcome;
}
Refusal KnownRefusal() { return {Errc::kPermissionDenied, "user 1001 may not attach"}; }
Command KnownCommand() { return {0x0102030405060708, CommandKind::kEvict, 0x1112131415161718}; }
Ack KnownAck() { return {0x0102030405060708, Errc::kInvalidArgument, true}; }

const std::vector<std::pair<const char*, AttachMessage>>& KnownMessages() {
  static const std::vector<std::pair<const char*, AttachMessage>> messages{{"attach_v1_hello.hex", KnownHello()},
                                                                           {"attach_v1_welcome.hex", KnownWelcome()},
                                                                           {"attach_v1_refusal.hex", KnownRefusal()},
                                                                           {"attach_v1_command.hex", KnownCommand()},
                                                                           {"attach_v1_ack.hex", KnownAck()}};
  return messages;
}

Errc CodeOf(const Result<AttachMessage>& result) {
  EXPECT_FALSE(result.has_value());
  return result ? Errc::kInternal : result.error().code;
}

/// A copy of the packet with `value` written at offset `at`.
template <typename T>
std::vector<std::byte> With(std::vector<std::byte> packet, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    packet.at(at + i) = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
  return packet;
}

// -- What was published ----------------------------------------------------------------------------------------------

TEST(AttachMessages, EachIsEncodedIntoItsGoldenBytes) {
  for (const auto& [golden, message] : KnownMessages()) testing::ExpectGolden(golden, Encode(message));
}

TEST(AttachMessages, GoldenBytesAreDecodedIntoEach) {
  for (const auto& [golden, message] : KnownMessages()) {
    const auto decoded = Decode(testing::ReadGolden(golden).bytes);
    ASSERT_TRUE(decoded) << golden << ": " << decoded.error().message;
    EXPECT_EQ(*decoded, message) << golden;
  }
}

TEST(AttachMessages, AllFitThePacketBound) {
  EXPECT_LE(Encode(Hello{1, 0, Api::kModule, std::string(1000, 'x')}).size(), kAttachMessageBytesMax);
  EXPECT_LE(Encode(Refusal{Errc::kInternal, std::string(1000, 'x')}).size(), kAttachMessageBytesMax);
  EXPECT_LE(Encode(Welcome{}).size(), kAttachMessageBytesMax);
}

// -- decode(encode(x)) == x ------------------------------------------------------------------------------------------

std::string TextOfAtMost(std::size_t max) {
  const auto text = *rc::gen::arbitrary<std::string>();
  return text.substr(0, max);
}

RC_GTEST_PROP(AttachMessages, HelloSurvivesTheRoundTrip, (std::uint16_t major, std::uint16_t minor)) {
  const Hello hello{major, minor, static_cast<Api>(*rc::gen::inRange(0, kApiMax + 1)), TextOfAtMost(63)};
  RC_ASSERT(*Decode(Encode(hello)) == AttachMessage{hello});
}
RC_GTEST_PROP(AttachMessages, WelcomeSurvivesTheRoundTrip,
              (std::uint64_t vgpu, std::uint64_t process, std::uint64_t a, std::uint64_t b, CpuMask cpus)) {
  const Welcome welcome{vgpu, process, a, b, cpus};
  RC_ASSERT(*Decode(Encode(welcome)) == AttachMessage{welcome});
}
RC_GTEST_PROP(AttachMessages, RefusalSurvivesTheRoundTrip, ()) {
  const auto code = *rc::gen::inRange(std::size_t{0}, kErrcTable.size());
  const Refusal refusal{static_cast<Errc>(code), TextOfAtMost(255)};
  RC_ASSERT(*Decode(Encode(refusal)) == AttachMessage{refusal});
}
RC_GTEST_PROP(AttachMessages, CommandSurvivesTheRoundTrip, (std::uint64_t sequence, std::uint64_t argument)) {
  const Command command{sequence, static_cast<CommandKind>(*rc::gen::inRange(1, kCommandKindMax + 1)), argument};
  RC_ASSERT(*Decode(Encode(command)) == AttachMessage{command});
}
RC_GTEST_PROP(AttachMessages, AckSurvivesTheRoundTrip, (std::uint64_t sequence, bool done)) {
  const auto code = *rc::gen::inRange(std::size_t{0}, kErrcTable.size());
  const Ack ack{sequence, static_cast<Errc>(code), done};
  RC_ASSERT(*Decode(Encode(ack)) == AttachMessage{ack});
}

// -- What a peer may get wrong ---------------------------------------------------------------------------------------

TEST(AttachMessages, EveryStrictPrefixIsRefused) {
  for (const auto& [name, message] : KnownMessages()) {
    const auto whole = Encode(message);
    for (std::size_t size = 0; size < whole.size(); ++size)
      EXPECT_EQ(CodeOf(Decode(std::span(whole).first(size))),
                size >= 4 && size < 6 ? Errc::kVersionMismatch : Errc::kProtocol)
          << name << ", " << size << " bytes";
  }
}

TEST(AttachMessages, TrailingBytesOfALaterVersionAreSkipped) {
  for (const auto& [name, message] : KnownMessages()) {
    auto longer = Encode(message);
    longer.resize(kAttachMessageBytesMax, std::byte{0xA5});
    const auto decoded = Decode(longer);
    ASSERT_TRUE(decoded) << name << ": " << decoded.error().message;
    EXPECT_EQ(*decoded, message) << name;
  }
}

TEST(AttachMessages, APacketBeyondTheBoundIsRefused) {
  auto longer = Encode(KnownHello());
  longer.resize(kAttachMessageBytesMax + 1);
  EXPECT_EQ(CodeOf(Decode(longer)), Errc::kProtocol);
}

TEST(AttachMessages, AnotherMagicIsRefused) {
  for (std::size_t at = 0; at < 4; ++at)
    EXPECT_EQ(CodeOf(Decode(With(Encode(KnownHello()), at, std::uint8_t{0}))), Errc::kProtocol);
}

TEST(AttachMessages, AnotherVersionIsRefusedAsSuchWhateverFollows) {
  for (const std::uint16_t version : {0, 2, 65'535})
    for (const auto& [name, message] : KnownMessages())
      EXPECT_EQ(CodeOf(Decode(With(Encode(message), 4, version))), Errc::kVersionMismatch) << name;
}

TEST(AttachMessages, AnUnknownTypeIsRefused) {
  for (const std::uint16_t type : {0, 6, 255, 65'535})
    EXPECT_EQ(CodeOf(Decode(With(Encode(KnownWelcome()), 6, type))), Errc::kProtocol) << type;
}

TEST(AttachMessages, ValuesOutOfRangeAreRefused) {
  const auto refused = [](const AttachMessage& message, std::size_t at, auto value) {
    EXPECT_EQ(CodeOf(Decode(With(Encode(message), at, value))), Errc::kProtocol) << "at " << at << ": " << +value;
  };
  for (const std::uint16_t api : {kApiMax + 1, 65'535}) refused(KnownHello(), 12, api);
  for (const std::uint16_t code : {12, 65'535}) {
    refused(KnownRefusal(), 8, code);
    refused(KnownAck(), 16, code);
  }
  for (const std::uint16_t kind : {0, kCommandKindMax + 1, 65'535}) refused(KnownCommand(), 16, kind);
  for (const std::uint8_t flag : {2, 255}) refused(KnownAck(), 18, flag);
}

TEST(AttachMessages, AProgramNameBeyondItsBoundIsRefused) {
  auto packet = Encode(Hello{1, 0, Api::kGl, std::string(63, 'p')});
  packet.push_back(std::byte{'p'});
  EXPECT_EQ(CodeOf(Decode(With(packet, 14, std::uint8_t{64}))), Errc::kProtocol);
}

TEST(AttachMessages, OverlongTextIsCut) {
  const auto hello = Decode(Encode(Hello{1, 0, Api::kGl, std::string(64, 'p')}));
  EXPECT_EQ(std::get<Hello>(*hello).program, std::string(63, 'p'));
  const auto refusal = Decode(Encode(Refusal{Errc::kBusy, std::string(256, 'r')}));
  EXPECT_EQ(std::get<Refusal>(*refusal).reason, std::string(255, 'r'));
}

RC_GTEST_PROP(AttachMessages, ArbitraryBytesNeverCrashTheDecoder, (const std::vector<std::uint8_t>& bytes)) {
  auto packet = Encode(KnownHello());
  packet.resize(6);  // past magic and version, so that the bodies are decoded
  for (const std::uint8_t byte : bytes) packet.push_back(static_cast<std::byte>(byte));
  const auto decoded = Decode(packet);
  if (decoded) RC_ASSERT(*Decode(Encode(*decoded)) == *decoded);
}

}  // namespace
}  // namespace weir::proto
