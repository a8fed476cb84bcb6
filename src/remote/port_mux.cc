// SPDX-License-Identifier: Apache-2.0
#include "remote/port_mux.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weir::remote {
namespace {

namespace frames = proto::port;

/// Credit is returned when this much was taken: one credit frame for at least four data frames.
constexpr std::uint32_t kCreditBytes = frames::kWindowBytes / 4;
/// Written bytes are erased from the buffer in blocks of this size.
constexpr std::size_t kSentKeptBytes = 256 * 1024;

frames::FrameHeader HeaderIn(const std::byte* bytes) {
  frames::FrameHeader header;
  std::memcpy(&header, bytes, sizeof header);
  return header;
}

}  // namespace

PortMux::PortMux(frames::Side side, std::function<std::uint64_t()> draw_epoch, PortEvents& events)
    : side_(side), draw_epoch_(std::move(draw_epoch)), events_(events) {}

// -- Joining ----------------------------------------------------------------------------------------------------------

void PortMux::Start(Instant now, std::uint32_t room) {
  EndAll("the port was opened again");
  held_bytes_ = 0;
  room_ = room;
  Restart(now);
  if (side_ == frames::Side::kGuest) return;
  // The guest's room is unknown until its Hello arrives.
  out_.clear();
}

void PortMux::Stop(const std::string& why) {
  EndAll(why);
  held_bytes_ = 0;
  out_.clear();
  sent_ = 0;
}

/// Drops unsent data of the old session. If that cuts a frame, the filler zeros complete it.
void PortMux::Restart(Instant now) {
  epoch_ = draw_epoch_();
  peer_ = 0;
  out_.clear();
  sent_ = on_the_way_ = read_ = 0;
  PutFiller();
  PutHello(now);
}

void PortMux::PutFiller() {
  out_.resize(out_.size() + frames::FillerBytesFor(side_ == frames::Side::kHost ? room_ : 0));
}

void PortMux::EndAll(const std::string& why) {
  flows_.clear();
  last_ = 0;
  contents_.clear();
  contents_bytes_ = 0;
  if (!std::exchange(joined_, false)) return;
  events_.OnLost(why);
}

void PortMux::Lose(const std::string& why, Instant now) {
  EndAll(why);
  Restart(now);
}

void PortMux::Tick(Instant now) {
  if (joined_ && now - heard_ >= kPortSilenceMax) return Lose("nothing was heard for 20 s", now);
  if (now - said_ < (joined_ ? kPortStillHere : kPortHelloAgain)) return;
  said_ = now;
  if (pending() > 0) return;  // the other end does not read; an unread Hello need not be repeated
  if (!joined_ && peer_ == 0 && side_ == frames::Side::kHost) return;
  // Filler is sent only until the peer is heard: a peer that has joined would reject it as malformed.
  if (!joined_ && peer_ == 0) PutFiller();
  PutHello(now);
}

Instant PortMux::due() const {
  if (!joined_ && peer_ == 0 && side_ == frames::Side::kHost) return Instant::max();
  return joined_ ? std::min(said_ + kPortStillHere, heard_ + kPortSilenceMax) : said_ + kPortHelloAgain;
}

void PortMux::TakeHello(Instant now) {
  frames::Hello hello;
  std::memcpy(&hello, held_.data() + frames::kFrameHeaderBytes, sizeof hello);
  const auto theirs =
      static_cast<std::uint16_t>(side_ == frames::Side::kGuest ? frames::Side::kHost : frames::Side::kGuest);
  // A terminal that is not yet in raw mode echoes this side's own Hello.
  if (hello.side != theirs || !frames::Plausible(hello)) {
    if (joined_) Lose("the data is not a Hello", now);
    return SkipToNextStart();
  }
  held_bytes_ = 0;
  if (joined_ && hello.epoch != peer_) Lose("the other end has restarted", now);
  const bool first = std::exchange(peer_, hello.epoch) != hello.epoch;
  if (side_ == frames::Side::kHost) {
    room_ = hello.room;
    // What still waits is for an earlier guest. Without it a guest that restarts all the time finds one answer here.
    const bool waited = first && pending() > 0;
    if (waited) {
      out_.clear();
      sent_ = 0;
    }
    // The end of a frame may be missing: one that was dropped here, or one of an earlier session of this end that the
    // peer has joined.
    if (waited || (first && hello.echo != 0 && hello.echo != epoch_)) PutFiller();
  }
  if (joined_) {
    heard_ = now;
    if (hello.echo != epoch_) PutHello(now);
    return;
  }
  PutHello(now);
  if (hello.echo != epoch_) return;
  joined_ = true;
  heard_ = now;
  events_.OnJoined();
}

