// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/trial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/common/child.h"
#include "cli/common/tenant.h"
#include "platform/clock.h"
#include "platform/fd.h"
#include "tools/doctor/process_tree.h"

namespace weir::cli {
namespace {

constexpr int kLookEveryMs = 25;
constexpr int kDaemonPatienceMs = 200;  // to receive the program's last actions before its end

TrialFacts CannotTry(const Error& error) {
  TrialFacts facts;
  facts.code = error.code;
  facts.error = error.message;
  return facts;
}

/// Reads the program's output, so that the program never waits for the trial.
void Drain(int fd, OutputWatch& output) {
  char bytes[16384];
  constexpr int kReadsMax = 64;  // a program may print endlessly
  for (int i = 0; i < kReadsMax; ++i) {
    const ssize_t count = read(fd, bytes, sizeof bytes);
    if (count <= 0) return;
    output.Add({bytes, static_cast<std::size_t>(count)});
  }
}

class Watch {
 public:
  Watch(const ControlClient& client, VgpuView vgpu, pid_t pid)
      : client_(client), vgpu_(std::move(vgpu)), start_(platform::Now()) {
    facts_.pid = pid;
  }

  [[nodiscard]] Duration Elapsed() const { return platform::Now() - start_; }

  /// Reads the state of the daemon and of /proc.
  void Look() {
    MergeTree(LookAtTree(static_cast<pid_t>(facts_.pid)), facts_.tree);
    LookAtDaemon();
  }
  void LookAtDaemon() {
    const auto reply = client_.Get(VgpuTarget(vgpu_.name));
    const auto vgpu = reply ? VgpuFromJson(*reply) : Result<VgpuView>(reply.error());
    if (!vgpu) return;
    facts_.frames = vgpu->totals.frames;
    facts_.fail_opens = vgpu->totals.fail_opens;
    facts_.records_bad = WholeField(reply->value("totals", nlohmann::json::object()), "records_bad");
    for (const ProcessView& process : vgpu->processes) NoteAttached(process);
  }

  TrialFacts Take(std::optional<std::string> ended, const OutputWatch& output, double seconds) {
    facts_.seconds = seconds;
    facts_.ended = std::move(ended);
    facts_.messages = output.messages();
    facts_.last_line = output.last_line();
    if (!facts_.attached.empty()) {
      const double shown = facts_.seconds - facts_.attached.front().attach_seconds;
      facts_.fps = shown > 0 ? static_cast<double>(facts_.frames) / shown : 0;
    }
    for (AttachedProcess& one : facts_.attached)
      one.started_by = AncestryText(facts_.tree, facts_.pid, one.process.pid);
    return std::move(facts_);
  }

 private:
  void NoteAttached(const ProcessView& process) {
    auto known = std::find_if(facts_.attached.begin(), facts_.attached.end(),
                              [&](const AttachedProcess& one) { return one.process.pid == process.pid; });
    if (known == facts_.attached.end()) {
      facts_.attached.push_back({process, {}, SecondsOf(Elapsed()), ""});
      known = std::prev(facts_.attached.end());
    }
    known->process = process;
    const bool named = !process.meter.empty() && process.meter != "none";
    if (named && (known->meters.empty() || known->meters.back() != process.meter))
      known->meters.push_back(process.meter);
  }

  const ControlClient& client_;
  VgpuView vgpu_;
  Instant start_;
  TrialFacts facts_;
};

}  // namespace

void OutputWatch::Add(std::string_view bytes) {
  for (const char c : bytes) {
    if (c == '\n')
      Finish();
    else if (line_.size() < kLineBytesMax)
      line_ += c;
  }
}

void OutputWatch::Finish() {
  // Weir's message may follow a line that the program has begun.
  const std::size_t ours = line_.find("weir: ");
  const bool from_loader =
      line_.find("ERROR: ld.so") != std::string::npos || line_.find("cannot be preloaded") != std::string::npos;
  const std::string message = ours != std::string::npos ? line_.substr(ours) : from_loader ? line_ : "";
  if (!message.empty() && messages_.size() < kMessagesMax &&
      std::find(messages_.begin(), messages_.end(), message) == messages_.end())
    messages_.push_back(message);
  if (!line_.empty()) last_ = std::move(line_);
  line_.clear();
}

std::string AncestryText(const std::vector<TreeProcess>& tree, std::int64_t root, std::int64_t pid) {
  auto find = [&tree](std::int64_t wanted) {
    return std::find_if(tree.begin(), tree.end(), [wanted](const TreeProcess& one) { return one.pid == wanted; });
  };
  std::string text;
  auto at = find(pid);
  for (std::size_t steps = 0; at != tree.end() && at->pid != root && steps < tree.size(); ++steps) {
    at = find(at->parent);
    if (at == tree.end()) return text.empty() ? "an ended process" : "… > " + text;
    text = fmt::format("{}({}){}{}", at->program, at->pid, text.empty() ? "" : " > ", text);
  }
  return text;
}

TrialFacts TryProgram(const ControlClient& client, const TrialPlan& plan, StopSignals& signals) {
  const auto vgpu = MakeEphemeralVgpu(client, EphemeralName(plan.program[0], getpid()), {});
  if (!vgpu) return CannotTry(vgpu.error());
  auto environment = TenantEnvironment(*vgpu, plan.library);
  if (!environment) return CannotTry(environment.error());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return CannotTry(Fail(Errc::kIo, fmt::format("cannot make a pipe: {}", std::strerror(errno))));
  const platform::Fd read_end(ends[0]);
  platform::Fd write_end(ends[1]);
  fcntl(read_end.get(), F_SETFL, O_NONBLOCK);  // only this process's end
  ChildSpec spec;
  spec.argv = plan.program;
  spec.environment = *std::move(environment);
  spec.output_fd = write_end.get();
  auto child = Child::Start(spec);
  if (!child) return CannotTry(child.error());
  write_end.Reset();
  Watch watch(client, *vgpu, child->pid());
  OutputWatch output;
  while (watch.Elapsed() < plan.span && !child->Ended() && !signals.Stopped()) {
    watch.Look();
    Drain(read_end.get(), output);
    signals.WaitFor(milliseconds(kLookEveryMs));
  }
  const double ran = SecondsOf(watch.Elapsed());
  std::optional<std::string> ended = child->Ended();
  if (ended) poll(nullptr, 0, kDaemonPatienceMs);
  watch.Look();
  child->Stop();
  Drain(read_end.get(), output);
  watch.LookAtDaemon();
  TrialFacts facts = watch.Take(std::move(ended), output, ran);
  // The vGPU would end with this process; deleting it first makes the report complete.
  (void)client.Delete(VgpuTarget(vgpu->name) + "?force=true");
  return facts;
}

}  // namespace weir::cli
