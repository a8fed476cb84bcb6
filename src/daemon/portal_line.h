// SPDX-License-Identifier: Apache-2.0
// The daemon's side of the connections to portals (proto/drain_list.h). Each portal receives the list of drain requests
// and reports how many connections of the named vGPUs it still has. Portals of earlier daemons connect too, as long as
// they have clients.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/drain_book.h"
#include "daemon/fd_watch.h"
#include "platform/fd.h"

namespace weir::daemon {

class PortalLine {
 public:
  /// `note` receives events to log. Only this user, root and `portals` may connect.
  static Result<std::unique_ptr<PortalLine>> Listen(boost::asio::io_context& loop, const std::string& path,
                                                    std::function<void(engine::Note)> note,
                                                    std::vector<uid_t> portals = {});
  ~PortalLine();
  PortalLine(const PortalLine&) = delete;
  PortalLine& operator=(const PortalLine&) = delete;

  void Ask(const std::string& vgpu, const std::string& why) {
    if (book_.Ask(vgpu, why)) TellAll();
  }
  void TakeBack(const std::string& vgpu) {
    if (book_.TakeBack(vgpu)) TellAll();
  }

 private:
  struct Portal {
    platform::Fd socket;
    std::unique_ptr<FdWatch> watch;  // destroyed before the socket
  };
  PortalLine(boost::asio::io_context& loop, std::string path, std::function<void(engine::Note)> note,
             std::vector<uid_t> portals)
      : loop_(loop), path_(std::move(path)), note_(std::move(note)), users_(std::move(portals)) {
    users_.insert(users_.end(), {::geteuid(), 0});
  }
  void OnConnection();
  void OnPacket(std::uint64_t number);
  void Hear(std::uint64_t number, const std::vector<proto::DrainState>& here);
  /// False: the portal has disconnected.
  bool Tell(const Portal& portal) const;
  void TellAll();

  boost::asio::io_context& loop_;
  const std::string path_;
  const std::function<void(engine::Note)> note_;
  std::vector<uid_t> users_;  // who may connect
  DrainBook book_;
  platform::Fd listener_;
  std::unique_ptr<FdWatch> listener_watch_;
  std::map<std::uint64_t, Portal> portals_;
  std::uint64_t next_ = 1;
};

}  // namespace weir::daemon