// -- Receiving --------------------------------------------------------------------------------------------------------

/// The number of header bytes needed before more can be decided.
std::size_t PortMux::Wanted() const {
  if (held_bytes_ < frames::kFrameHeaderBytes) return frames::kFrameHeaderBytes;
  const frames::FrameHeader header = HeaderIn(held_.data());
  const bool hello = frames::Plausible(header) && static_cast<frames::Kind>(header.kind) == frames::Kind::kHello;
  return frames::kFrameHeaderBytes + (hello ? header.value : 0);
}

void PortMux::Receive(std::span<const std::byte> bytes, Instant now) {
  while (!bytes.empty()) {
    if (contents_bytes_ > 0) {
      bytes = bytes.subspan(TakeContents(bytes, now));
      continue;
    }
    const std::size_t part = std::min(bytes.size(), Wanted() - held_bytes_);
    std::memcpy(held_.data() + held_bytes_, bytes.data(), part);
    held_bytes_ += part;
    bytes = bytes.subspan(part);
    CountRead(part);
    while (held_bytes_ >= Wanted()) Judge(now);
  }
}

/// A host stops sending when a guest's limited room is used up, until the guest reports what it has read.
void PortMux::CountRead(std::size_t bytes) {
  if (side_ != frames::Side::kGuest || room_ == 0) return;
  read_ += bytes;
  if (!joined_ || read_ < room_ / 4) return;
  PutFrame(frames::Kind::kRead, 0, static_cast<std::uint32_t>(std::exchange(read_, 0)));
}

/// Returns the number of bytes that belong to the frame.
std::size_t PortMux::TakeContents(std::span<const std::byte> bytes, Instant now) {
  const std::size_t part = std::min(bytes.size(), contents_bytes_ - contents_.size());
  contents_.insert(contents_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(part));
  heard_ = now;
  CountRead(part);
  if (contents_.size() < contents_bytes_) return part;
  contents_bytes_ = 0;
  const std::size_t size = contents_.size() - frames::kTrailerBytes;
  std::uint64_t epoch = 0;
  std::memcpy(&epoch, contents_.data() + size, sizeof epoch);
  if (epoch != peer_) {
    Lose("a frame was cut", now);
  } else if (flows_.contains(contents_of_)) {  // otherwise the stream was closed here
    events_.OnData(contents_of_, std::span(contents_).first(size));
  }
  contents_.clear();
  return part;
}

void PortMux::Judge(Instant now) {
  const frames::FrameHeader header = HeaderIn(held_.data());
  if (!frames::Plausible(header)) {
    if (joined_) Lose("the data is not a frame", now);
    return SkipToNextStart();
  }
  if (static_cast<frames::Kind>(header.kind) == frames::Kind::kHello) return TakeHello(now);
  if (!joined_) return SkipToNextStart();
  held_bytes_ = 0;
  heard_ = now;
  TakeFrame(header, now);
}

/// Skips to the next byte with which a frame may begin.
void PortMux::SkipToNextStart() {
  const auto begin = static_cast<std::byte>(frames::kMagic & 0xFF);
  const auto end = held_.begin() + static_cast<std::ptrdiff_t>(held_bytes_);
  const auto next = std::find(held_.begin() + 1, end, begin);
  held_bytes_ = static_cast<std::size_t>(end - next);
  std::copy(next, end, held_.begin());
}

