// SPDX-License-Identifier: Apache-2.0
// Both ends of a gate in one process (and in forked children), for tests of normal operation and of the death of one
// end.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "gate/agent.h"
#include "gate/host.h"
#include "platform/clock.h"
#include "tests/harness/child.h"
#include "tests/harness/code_of.h"
#include "tests/harness/gate_host.h"
#include "tests/harness/raw_client.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::gate {

using proto::CommandKind;
using proto::GateMode;
using weir::testing::Child;
using weir::testing::CodeOf;
using weir::testing::GateHost;
using weir::testing::RawClient;
using weir::testing::TempFolder;
using weir::testing::WaitUntil;

inline constexpr std::int64_t kFirstPredictionNs = 1'000'000;

inline Ticket EnterNow(Agent& agent) { return agent.Enter(platform::NowNs()); }

inline void LeaveNow(Agent& agent, const Ticket& ticket, std::int64_t gpu_ns) {
  const std::int64_t now_ns = platform::NowNs();
  agent.Leave(
      ticket,
      {.surface = 0, .begin_ns = now_ns, .present_ns = now_ns - ticket.wait_ns, .end_ns = now_ns, .gpu_ns = gpu_ns});
}

/// Presents one frame. True: it passed a gate.
inline bool Present(Agent& agent, std::int64_t gpu_ns = 0) {
  const Ticket ticket = EnterNow(agent);
  LeaveNow(agent, ticket, gpu_ns);
  return ticket.attachment != nullptr;
}

/// More than one attempt is needed only if the machine is so busy that the first answer comes too late.
inline bool PresentUntilAttached(Agent& agent) {
  return WaitUntil([&agent] { return Present(agent); });
}

/// A thread that presents once, and whose passing can be observed.
class Presenter {
 public:
  explicit Presenter(Agent& agent)
      : thread_([this, &agent] {
          ticket_ = EnterNow(agent);
          passed_ = true;
        }) {}
  ~Presenter() { thread_.join(); }
  [[nodiscard]] bool passed() const { return passed_; }
  [[nodiscard]] const Ticket& ticket() const { return ticket_; }

 private:
  Ticket ticket_;
  std::atomic<bool> passed_{false};
  std::thread thread_;
};

class Gate : public ::testing::Test {
 protected:
  Gate() : path_(folder_ / "v"), host_(std::make_unique<GateHost>(path_)) {}

  GateHost& host() { return *host_; }
  /// Attaches with a frame that costs nothing and leaves no record.
  bool Attach(Agent& agent) {
    const bool attached = PresentUntilAttached(agent);
    host_->Settle();
    host_->Drain();
    return attached;
  }
  /// From now on agents wait for an allowance.
  void CloseGate() {
    host_->SetAllowance(0);
    host_->SetMode(GateMode::kGated);
  }
  Agent MakeAgent(const std::string& program = "test") { return Agent(path_, proto::Api::kGl, program); }

  TempFolder folder_;
  const std::string path_;
  std::unique_ptr<GateHost> host_;
};

}  // namespace weir::gate
