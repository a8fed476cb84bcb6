// SPDX-License-Identifier: Apache-2.0
// Many processes of one vGPU on an emulated device. Each passes the gate by its own agent and keeps the device busy
// with one frame at a time. A GL program would cost the host too much for a thousand of them.
//
//   gate_crowd ATTACH_SOCKET EMULATOR_SOCKET PROCESSES FRAME_US
//
// Prints one JSON line for each line that it reads: the frames of each process so far, and how many frames of all
// processes passed no gate. Ends, with its children, at the end of its input.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <semaphore>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "emulator/client.h"
#include "gate/agent.h"
#include "platform/clock.h"

namespace {

using namespace weir;

/// Shared by the processes.
struct Tally {
  std::atomic<std::uint64_t> frames{0}, unmanaged{0};
};

/// One process: frames without end. Returns when the emulator has gone.
int PassFrames(const std::string& attach, const std::string& emulator, std::int64_t frame_ns, Tally& tally) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto client = emulator::Client::Connect(emulator, "gate_crowd", nullptr);
  if (!client) {
    std::fprintf(stderr, "gate_crowd: %s\n", client.error().message.c_str());
    return 1;
  }
  gate::Agent agent(attach, proto::Api::kGl, "gate_crowd");
  // A daemon that a thousand processes ask at once answers the last of them late, and its queue may be full. That is
  // not what this program is for. A process that is refused begins nevertheless.
  for (bool asked = false; !asked;) {
    const gate::Ticket first = agent.Arrive(platform::NowNs(), seconds(60));
    agent.Withdraw(first);
    asked = first.attachment != nullptr || agent.last_error().find("refused") != std::string::npos;
    if (!asked) std::fprintf(stderr, "gate_crowd: %s\n", agent.last_error().c_str());
    if (!asked) std::this_thread::sleep_for(gate::kAttachRetry);
  }
  std::binary_semaphore ended{0};
  bool lost = false;
  for (std::int64_t begin_ns = platform::NowNs(); !lost;) {
    const std::int64_t present_ns = platform::NowNs();
    gate::Ticket ticket = agent.Arrive(present_ns);
    agent.Enter(ticket, present_ns);
    if (ticket.attachment == nullptr) ++tally.unmanaged;
    const bool sent = (*client)->Submit({.device = 0, .work_ns = static_cast<std::uint64_t>(frame_ns)},
                                        [&](Instant, Instant, emulator::Client::Ending ending) {
                                          lost = ending != emulator::Client::Ending::kDone;
                                          ended.release();
                                        });
    if (!sent) return 1;
    ended.acquire();
    const std::int64_t end_ns = platform::NowNs();
    agent.Leave(ticket, {.begin_ns = begin_ns, .present_ns = present_ns, .end_ns = end_ns, .gpu_ns = frame_ns});
    begin_ns = end_ns;
    ++tally.frames;
  }
  return 1;
}

void Print(std::span<const Tally> tallies) {
  std::uint64_t unmanaged = 0;
  std::string frames;
  for (const Tally& tally : tallies) {
    unmanaged += tally.unmanaged;
    frames += (frames.empty() ? "" : ", ") + std::to_string(tally.frames);
  }
  std::printf("{\"unmanaged\": %llu, \"frames\": [%s]}\n", static_cast<unsigned long long>(unmanaged), frames.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "Usage: gate_crowd ATTACH_SOCKET EMULATOR_SOCKET PROCESSES FRAME_US\n");
    return 2;
  }
  const auto processes = static_cast<std::size_t>(std::atoi(argv[3]));
  const std::int64_t frame_ns = std::atoll(argv[4]) * 1000;
  void* shared = ::mmap(nullptr, processes * sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    std::perror("gate_crowd: mapping the tallies");
    return 1;
  }
  const std::span tallies(new (shared) Tally[processes], processes);
  std::vector<pid_t> children;
  for (Tally& tally : tallies) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(PassFrames(argv[1], argv[2], frame_ns, tally));
    if (child < 0) {
      std::perror("gate_crowd: forking");
      return 1;
    }
    children.push_back(child);
  }
  for (int c = std::getchar(); c != EOF; c = std::getchar())
    if (c == '\n') Print(tallies);
  for (const pid_t child : children) ::kill(child, SIGKILL);
  while (::wait(nullptr) > 0) continue;
  return 0;
}