void PortMux::TakeFrame(const frames::FrameHeader& header, Instant now) {
  const auto kind = static_cast<frames::Kind>(header.kind);
  if (kind == frames::Kind::kOpen) {
    if (side_ == frames::Side::kGuest || header.stream <= last_) return Lose("it opened a stream that can't be", now);
    last_ = header.stream;
    if (flows_.size() >= frames::kStreamsMax) return PutFrame(frames::Kind::kClose, header.stream, 0);
    flows_[header.stream] = {};
    return events_.OnOpened(header.stream);
  }
  if (kind == frames::Kind::kRead) {
    on_the_way_ -=
        std::min<std::size_t>(on_the_way_, header.value);  // the count includes bytes sent before the ends joined
    return;
  }
  if (header.stream > last_) return Lose("it named an unknown stream", now);
  const auto at = flows_.find(header.stream);
  const bool gone = at == flows_.end();  // closed here before the other end learnt of it
  if (kind == frames::Kind::kData) {
    if (!gone && header.value > at->second.may_come) return Lose("it sent more than it may", now);
    if (!gone) at->second.may_come -= header.value;
    contents_bytes_ = header.value + frames::kTrailerBytes;
    contents_of_ = header.stream;
  } else if (kind == frames::Kind::kCredit && !gone) {
    if (header.value > frames::kWindowBytes - at->second.may_go) return Lose("it sent more than allowed", now);
    at->second.may_go += header.value;
  } else if (kind == frames::Kind::kClose && !gone) {
    flows_.erase(at);
    events_.OnClosed(header.stream);
  }
}

// -- Sending ----------------------------------------------------------------------------------------------------------

void PortMux::Put(const void* bytes, std::size_t size) {
  const auto* from = static_cast<const std::byte*>(bytes);
  out_.insert(out_.end(), from, from + size);
}

void PortMux::PutFrame(frames::Kind kind, std::uint32_t stream, std::uint32_t value) {
  const frames::FrameHeader header{.kind = static_cast<std::uint16_t>(kind), .stream = stream, .value = value};
  Put(&header, sizeof header);
}

void PortMux::PutHello(Instant now) {
  said_ = now;
  PutFrame(frames::Kind::kHello, 0, frames::kHelloBytes);
  const frames::Hello hello{.epoch = epoch_,
                            .echo = peer_,
                            .side = static_cast<std::uint16_t>(side_),
                            .room = side_ == frames::Side::kGuest ? room_ : 0};
  Put(&hello, sizeof hello);
}

std::span<const std::byte> PortMux::Outgoing() const {
  const auto out = std::span(out_).subspan(sent_);
  if (side_ == frames::Side::kGuest || !joined_ || room_ == 0) return out;
  return out.first(std::min(out.size(), room_ - std::min<std::size_t>(room_, on_the_way_)));
}

void PortMux::Sent(std::size_t bytes) {
  if (joined_) on_the_way_ += bytes;
  sent_ += bytes;
  if (sent_ < out_.size() && sent_ < kSentKeptBytes) return;
  out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(sent_));
  sent_ = 0;
}

std::uint32_t PortMux::Open() {
  if (!joined_ || side_ != frames::Side::kGuest || flows_.size() >= frames::kStreamsMax || last_ == UINT32_MAX)
    return 0;
  flows_[++last_] = {};
  PutFrame(frames::Kind::kOpen, last_, 0);
  return last_;
}

std::size_t PortMux::Credit(std::uint32_t stream) const {
  const auto at = flows_.find(stream);
  return at == flows_.end() ? 0 : at->second.may_go;
}

std::size_t PortMux::Send(std::uint32_t stream, std::span<const std::byte> bytes) {
  const std::size_t frame = frames::DataBytesMaxFor(side_ == frames::Side::kHost ? room_ : 0);
  const std::size_t part = std::min({bytes.size(), Credit(stream), frame});
  if (part == 0) return 0;
  flows_[stream].may_go -= static_cast<std::uint32_t>(part);
  PutFrame(frames::Kind::kData, stream, static_cast<std::uint32_t>(part));
  Put(bytes.data(), part);
  Put(&epoch_, sizeof epoch_);
  return part;
}

void PortMux::Taken(std::uint32_t stream, std::size_t bytes) {
  const auto at = flows_.find(stream);
  if (at == flows_.end()) return;
  Flow& flow = at->second;
  flow.owed += static_cast<std::uint32_t>(bytes);
  if (flow.owed < kCreditBytes) return;
  PutFrame(frames::Kind::kCredit, stream, flow.owed);
  flow.may_come += std::exchange(flow.owed, 0);
}

void PortMux::Close(std::uint32_t stream) {
  if (flows_.erase(stream) > 0) PutFrame(frames::Kind::kClose, stream, 0);
}

}  // namespace weir::remote
