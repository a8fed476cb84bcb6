// SPDX-License-Identifier: Apache-2.0
#include "cli/remote_node.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "cli/common/places.h"
#include "platform/fd.h"
#include "platform/files.h"
#include "platform/spawn.h"

namespace weir::cli {
namespace {

/// The relay has printed the reason; its exit code becomes weir's.
Errc CodeOf(int status) {
  const int exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  for (const ErrcEntry& entry : kErrcTable)
    if (entry.exit_code == exit_code) return entry.code;
  return Errc::kUnavailable;
}

}  // namespace

std::vector<std::string> MoveCommandOf(const RemoteNode& remote, const std::string& weir, const std::string& run_dir,
                                       pid_t pid) {
  const MoveFlags& move = remote.move;
  if (move.to.empty()) return {};
  std::vector<std::string> command{weir,         "--run-dir", run_dir, "migrate", std::to_string(pid),
                                   "--if-asked", "--to",      move.to};
  const auto add = [&command](const char* option, const std::string& value) {
    if (!value.empty()) command.insert(command.end(), {option, value});
  };
  if (remote.plain) {
    command.emplace_back("--plain");
    // With a name or "auto", the vGPU is the one that the node offers.
    if (move.to.find(':') != std::string::npos) add("--vgpu", remote.vgpu);
  }
  add("--token", move.token);
  if (move.room.count > 0) add("--room", std::to_string(move.room.count));
  add("--manager", move.managers);
  add("--manager-token", move.manager_token);
  return command;
}

Result<Environment> StartRelay(const RemoteNode& remote, const std::string& run_dir) {
  WEIR_TRY(const std::filesystem::path self, SelfExecutable());
  const std::string relay = FindHelper(self, kRelay);
  if (relay.empty() || !std::filesystem::is_directory(std::filesystem::path(relay).parent_path() / "icd"))
    return Fail(Errc::kNotFound, "weir-relay or the OpenCL client library is not installed beside weir");
  WEIR_TRY_STATUS(platform::MakeFolder(run_dir));
  const std::string socket = fmt::format("{}/relay-{}.sock", run_dir, ::getpid());
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return platform::ErrnoError("starting the relay", errno);
  const platform::Fd read_end(ends[0]);
  platform::Fd write_end(ends[1]);
  platform::SpawnSpec spec{.argv = {relay, "--node", remote.node, "--socket", socket, "--program", remote.program,
                                    "--parent", std::to_string(::getpid()), "--ready-fd", std::to_string(ends[1])},
                           .kept_fd = ends[1]};
  if (remote.by_port()) {
    // No authentication: only the host and its hypervisor can use the port.
  } else if (remote.plain) {
    spec.argv.insert(spec.argv.end(), {"--plain", "--vgpu", remote.vgpu});
  } else {
    spec.argv.insert(spec.argv.end(), {"--token", remote.token});
  }
  for (const std::string& word : MoveCommandOf(remote, self, run_dir, ::getpid()))
    spec.argv.insert(spec.argv.end(), {"--when-asked", word});
  WEIR_TRY(const pid_t pid, platform::Spawn(spec));
  write_end.Reset();
  char ready = 0;
  ssize_t got = 0;
  do got = ::read(read_end.get(), &ready, 1);
  while (got < 0 && errno == EINTR);
  if (got == 1) return OpenClEnvironment(socket, relay);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return Fail(CodeOf(status), "the program was not started: no access to " + remote.node + ", for the reason above");
}

}  // namespace weir::cli
