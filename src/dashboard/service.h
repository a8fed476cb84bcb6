// SPDX-License-Identifier: Apache-2.0
// Handles the dashboard's requests (docs/dashboard.md): the page, the stream of events, the history, and requests that
// are passed on to the daemon.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dashboard/access.h"
#include "dashboard/history.h"
#include "dashboard/look.h"
#include "http/event_stream.h"
#include "http/server.h"

namespace weir::dashboard {

inline constexpr std::size_t kStreamsMax = 16;
/// Upper bound of the requests that wait for the daemon's answer at one time.
inline constexpr std::size_t kAskedMax = 32;
inline constexpr Duration kDaemonAnswersWithin = seconds(10);

class Service {
 public:
  /// `control`: the daemon's control socket. `node`: the name of this machine.
  Service(boost::asio::io_context& loop, std::string control, std::string node);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Begins to serve under these rules. They contain the port, which is known only after listening.
  void Start(Site site);

  /// The limits for the server, with the check of a request's head.
  [[nodiscard]] http::Limits Limits();
  void Handle(const http::Request& request, const http::Respond& respond);

 private:
  struct Page {
    std::shared_ptr<http::EventStream> stream;
    bool has_lists = false;  // ticks are sent after the lists, which identify their rows
    bool told_away = false;
  };

  [[nodiscard]] std::optional<http::Reply> Refusal(const http::Request& head) const;
  void OpenStream(const http::Respond& respond);
  [[nodiscard]] http::Reply HistoryReply(const http::Request& request) const;
  void PassOn(const http::Request& request, const std::string& target, const http::Respond& respond);
  void OnSeen(Sight sight);
  void OnAway(const std::string& why);
  void DropEnded();

  boost::asio::io_context& loop_;
  const std::string control_, node_;
  std::optional<Site> site_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  History history_;
  std::vector<Page> pages_;
  std::string why_away_;  // empty: the daemon answers
  std::size_t asked_ = 0;
  Look look_;
};

}  // namespace weir::dashboard
