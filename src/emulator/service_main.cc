// SPDX-License-Identifier: Apache-2.0
// weir-emulated-gpu: emulated GPUs for real programs (docs/emulated-gpu.md).
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "emulator/device_file.h"
#include "emulator/service.h"
#include "platform/process.h"
#include "platform/service_end.h"
#include "platform/service_options.h"
#include "platform/unix_socket.h"

namespace {

using namespace weir;
namespace wire = proto::emulator;

constexpr const char* kAbout =
    "Usage: weir-emulated-gpu --devices FILE|NAME --socket PATH     emulate these devices until SIGTERM\n"
    "       weir-emulated-gpu stats --socket PATH [--json]          what each process has used of each device\n"
    "       weir-emulated-gpu check FILE|NAME                       read a description and say what is in it\n"
    "\n"
    "Emulated GPUs for programs on a machine without a GPU: a CPU driver computes, a model says when.\n"
    "\n"
    "  weir-emulated-gpu --devices four-cards --socket /tmp/gpu.sock &\n"
    "  export WEIR_EMULATOR_SOCKET=/tmp/gpu.sock WEIR_EMULATED_DEVICE=0\n"
    "  export LD_LIBRARY_PATH=.../lib/weir/emulated __GLX_VENDOR_LIBRARY_NAME=weiremulated\n"
    "  glmark2 &  weir-emulated-gpu stats --socket /tmp/gpu.sock\n";

struct Arguments {
  std::string devices, socket;
  bool json = false;
  pid_t parent = 0;
  std::vector<std::string> command;  // empty: emulate
};

std::vector<std::string> Folders() {
  std::error_code none;
  return emulator::DescriptionFolders(std::filesystem::read_symlink("/proc/self/exe", none));
}

/// Listens on the socket. With a parent, waits until an emulator that still serves clients of a former parent has
/// ended. An empty descriptor: this process was asked to end.
Result<platform::Fd> Listen(const std::string& socket, const platform::ServiceEnd& end) {
  constexpr Duration kLookAgain = milliseconds(100);
  for (bool said = false;; said = true) {
    auto listener = platform::ListenSeqPacket(socket, 0666);
    if (listener || !end.parent || listener.error().code != Errc::kBusy) return listener;
    if (!said)
      std::fprintf(stderr, "weir-emulated-gpu: the emulator at %s still has clients; they keep it\n", socket.c_str());
    if (end.Wait(kLookAgain)) return platform::Fd();
  }
}

Status Serve(const Arguments& arguments) {
  platform::RaiseFileLimit();  // for as many clients as the service takes
  WEIR_TRY(emulator::Emulated emulated, emulator::LoadDevices(arguments.devices, Folders()));
  WEIR_TRY(const platform::ServiceEnd end, platform::ServiceEnd::Watch(arguments.parent));
  WEIR_TRY(platform::Fd listener, Listen(arguments.socket, end));
  if (!listener) return Ok();
  for (const emulator::DeviceDescription& device : emulated.devices)
    std::fprintf(stderr, "weir-emulated-gpu: %s (emulated), %s\n", device.name.c_str(), device.pci.c_str());
  emulator::Service service(std::move(emulated), std::move(listener));
  Status ended = service.Run(end.stop.get(), end.parent.get());
  ::unlink(arguments.socket.c_str());
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

double BusyOf(const nlohmann::json& account, const char* engine) {
  return account.value("busy_ns", nlohmann::json::object()).value(engine, 0.0);
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
                device.value("pci", "").c_str(), BusyOf(device, "compute") * 1e-9,
                device.value("memory_used_bytes", 0.0) / (1 << 20), device.value("memory_bytes", 0.0) / (1 << 20));
    for (const auto& fault : device.value("faults", nlohmann::json::array()))
      std::printf("  fault %s %s: %s, hit %.0f\n", fault.value("kind", "").c_str(), WhenText(fault).c_str(),
                  fault.value("state", "").c_str(), fault.value("hit", 0.0));
    for (const auto& client : device.value("clients", nlohmann::json::array()))
      std::printf("  %8d  %-24s compute %.3f s, copies in %.3f s, out %.3f s, memory %.0f MiB\n",
                  client.value("pid", 0), client.value("program", "").c_str(), BusyOf(client, "compute") * 1e-9,
                  BusyOf(client, "copy-in") * 1e-9, BusyOf(client, "copy-out") * 1e-9,
                  client.value("memory_bytes", 0.0) / (1 << 20));
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
  Arguments arguments;
  platform::ServiceOptions options("weir-emulated-gpu", kAbout);
  options.Add("--devices", "FILE|NAME", arguments.devices,
              "a description of devices, or one of: one-small-card, two-unlike-cards, four-cards, "
              "four-concurrent-cards, one-card-for-products, one-card-of-18-slots, one-card-that-is-sold");
  options.Add("--socket", "PATH", arguments.socket, "where drivers connect");
  options.AddParent(arguments.parent, "end when this process has ended and no driver is connected");
  options.AddFlag("--json", arguments.json, "the accounts as JSON");
  options.AddArguments(arguments.command);
  if (const auto ended = options.Parse(argc, argv)) return *ended;
  if (arguments.command.empty()) {
    if (arguments.devices.empty() || arguments.socket.empty())
      return options.Reject("--devices and --socket are needed");
    return options.ExitStatusOf(Serve(arguments));
  }
  const std::string& command = arguments.command.front();
  const std::size_t words = arguments.command.size();
  if (command == "check") {
    if (words != 2) return options.Reject("check takes a file or a name");
    return options.ExitStatusOf(Check(arguments.command[1]));
  }
  if (command == "stats") {
    if (words != 1) return options.Reject("unexpected argument '" + arguments.command[1] + "'");
    if (arguments.socket.empty()) return options.Reject("stats needs --socket");
    return options.ExitStatusOf(ShowStats(arguments.socket, arguments.json));
  }
  return options.Reject("unknown command '" + command + "': there are stats and check");
}
