// SPDX-License-Identifier: Apache-2.0
#include "modules/host_process.h"

#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

#include "platform/process.h"
#include "platform/unix_socket.h"

namespace weir::modules {
namespace {

/// Frames that are handled before other work of the loop, so that a host that sends without end does not hold it.
constexpr int kFramesAtOnce = 16;
/// More than a socket holds. A process that the host has left behind may still send.
constexpr int kLastFramesMax = 4'096;

}  // namespace

HostProcess::HostProcess(boost::asio::io_context& loop, Events events)
    : events_(std::move(events)), socket_watch_(loop), process_watch_(loop) {}

Result<std::unique_ptr<HostProcess>> HostProcess::Start(boost::asio::io_context& loop, std::vector<std::string> argv,
                                                        Rights rights, Events events) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return platform::ErrnoError("making a socket to a module host", errno);
  std::unique_ptr<HostProcess> host(new HostProcess(loop, std::move(events)));
  host->socket_.Reset(ends[0]);
  const platform::Fd theirs(ends[1]);
  argv.insert(argv.end(), {"--fd", std::to_string(theirs.get())});
  platform::SpawnSpec spec{.argv = argv,
                           .kept_fd = theirs.get(),
                           .as = std::move(rights.as),
                           .confined = true,
                           .processes_max = rights.processes_max,
                           .groups = std::move(rights.groups),
                           .own_namespaces = rights.own_namespaces};
  if (rights.files == Files::kNone) spec.files = platform::FileRights{};
  WEIR_TRY(host->pid_, platform::Spawn(spec));
  auto process = platform::OpenPidFd(host->pid_);
  if (!process) return std::move(process).error();
  host->process_ = std::move(*process);
  host->socket_watch_.assign(host->socket_.get());
  host->process_watch_.assign(host->process_.get());
  host->WatchSocket();
  host->WatchEnd();
  return host;
}

HostProcess::~HostProcess() {
  *alive_ = false;
  // HostProcess owns these descriptors, so that the watches must not close them.
  if (socket_watch_.is_open()) socket_watch_.release();
  if (process_watch_.is_open()) process_watch_.release();
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void HostProcess::Send(const OrderFrame& order, const std::vector<platform::Fd>& files) {
  std::vector<int> numbers;
  numbers.reserve(files.size());
  for (const platform::Fd& file : files) numbers.push_back(file.get());
  if (const Status sent = platform::SendPacket(socket_.get(), EncodeOrder(order), numbers); !sent) Kill();
}

void HostProcess::Kill() {
  if (pid_ != 0) ::kill(pid_, SIGKILL);
}

bool HostProcess::Drain(int frames_max) {
  const auto alive = alive_;
  for (int i = 0; i < frames_max && *alive; ++i) {
    auto packet = platform::ReceivePacket(socket_.get(), kFrameBytesMax);
    if (!packet) return packet.error().code == Errc::kTimeout;
    if (packet->bytes.empty()) return false;
    auto frame = DecodeFrame(packet->bytes);
    if (!frame) return false;
    events_.frame(*std::move(frame), std::move(packet->fds));
  }
  return true;
}

void HostProcess::WatchSocket() {
  socket_watch_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                           [this, alive = alive_](const boost::system::error_code& error) {
                             if (error || !*alive) return;
                             if (Drain(kFramesAtOnce)) {
                               if (*alive) WatchSocket();
                             } else {
                               Kill();
                             }
                           });
}

void HostProcess::WatchEnd() {
  process_watch_.async_wait(
      boost::asio::posix::stream_descriptor::wait_read, [this, alive = alive_](const boost::system::error_code& error) {
        if (error || !*alive) return;
        Drain(kLastFramesMax);
        if (!*alive) return;
        int status = 0;
        ::waitpid(pid_, &status, 0);
        pid_ = 0;
        events_.ended(WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status))
                                          : "ended with status " + std::to_string(WEXITSTATUS(status)));
      });
}

}  // namespace weir::modules
