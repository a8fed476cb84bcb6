// SPDX-License-Identifier: Apache-2.0
// Server-sent events: a reply that stays open, to which its owner adds events. Belongs to the loop's thread.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace weir::http {

/// The owner makes the stream, passes it to the server in a Reply, and adds events at any time. The events that wait
/// for the client are bounded: a client that does not read is disconnected.
class EventStream {
 public:
  /// Events as they are sent. Several streams may share one.
  using Text = std::shared_ptr<const std::string>;

  /// While this many bytes wait, another event ends the stream. One event may be larger.
  static constexpr std::size_t kWaitingMax = std::size_t{4} << 20;
  static constexpr const char* kContentType = "text/event-stream";

  /// Each line of `data` becomes a line of the event. `name` has no line end.
  static Text Format(std::string_view name, std::string_view data);

  /// `gone` is called once when the client has gone or is disconnected, and never from a call of this object.
  explicit EventStream(std::function<void()> gone = {}) : gone_(std::move(gone)) {}
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  /// Adds an event. False: the stream has ended, or ends now because too many bytes wait.
  bool Send(Text text);
  [[nodiscard]] bool ended() const { return ended_; }
  /// Bytes that the socket has not taken yet.
  [[nodiscard]] std::size_t waiting() const { return waiting_; }

  // For the server.

  /// `wake` is called when there is something to send, or when the stream has ended.
  void Attach(std::function<void()> wake) { wake_ = std::move(wake); }
  /// The next text to write; null: nothing waits. It counts as waiting until Sent.
  Text Next();
  void Sent();
  void End();

 private:
  std::function<void()> gone_, wake_;
  std::deque<Text> texts_;
  std::size_t waiting_ = 0;
  std::size_t being_sent_ = 0;
  bool ended_ = false;
};

}  // namespace weir::http
