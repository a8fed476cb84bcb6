// SPDX-License-Identifier: Apache-2.0
// weir-gpu-account: tells the daemon what the driver's account says of each process. The daemon itself opens no driver.
#include <getopt.h>
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "account/emulator_account.h"
#include "http/client.h"
#include "http/json_api.h"
#include "platform/process.h"

namespace {

using namespace weir;

/// Charges are corrected ten times a second: often enough that a share is right within a second, and 0.1 % of a CPU.
constexpr int kEveryMs = 100;
constexpr Duration kAnswerWithin = seconds(2);

constexpr const char* kUsage =
    "Usage: weir-gpu-account --emulator SOCKET [--control SOCKET --device NAME ...] [OPTIONS]\n"
    "\n"
    "Reads how long each process has used the emulated GPUs of an emulator. 'weir serve --device emulated:FILE' "
    "starts\n"
    "it. Without --control it prints the account once, in the form of DRM's /proc/PID/fdinfo.\n"
    "\n"
    "  --emulator SOCKET  of weir-emulated-gpu\n"
    "  --control SOCKET   tell the daemon at this socket, ten times a second\n"
    "  --device NAME      the daemon's name of the emulator's first device; again for its second, and so on\n"
    "  --parent PID       end when this process has ended\n"
    "\n"
    "EXAMPLE\n"
    "  weir-gpu-account --emulator /run/weir/emulator-0.sock\n";

int Failed(const Error& error) {
  std::fprintf(stderr, "weir-gpu-account: %s\n", error.message.c_str());
  return EntryOf(error.code).exit_code;
}

int Usage(const char* what) {
  std::fprintf(stderr, "weir-gpu-account: %s; see weir-gpu-account --help\n", what);
  return 2;
}

Status Print(const std::string& emulator) {
  WEIR_TRY(account::EmulatorAccount account, account::EmulatorAccount::Connect(emulator));
  for (std::uint32_t i = 0; i < account.devices().size(); ++i) {
    WEIR_TRY(const account::DeviceUse use, account.Read(i));
    for (const account::ClientUse& client : use.clients)
      std::printf("pid:\t%lld\n%s\n", static_cast<long long>(client.pid),
                  account::FdinfoText(client, account.devices()[i]).c_str());
  }
  return Ok();
}

Status Tell(account::EmulatorAccount& account, const std::string& control, const std::vector<std::string>& devices) {
  nlohmann::json body{{"devices", nlohmann::json::array()}};
  for (std::uint32_t i = 0; i < devices.size(); ++i) {
    WEIR_TRY(const account::DeviceUse use, account.Read(i));
    nlohmann::json processes = nlohmann::json::array();
    for (const account::ClientUse& client : use.clients)
      processes.push_back({{"key", client.key}, {"pid", client.pid}, {"used_ns", client.Sum().count()}});
    body["devices"].push_back(
        {{"device", devices[i]}, {"busy_ns", use.busy.count()}, {"processes", std::move(processes)}});
  }
  const http::Call call{.method = "PUT", .target = "/v1/use", .body = body.dump()};
  WEIR_TRY(const http::Answer answer, http::AskUnix(control, call, kAnswerWithin));
  WEIR_TRY_STATUS(http::ObjectOf(answer, "asked the daemon at " + control + " for " + call.method + " " + call.target));
  return Ok();
}

Status ConnectAndTell(std::optional<account::EmulatorAccount>& account, const std::string& emulator,
                      const std::string& control, const std::vector<std::string>& devices) {
  if (!account) {
    WEIR_TRY(account, account::EmulatorAccount::Connect(emulator));
  }
  if (account->devices().size() < devices.size())
    return Fail(Errc::kInvalidArgument, "the emulator at " + emulator + " has fewer devices than --device names");
  return Tell(*account, control, devices);
}

/// Until the parent has ended, or for ever. A failure is printed once, and tried again.
Status Watch(const std::string& emulator, const std::string& control, const std::vector<std::string>& devices,
             int parent_pid) {
  platform::Fd parent;
  if (parent_pid != 0) {
    WEIR_TRY(parent, platform::OpenPidFd(parent_pid));
  }
  std::optional<account::EmulatorAccount> account;
  std::string printed;
  int failures = 0;
  for (;;) {
    const Status status = ConnectAndTell(account, emulator, control, devices);
    if (!status) account.reset();
    failures = status ? 0 : failures + 1;
    // The emulator and the daemon start beside this program: the first failures are expected.
    constexpr int kQuietFailures = 20;
    const std::string why = status || failures < kQuietFailures ? std::string() : status.error().message;
    if (!why.empty() && why != printed) std::fprintf(stderr, "weir-gpu-account: %s\n", why.c_str());
    if (status || !why.empty()) printed = why;
    pollfd ended{.fd = parent.get(), .events = POLLIN, .revents = 0};
    if (::poll(&ended, 1, kEveryMs) > 0) return Ok();
  }
}

}  // namespace

int main(int argc, char** argv) {
  enum { kEmulator = 1, kControl, kDevice, kParent };
  constexpr option kOptions[] = {{"emulator", required_argument, nullptr, kEmulator},
                                 {"control", required_argument, nullptr, kControl},
                                 {"device", required_argument, nullptr, kDevice},
                                 {"parent", required_argument, nullptr, kParent},
                                 {"help", no_argument, nullptr, 'h'},
                                 {nullptr, 0, nullptr, 0}};
  std::string emulator, control;
  std::vector<std::string> devices;
  int parent = 0;
  for (int which = 0; (which = ::getopt_long(argc, argv, "h", kOptions, nullptr)) != -1;) {
    switch (which) {
      case kEmulator: emulator = optarg; break;
      case kControl: control = optarg; break;
      case kDevice: devices.emplace_back(optarg); break;
      case kParent: parent = std::atoi(optarg); break;
      case 'h': std::fputs(kUsage, stdout); return 0;
      default: return Usage("the options are wrong");
    }
  }
  if (optind != argc) return Usage("an argument too many");
  if (emulator.empty()) return Usage("--emulator is needed");
  if (control.empty() != devices.empty()) return Usage("--control and --device go together");
  const Status status = control.empty() ? Print(emulator) : Watch(emulator, control, devices, parent);
  return status ? 0 : Failed(status.error());
}
