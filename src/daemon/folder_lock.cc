// SPDX-License-Identifier: Apache-2.0
#include "daemon/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <thread>

#include "base/units.h"
#include "http/client.h"
#include "http/json_api.h"
#include "platform/clock.h"
#include "platform/files.h"

namespace weir::daemon {
namespace {

constexpr Duration kAnswerMax = seconds(2);
constexpr Duration kEndMax = seconds(10);  // a private daemon saves its state before it ends
constexpr std::size_t kPidBytesMax = 32;

/// " (process 12)", or empty if the file holds no pid.
std::string HolderOf(const std::string& path) {
  const auto text = platform::ReadFile(path, kPidBytesMax);
  if (!text || text->empty() || text->find_first_not_of("0123456789\n") != std::string::npos) return {};
  return " (process " + text->substr(0, text->find('\n')) + ")";
}

struct PrivateDaemon {
  std::uint64_t vgpus = 0;
  std::uint64_t pid = 0;
};

/// Fails if no private daemon answers on this socket.
Result<PrivateDaemon> AskPrivateDaemon(const std::string& control) {
  const std::string asked = "asked " + control;
  WEIR_TRY(const http::Answer answer, http::AskUnix(control, {.method = "GET", .target = "/v1/status"}, kAnswerMax));
  WEIR_TRY(const nlohmann::json status, http::ObjectOf(answer, asked));
  const auto whole = [&status](const char* name) -> std::uint64_t {
    const auto field = status.find(name);
    return field != status.end() && field->is_number_unsigned() ? field->get<std::uint64_t>() : 0;
  };
  const auto is_private = status.find("private");
  if (is_private == status.end() || !is_private->is_boolean() || !is_private->get<bool>())
    return Fail(Errc::kBusy, "it is not private");
  return PrivateDaemon{.vgpus = whole("vgpus"), .pid = whole("pid")};
}

}  // namespace

Result<platform::Fd> LockFolder(const std::string& folder, const std::string& who, const std::string& advice) {
  const std::string path = folder + "/lock";
  platform::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return platform::ErrnoError("opening " + path, errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return platform::ErrnoError("locking " + path, errno);
    return Fail(Errc::kBusy, fmt::format("another daemon{} {} {}; {}", HolderOf(path), who, folder, advice));
  }
  // The pid is used in messages only, so a failed write is harmless.
  const std::string pid = std::to_string(::getpid()) + "\n";
  [[maybe_unused]] const bool written =
      ::ftruncate(fd.get(), 0) == 0 && ::pwrite(fd.get(), pid.data(), pid.size(), 0) > 0;
  return fd;
}

Result<platform::Fd> LockRunFolder(const std::string& run_dir, const std::string& control, bool is_private) {
  const auto lock = [&run_dir] {
    return LockFolder(run_dir, "serves", "stop it with `weir stop`, or choose another --run-dir");
  };
  auto locked = lock();
  if (locked || locked.error().code != Errc::kBusy || is_private) return locked;
  const auto other = AskPrivateDaemon(control);
  if (!other) return locked;
  if (other->vgpus > 0)
    return Fail(
        Errc::kBusy,
        fmt::format("a private daemon (process {0}) serves {1}: 'weir run' started it while no daemon ran. It has "
                    "{2} vGPU{3} and ends 10 s after its last program. Wait for that, or end it at once with "
                    "'weir --run-dir {1} stop': its programs continue unthrottled",
                    other->pid, run_dir, other->vgpus, other->vgpus == 1 ? "" : "s"));
  // This daemon has no vGPUs. A program that attaches to it at this moment continues without a daemon, as after a
  // crash.
  static_cast<void>(http::AskUnix(control, {.method = "POST", .target = "/v1/shutdown"}, kAnswerMax));
  const Instant until = platform::Now() + kEndMax;
  while (!locked && locked.error().code == Errc::kBusy && platform::Now() < until) {
    std::this_thread::sleep_for(milliseconds(5));
    locked = lock();
  }
  if (locked)
    std::fprintf(stderr, "weir: took over from the private daemon (process %d)\n", static_cast<int>(other->pid));
  return locked;
}

Result<ServingMark> ServingMark::Make(const std::string& run_dir) {
  std::string path = PathIn(run_dir);
  const platform::Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file) return platform::ErrnoError("creating " + path, errno);
  return ServingMark(std::move(path));
}

ServingMark::~ServingMark() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

}  // namespace weir::daemon
