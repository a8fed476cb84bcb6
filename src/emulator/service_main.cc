// SPDX-License-Identifier: Apache-2.0
// weir-emulated-gpu: emulated GPUs for real programs (docs/emulated-gpu.md).
#include <getopt.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "emulator/device_file.h"
#include "emulator/service.h"
#include "platform/option_error.h"
#include "platform/process.h"
#include "platform/unix_socket.h"

namespace {

using namespace weir;
namespace wire = proto::emulator;

constexpr const char* kUsage =
    "Usage: weir-emulated-gpu --devices FILE|NAME --socket PATH     emulate these devices until SIGTERM\n"
    "       weir-emulated-gpu stats --socket PATH [--json]          what each process has used of each device\n"
    "       weir-emulated-gpu check FILE|NAME                       read a description and say what is in it\n"
    "\n"
    "Emulated GPUs for programs on a machine without a GPU: a CPU driver computes, a model says when.\n"
    "\n"
    "  weir-emulated-gpu --devices four-cards --socket /tmp/gpu.sock &\n"
    "  export WEIR_EMULATOR_SOCKET=/tmp/gpu.sock WEIR_EMULATED_DEVICE=0\n"
    "  export LD_LIBRARY_PATH=.../lib/weir/emulated __GLX_VENDOR_LIBRARY_NAME=weiremulated\n"
    "  glmark2 &  weir-emulated-gpu stats --socket /tmp/gpu.sock\n"
    "\n"
    "  --devices FILE|NAME  a description of devices, or one of: one-small-card, four-cards, two-unlike-cards\n"
    "  --socket PATH        where drivers connect\n"
    "  --parent PID         end when this process has ended and no driver is connected\n"
    "  --json               the accounts as JSON\n";

int Failed(const Error& error) {
  std::fprintf(stderr, "weir-emulated-gpu: %s\n", error.message.c_str());
  return EntryOf(error.code).exit_code;
}

int Usage(const std::string& what) {
  std::fprintf(stderr, "weir-emulated-gpu: %s; see weir-emulated-gpu --help\n", what.c_str());
  return 2;
}

std::vector<std::string> Folders() {
  std::error_code none;
  return emulator::DescriptionFolders(std::filesystem::read_symlink("/proc/self/exe", none));
}

/// With a parent, waits until an emulator that still serves clients of a former parent has ended. No descriptor: the
/// parent has ended.
Result<platform::Fd> Listen(const std::string& socket, int parent) {
  constexpr int kLookAgainMs = 100;
  for (bool said = false;; said = true) {
    auto listener = platform::ListenSeqPacket(socket, 0666);
    if (listener || parent < 0 || listener.error().code != Errc::kBusy) return listener;
    if (!said)
      std::fprintf(stderr, "weir-emulated-gpu: the emulator at %s still has clients; they keep it\n", socket.c_str());
    if (platform::WaitReadable(parent, kLookAgainMs)) return platform::Fd();
  }
}

Status Serve(const std::string& devices, const std::string& socket, pid_t parent_pid) {
  WEIR_TRY(emulator::Emulated emulated, emulator::LoadDevices(devices, Folders()));
  platform::Fd parent;
  if (parent_pid != 0) {
    WEIR_TRY(parent, platform::OpenPidFd(parent_pid));
  }
  WEIR_TRY(platform::Fd listener, Listen(socket, parent.get()));
  if (!listener) return Ok();
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  const platform::Fd stop(::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
  for (const emulator::DeviceDescription& device : emulated.devices)
    std::fprintf(stderr, "weir-emulated-gpu: %s (emulated), %s\n", device.name.c_str(), device.pci.c_str());
  emulator::Service service(std::move(emulated), std::move(listener));
  Status ended = service.Run(stop.get(), parent.get());
  ::unlink(socket.c_str());
  return ended;
}

Result<std::string> AskAccounts(const std::string& socket) {
  constexpr int kWithinMs = 5'000;
  WEIR_TRY(const platform::Fd connection, platform::ConnectSeqPacket(socket));
  for (const wire::Message& message :
       {wire::Message(wire::Hello{.program = "stats"}), wire::Message(wire::AskAccounts{})})
    WEIR_TRY_STATUS(platform::SendPacket(connection.get(), wire::Encode(message)));
  for (;;) {
    if (!platform::WaitReadable(connection.get(), kWithinMs))
      return Fail(Errc::kTimeout, "the emulator at " + socket + " does not answer");
    WEIR_TRY(const platform::Packet packet,
             platform::ReceivePacket(connection.get(), wire::kMessageBytesMax, platform::Descriptors::kRefused));
    if (packet.bytes.empty()) return Fail(Errc::kUnavailable, "the emulator at " + socket + " has gone");
    WEIR_TRY(const wire::Message message, wire::Decode(packet.bytes));
    if (const auto* accounts = std::get_if<wire::Accounts>(&message)) return accounts->text;
    if (const auto* refusal = std::get_if<wire::Refusal>(&message)) return Fail(Errc::kUnavailable, refusal->text);
  }
}

/// When a fault comes: "after 200", "at 1.5 s".
std::string WhenText(const nlohmann::json& fault) {
  char text[64];
  if (fault.contains("after"))
    std::snprintf(text, sizeof text, "after %.0f", fault.value("after", 0.0));
  else
    std::snprintf(text, sizeof text, "at %g s", fault.value("at_ns", 0.0) * 1e-9);
  return text;
}

Status ShowStats(const std::string& socket, bool json) {
  WEIR_TRY(const std::string text, AskAccounts(socket));
  if (json) {
    std::printf("%s\n", text.c_str());
    return Ok();
  }
  const auto accounts = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!accounts.is_object()) return Fail(Errc::kProtocol, "the emulator's accounts are no JSON object");
  for (const auto& device : accounts.value("devices", nlohmann::json::array())) {
    std::printf("%s  %s  compute %.3f s busy, memory %.0f of %.0f MiB\n", device.value("name", "").c_str(),
                device.value("pci", "").c_str(), device["busy_ns"].value("compute", 0.0) * 1e-9,
                device.value("memory_used_bytes", 0.0) / (1 << 20), device.value("memory_bytes", 0.0) / (1 << 20));
    for (const auto& fault : device.value("faults", nlohmann::json::array()))
      std::printf("  fault %s %s: %s, hit %.0f\n", fault.value("kind", "").c_str(), WhenText(fault).c_str(),
                  fault.value("state", "").c_str(), fault.value("hit", 0.0));
    for (const auto& client : device.value("clients", nlohmann::json::array()))
      std::printf("  %8d  %-24s compute %.3f s, copies in %.3f s, out %.3f s, memory %.0f MiB\n",
                  client.value("pid", 0), client.value("program", "").c_str(),
                  client["busy_ns"].value("compute", 0.0) * 1e-9, client["busy_ns"].value("copy-in", 0.0) * 1e-9,
                  client["busy_ns"].value("copy-out", 0.0) * 1e-9, client.value("memory_bytes", 0.0) / (1 << 20));
  }
  const auto late = accounts.value("lateness", nlohmann::json::object());
  std::printf("%.0f completions sent, late by %.3f ms (median), %.3f ms (p99)\n", late.value("count", 0.0),
              late.value("median_ns", 0.0) * 1e-6, late.value("p99_ns", 0.0) * 1e-6);
  return Ok();
}

Status Check(const std::string& name) {
  WEIR_TRY(const emulator::Emulated emulated, emulator::LoadDevices(name, Folders()));
  for (const emulator::DeviceDescription& device : emulated.devices)
    std::printf("%s (emulated)\t%s\t%s\t%llu\n", device.name.c_str(), device.uuid.c_str(), device.pci.c_str(),
                static_cast<unsigned long long>(device.model.memory.count));
  return Ok();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 && argv[1][0] != '-' ? argv[1] : "";
  std::string devices, socket;
  bool json = false;
  pid_t parent = 0;
  enum { kDevices = 1, kSocket, kJson, kParent };
  constexpr option kOptions[] = {{"devices", required_argument, nullptr, kDevices},
                                 {"socket", required_argument, nullptr, kSocket},
                                 {"parent", required_argument, nullptr, kParent},
                                 {"json", no_argument, nullptr, kJson},
                                 {"help", no_argument, nullptr, 'h'},
                                 {nullptr, 0, nullptr, 0}};
  for (int which = 0; (which = ::getopt_long(argc, argv, ":h", kOptions, nullptr)) != -1;) {
    switch (which) {
      case kDevices: devices = optarg; break;
      case kSocket: socket = optarg; break;
      case kJson: json = true; break;
      case kParent: parent = std::atoi(optarg); break;
      case 'h': std::fputs(kUsage, stdout); return 0;
      default: return Usage(platform::OptionError(which, argv));
    }
  }
  Status status = Ok();
  if (command == "check") {
    if (argc - optind != 2) return Usage("check takes a file or a name");
    status = Check(argv[optind + 1]);
  } else if (command == "stats") {
    if (socket.empty()) return Usage("stats needs --socket");
    status = ShowStats(socket, json);
  } else if (!command.empty()) {
    return Usage("unknown command '" + command + "': there are stats and check");
  } else {
    if (devices.empty() || socket.empty()) return Usage("--devices and --socket are needed");
    status = Serve(devices, socket, parent);
  }
  return status ? 0 : Failed(status.error());
}
