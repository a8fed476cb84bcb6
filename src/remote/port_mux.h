// SPDX-License-Identifier: Apache-2.0
// Multiplexes streams over a port, which is a single stream of bytes. The port's other end may disappear and return in
// the middle of a frame (docs/protocol/network.md, "A guest's port"). Does no I/O and reads no clock.
//
//                          ┌── a Hello that echoes ours ──▶ joined: streams
//   opened ──▶ searching ──┤                                  │
//                 ▲        └── anything else is skipped       │
//                 └── no frame, another's Hello, silence ◀────┘   every stream has ended
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "proto/port_frames.h"

namespace weir::remote {

inline constexpr Duration kPortHelloAgain = milliseconds(500);  // interval of Hellos while there is no answer
inline constexpr Duration kPortStillHere = seconds(2);    // the longest time without sending; then a Hello is sent
inline constexpr Duration kPortSilenceMax = seconds(20);  // the other end is lost after this time without data

/// Receives events of the port. Each callback may call Send, Taken and Close of the mux.
class PortEvents {
 public:
  PortEvents() = default;
  PortEvents(const PortEvents&) = delete;
  PortEvents& operator=(const PortEvents&) = delete;
  virtual ~PortEvents() = default;
  virtual void OnJoined() = 0;
  /// Follows OnJoined. All streams have ended.
  virtual void OnLost(const std::string& why) = 0;
  /// On the host: the guest has begun a stream.
  virtual void OnOpened(std::uint32_t stream) = 0;
  /// The content of a complete frame. Bytes count against the stream's window until Taken.
  virtual void OnData(std::uint32_t stream, std::span<const std::byte> bytes) = 0;
  /// The other end has closed the stream, which no longer exists. No more data follows.
  virtual void OnClosed(std::uint32_t stream) = 0;
};

class PortMux {
 public:
  /// `draw_epoch` returns a new random number on each call, never 0.
  PortMux(proto::port::Side side, std::function<std::uint64_t()> draw_epoch, PortEvents& events);

  /// The port was opened. Earlier streams are over, and data meant for them is skipped. The guest sends first. `room`:
  /// the room of a guest's port, which its Hello announces.
  void Start(Instant now, std::uint32_t room = 0);
  /// The port was closed.
  void Stop(const std::string& why);
  void Receive(std::span<const std::byte> bytes, Instant now);
  /// Sends what is due, such as a Hello. Must be called at due() at the latest.
  void Tick(Instant now);
  [[nodiscard]] Instant due() const;

  /// The bytes to write to the port now, in this order.
  [[nodiscard]] std::span<const std::byte> Outgoing() const;
  /// Outgoing bytes, including those that wait until the guest has room.
  [[nodiscard]] std::size_t pending() const { return out_.size() - sent_; }
  void Sent(std::size_t bytes);

  [[nodiscard]] bool joined() const { return joined_; }
  /// Begins a stream of a guest. 0: not possible now, because the other end is absent or kStreamsMax streams are open.
  std::uint32_t Open();
  /// Sends a prefix of `bytes`, at most a frame, as far as credit allows. Returns its length.
  std::size_t Send(std::uint32_t stream, std::span<const std::byte> bytes);
  /// The number of bytes that may be sent on a stream now. 0: none, or the stream does not exist.
  [[nodiscard]] std::size_t Credit(std::uint32_t stream) const;
  /// Returns the credit for received bytes that no longer need room here.
  void Taken(std::uint32_t stream, std::size_t bytes);
  /// Closes the stream in both directions. Data sent before arrives.
  void Close(std::uint32_t stream);

 private:
  struct Flow {
    std::uint32_t may_come = proto::port::kWindowBytes;  // the credit that the other end has left
    std::uint32_t owed = 0;                              // taken bytes whose credit is not yet returned
    std::uint32_t may_go = proto::port::kWindowBytes;
  };

  [[nodiscard]] std::size_t Wanted() const;
  void Judge(Instant now);
  void SkipToNextStart();
  void TakeHello(Instant now);
  void TakeFrame(const proto::port::FrameHeader& header, Instant now);
  std::size_t TakeContents(std::span<const std::byte> bytes, Instant now);
  void Restart(Instant now);
  void PutFiller();
  void CountRead(std::size_t bytes);
  void Lose(const std::string& why, Instant now);
  void EndAll(const std::string& why);
  void Put(const void* bytes, std::size_t size);
  void PutFrame(proto::port::Kind kind, std::uint32_t stream, std::uint32_t value);
  void PutHello(Instant now);

  const proto::port::Side side_;
  const std::function<std::uint64_t()> draw_epoch_;
  PortEvents& events_;
  std::uint64_t epoch_ = 0, peer_ = 0;  // 0: no peer was heard
  bool joined_ = false;
  Instant said_{}, heard_{};    // last Hello sent; last data received
  std::uint32_t room_ = 0;      // of the guest; 0: unlimited
  std::size_t on_the_way_ = 0;  // host: bytes written that the guest has not reported as read
  std::size_t read_ = 0;        // guest: bytes read that are not yet reported to the host
  std::map<std::uint32_t, Flow> flows_;
  std::uint32_t last_ = 0;  // the highest stream opened since the ends joined

  // A frame's header; of a Hello the whole frame.
  std::array<std::byte, proto::port::kFrameHeaderBytes + proto::port::kHelloBytesMax> held_{};
  std::size_t held_bytes_ = 0;
  std::vector<std::byte> contents_;  // received part of a data frame
  std::size_t contents_bytes_ = 0;   // its full size with the trailer; 0: no data frame is in progress
  std::uint32_t contents_of_ = 0;    // its stream
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;  // written part of out_
};

}  // namespace weir::remote
