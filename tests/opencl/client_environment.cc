// SPDX-License-Identifier: Apache-2.0
// What all tests of the client's calls share: an executor, and where they ask for it a gate, or a relay and a portal.
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "platform/spawn.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"
#include "tests/opencl/client_calls.h"

namespace weir::opencl::icd {
namespace {

/// A gate that takes all slots away and gives them back, by turns.
class ElasticGate {
 public:
  explicit ElasticGate(const std::string& path) : host_(path), thread_([this] { Run(); }) {}
  ~ElasticGate() {
    stop_ = true;
    thread_.join();
  }
  ElasticGate(const ElasticGate&) = delete;
  ElasticGate& operator=(const ElasticGate&) = delete;

 private:
  void Run() {
    for (std::uint32_t turn = 0; !stop_; ++turn) {
      host_.With([turn](gate::VgpuGate& gate) {
        gate.Publish({.memory_limit_slots = 16,
                      .memory_elastic = true,
                      .memory_here_slots = turn % 2 == 0 ? 16U : 0U,
                      .memory_max_slots = 0});
      });
      ::usleep(turn % 2 == 0 ? 5'000 : 2'000);
    }
  }
  testing::GateHost host_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// One executor for all tests: it loads a compiler.
class Executor : public ::testing::Environment {
 public:
  void SetUp() override {
    ::setenv("POCL_CACHE_DIR", (folder_ / "cache").c_str(), 0);
    socket_ = folder_ / "there.sock";
    std::vector<std::string> argv{WEIR_EXECUTOR, "--socket", socket_, "--cpus", "2", "--idle-exit", "600"};
    if (MemoryIsElastic()) {
      gate_ = std::make_unique<ElasticGate>(folder_ / "gate");
      ::usleep(20'000);  // an order is there before it is asked for
      argv.insert(argv.end(), {"--attach", folder_ / "gate"});
      if (InParts()) argv.insert(argv.end(), {"--partition", "always"});
    }
    const auto pid = platform::Spawn({.argv = argv});
    ASSERT_TRUE(pid) << pid.error().message;
    pid_ = *pid;
    AwaitListener(socket_);
    ::setenv("WEIR_OPENCL", IsRemote() ? RelayTo(socket_).c_str() : socket_.c_str(), 1);
  }
  void TearDown() override {
    for (const pid_t pid : {pid_, portal_, relay_}) {
      if (pid == 0) continue;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

 private:
  std::string RelayTo(const std::string& socket) {
    const std::string port_file = folder_ / "port", here = folder_ / "here.sock";
    const std::string folder = socket.substr(0, socket.rfind('/'));
    const auto portal = platform::Spawn({.argv = {::getenv("WEIR_TEST_PORTAL"), "--plain", "--listen", "127.0.0.1:0",
                                                  "--executors", folder, "--port-file", port_file, "--quiet"}});
    EXPECT_TRUE(portal) << portal.error().message;
    portal_ = *portal;
    std::string port;
    testing::WaitUntil([&] { return static_cast<bool>(std::getline(std::ifstream(port_file), port)); });
    const auto relay = platform::Spawn({.argv = {::getenv("WEIR_TEST_RELAY"), "--plain", "--vgpu", "there", "--node",
                                                 "127.0.0.1:" + port, "--socket", here}});
    EXPECT_TRUE(relay) << relay.error().message;
    relay_ = *relay;
    AwaitListener(here);
    return here;
  }

  testing::TempFolder folder_;
  std::unique_ptr<ElasticGate> gate_;
  std::string socket_;
  pid_t pid_ = 0, portal_ = 0, relay_ = 0;
};
const auto* const kExecutor = ::testing::AddGlobalTestEnvironment(new Executor);

}  // namespace
}  // namespace weir::opencl::icd
