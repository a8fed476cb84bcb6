// SPDX-License-Identifier: Apache-2.0
// Keeps emulated devices busy: many clients, each with two commands in flight on a device. For scripts/bench-emulator.
//
//   emulator_load SOCKET CLIENTS WORK_US SECONDS
//
// Prints how many commands have completed, and how many were lost.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include "emulator/client.h"

namespace {

using namespace weir;

/// One client: submits its next command when one has completed.
class Load {
 public:
  Load(std::unique_ptr<emulator::Client> client, std::uint32_t device, std::uint64_t work_ns)
      : client_(std::move(client)), device_(device), work_ns_(work_ns) {}
  void Start() {
    for (int i = 0; i < kInFlight; ++i) Submit();
  }
  /// Waits for the commands in flight.
  void Stop() {
    stopping_ = true;
    for (int i = 0; i < kInFlight; ++i) ended_.acquire();
  }
  [[nodiscard]] std::uint64_t completed() const { return completed_; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  static constexpr int kInFlight = 2;

  void Submit() {
    const bool sent = client_->Submit({.device = device_, .work_ns = work_ns_},
                                      [this](Instant, Instant, emulator::Client::Ending ending) {
                                        const bool lost = ending != emulator::Client::Ending::kDone;
                                        ++(lost ? lost_ : completed_);
                                        lost || stopping_ ? ended_.release() : Submit();
                                      });
    if (sent) return;
    ++lost_;
    ended_.release();
  }

  const std::unique_ptr<emulator::Client> client_;
  const std::uint32_t device_;
  const std::uint64_t work_ns_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> completed_{0}, lost_{0};
  std::counting_semaphore<> ended_{0};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "Usage: emulator_load SOCKET CLIENTS WORK_US SECONDS\n");
    return 2;
  }
  const int clients = std::atoi(argv[2]), work_us = std::atoi(argv[3]), duration = std::atoi(argv[4]);
  std::vector<std::unique_ptr<Load>> loads;
  for (int i = 0; i < clients; ++i) {
    auto client = emulator::Client::Connect(argv[1], "load-" + std::to_string(i), nullptr);
    if (!client) {
      std::fprintf(stderr, "emulator_load: %s\n", client.error().message.c_str());
      return 1;
    }
    const std::size_t devices = (*client)->devices().size();
    loads.push_back(std::make_unique<Load>(std::move(*client), static_cast<std::uint32_t>(i % devices),
                                           static_cast<std::uint64_t>(work_us) * 1000));
  }
  for (auto& load : loads) load->Start();
  std::this_thread::sleep_for(seconds(duration));
  std::uint64_t completed = 0, lost = 0;
  for (auto& load : loads) {
    load->Stop();
    completed += load->completed();
    lost += load->lost();
  }
  std::printf("%llu completed, %llu lost\n", static_cast<unsigned long long>(completed),
              static_cast<unsigned long long>(lost));
  return lost == 0 ? 0 : 1;
}
