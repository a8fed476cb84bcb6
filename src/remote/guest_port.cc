// SPDX-License-Identifier: Apache-2.0
#include "remote/guest_port.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "net/tcp_stream.h"
#include "platform/file_requests.h"
#include "platform/spawn.h"
#include "platform/unix_socket.h"
#include "proto/port_frames.h"
#include "remote/memory_line.h"

namespace weir::remote {
namespace {

constexpr int kPortTries = 40;  // at 50 ms each: another process may be about to open or close the port

Error PortIsBusy(const std::string& path) {
  return Fail(Errc::kBusy, path + " is in use by another program" +
                               "; one of another user, perhaps, or a login on that line: 'fuser -v " + path + "' says");
}

/// Returns the file type of a port: a socket, a character device or a regular file.
Result<mode_t> KindOf(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return platform::ErrnoError("looking for the port " + path, errno);
  const mode_t mode = info.st_mode;
  if (S_ISSOCK(mode) || S_ISCHR(mode) || S_ISREG(mode)) return mode;
  return Fail(Errc::kInvalidArgument, path + " is neither a character device nor a socket, nor memory of the host's");
}

/// Sets raw mode: no echo, no line editing, no signals, eight bits, speed unchanged.
Status MakeRaw(int fd, const std::string& path) {
  termios settings{};
  if (::tcgetattr(fd, &settings) != 0) return platform::ErrnoError("reading the settings of " + path, errno);
  ::cfmakeraw(&settings);
  settings.c_cflag |= CLOCAL | CREAD;
  if (::tcsetattr(fd, TCSANOW, &settings) != 0) return platform::ErrnoError("setting up " + path, errno);
  return Ok();
}

/// "port-dev-vport0p1.sock": one name for each device, whichever path leads to it.
std::string SocketFor(const std::string& path, const std::string& run_dir) {
  char* real = ::realpath(path.c_str(), nullptr);
  std::string name = real == nullptr ? path : real;
  std::free(real);
  std::replace(name.begin(), name.end(), '/', '-');
  return run_dir + "/port" + name + ".sock";
}

/// Starts the port process and waits until it serves. kBusy: another process has the port.
Status StartPort(const std::string& path, const std::string& socket, const std::string& program) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return platform::ErrnoError("starting " + program, errno);
  const platform::Fd read_end(ends[0]);
  platform::Fd write_end(ends[1]);
  WEIR_TRY(const pid_t pid, platform::Spawn({.argv = {program, "--device", path, "--socket", socket, "--idle", "2",
                                                      "--ready-fd", std::to_string(ends[1])},
                                             .kept_fd = ends[1]}));
  write_end.Reset();
  // Any output other than "1" is an error message.
  std::string said;
  char bytes[512];
  for (ssize_t got = 0; (got = ::read(read_end.get(), bytes, sizeof bytes)) != 0;) {
    if (got > 0) said.append(bytes, static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  int status = 0;
  ::waitpid(pid, &status, 0);  // a port process that serves has forked, and its parent has exited
  if (said == "1") return Ok();
  const int exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  if (said.empty()) said = program + " ended before it served " + path;
  for (const ErrcEntry& entry : kErrcTable)
    if (entry.exit_code == exit_code) return Fail(entry.code, said);
  return Fail(Errc::kUnavailable, said);
}

}  // namespace

Result<std::unique_ptr<PortLine>> OpenPortPath(const std::string& path) {
  return OpenPortOn(platform::OpenOffered({path, platform::OfferedFile::How::kPort}), path);
}

Result<std::unique_ptr<PortLine>> OpenPortOn(Result<platform::Fd> opened, const std::string& path) {
  if (!opened && opened.error().code == Errc::kBusy) return PortIsBusy(path);  // a virtio port can be opened only once
  WEIR_TRY(platform::Fd fd, std::move(opened));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return platform::ErrnoError("looking at the port " + path, errno);
  if (S_ISSOCK(info.st_mode)) return LineOf(std::move(fd));
  if (S_ISREG(info.st_mode) || CanBeMapped(fd.get())) return OpenHostMemory(std::move(fd), path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return PortIsBusy(path);
  const bool terminal = ::isatty(fd.get()) == 1;
  if (terminal) WEIR_TRY_STATUS(MakeRaw(fd.get(), path));
  return LineOf(std::move(fd), terminal ? proto::port::kTerminalRoomBytes : 0);
}

Result<std::unique_ptr<net::Stream>> ConnectByPort(const std::string& path, const std::string& run_dir,
                                                   const std::string& program) {
  WEIR_TRY(const mode_t mode, KindOf(path));
  const std::string socket = S_ISSOCK(mode) ? path : SocketFor(path, run_dir);
  for (int attempt = 0;; ++attempt) {
    Result<platform::Fd> connected = platform::ConnectUnixStream(socket);
    if (connected) return net::AdoptLocal(std::move(*connected), path, path);
    const Errc code = connected.error().code;
    if (S_ISSOCK(mode) || (code != Errc::kNotFound && code != Errc::kUnavailable)) return connected.error();
    const Status started = StartPort(path, socket, program);
    if (!started && (started.error().code != Errc::kBusy || attempt == kPortTries)) return started.error();
    if (!started) ::usleep(50'000);
  }
}

}  // namespace weir::remote
