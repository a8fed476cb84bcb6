// SPDX-License-Identifier: Apache-2.0
// Many streams over a port that is one stream of bytes, whose other end may go and come back in the middle of a frame
// (docs/protocol/network.md, "A guest's port"). Does no I/O and reads no clock.
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

inline constexpr Duration kPortHelloAgain = milliseconds(500);  // while nobody answers
inline constexpr Duration kPortStillHere = seconds(2);          // a Hello at least so often, when nothing else is said
inline constexpr Duration kPortSilenceMax = seconds(20);        // then the other end has gone

/// What came by the port. Each may call the mux: Send, Taken, Close.
class PortEvents {
 public:
  PortEvents() = default;
  PortEvents(const PortEvents&) = delete;
  PortEvents& operator=(const PortEvents&) = delete;
  virtual ~PortEvents() = default;
  virtual void OnJoined() = 0;
  /// After OnJoined. No stream is left.
  virtual void OnLost(const std::string& why) = 0;
  /// At a host: the guest has begun a stream.
  virtual void OnOpened(std::uint32_t stream) = 0;
  /// A whole frame's. Never more than the window, against which counts what was not Taken.
  virtual void OnData(std::uint32_t stream, std::span<const std::byte> bytes) = 0;
  /// The other end has ended it. It is gone; what was received before is all.
  virtual void OnClosed(std::uint32_t stream) = 0;
};

class PortMux {
 public:
  /// `draw_epoch`: a random number each time, never 0.
  PortMux(proto::port::Side side, std::function<std::uint64_t()> draw_epoch, PortEvents& events);

  /// The port was opened: what was before is over, and what the other end may still say to it is not for us. A guest
  /// speaks first. `room`: of a guest's port, as in its Hello.
  void Start(Instant now, std::uint32_t room = 0);
  /// The port is gone.
  void Stop(const std::string& why);
  void Receive(std::span<const std::byte> bytes, Instant now);
  /// Says what has to be said at times; at due() at the latest.
  void Tick(Instant now);
  [[nodiscard]] Instant due() const;

  /// To be written to the port now, in this order.
  [[nodiscard]] std::span<const std::byte> Outgoing() const;
  /// The same, and what waits until the guest has room.
  [[nodiscard]] std::size_t pending() const { return out_.size() - sent_; }
  void Sent(std::size_t bytes);

  [[nodiscard]] bool joined() const { return joined_; }
  /// A guest's new stream. 0: there can't be one now: nobody is at the other end, or kStreamsMax are open.
  std::uint32_t Open();
  /// Takes from the front of `bytes` what may be sent now, a frame at most; returns how many that were.
  std::size_t Send(std::uint32_t stream, std::span<const std::byte> bytes);
  /// How much of a stream may be sent now; 0: nothing, or there is no such stream.
  [[nodiscard]] std::size_t Credit(std::uint32_t stream) const;
  /// So many of the bytes received need no more room here.
  void Taken(std::uint32_t stream, std::size_t bytes);
  /// Ends it, both ways. What was sent before arrives.
  void Close(std::uint32_t stream);

 private:
  struct Flow {
    std::uint32_t may_come = proto::port::kWindowBytes;  // by the credit that the other end has
    std::uint32_t owed = 0;                              // taken, and the other end was not told
    std::uint32_t may_go = proto::port::kWindowBytes;
  };

  [[nodiscard]] std::size_t Wanted() const;
  void Judge(Instant now);
  void SkipToNextStart();
  void TakeHello(Instant now);
  void TakeFrame(const proto::port::FrameHeader& header, Instant now);
  std::size_t TakeContents(std::span<const std::byte> bytes, Instant now);
  void BeginAnew(Instant now);
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
  std::uint64_t epoch_ = 0, peer_ = 0;  // 0: nobody was heard
  bool joined_ = false;
  Instant said_{}, heard_{};    // our last Hello; anything of the other end's
  std::uint32_t room_ = 0;      // of the guest; 0: any
  std::size_t on_the_way_ = 0;  // at a host: written, and the guest hasn't said that it has read it
  std::size_t read_ = 0;        // at a guest: the host was not told
  std::map<std::uint32_t, Flow> flows_;
  std::uint32_t last_ = 0;  // the highest stream that was opened since they joined

  // A frame's header, with a Hello all of it.
  std::array<std::byte, proto::port::kFrameHeaderBytes + proto::port::kHelloBytesMax> held_{};
  std::size_t held_bytes_ = 0;
  std::vector<std::byte> contents_;  // what has come of a frame of data
  std::size_t contents_bytes_ = 0;   // what it will be, with its trailer; 0: none is coming
  std::uint32_t contents_of_ = 0;    // its stream
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;  // of out_
};

}  // namespace weir::remote
