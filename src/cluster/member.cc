// SPDX-License-Identifier: Apache-2.0
#include "cluster/member.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>

#include "http/client.h"
#include "http/json_api.h"
#include "modules/sha256.h"
#include "platform/clock.h"

namespace weir::cluster {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr Duration kManagerMax = seconds(2);  // for most requests
constexpr Duration kBlobMax = seconds(20);    // for a request with up to 64 MiB
constexpr Duration kNodeMax = seconds(5);
/// A manager answers once its store has the results, which may take longer than etcd's election of a leader. A manager
/// that has vanished never answers, and results that wait for it reach the next manager only after this time.
constexpr Duration kResultsMax = seconds(4);
constexpr Duration kTryAgain = milliseconds(100);
constexpr Duration kLookWhileRunning = milliseconds(25);
constexpr Duration kLookIdle = milliseconds(500);
/// A node that does not answer for this long can't run anything. Its member then stops its heartbeats.
constexpr Duration kNodeSilentMax = seconds(3);
constexpr std::size_t kResultsAtOnce = 64;

/// "c.NUMBER.ATTEMPT": the id of a run on its node.
std::string NodeRunName(engine::RunAttempt attempt) { return fmt::format("c.{}.{}", attempt.number, attempt.attempt); }

std::optional<engine::RunAttempt> AttemptNamed(const std::string& name) {
  if (!name.starts_with("c.")) return std::nullopt;
  engine::RunAttempt attempt;
  const char* const end = name.data() + name.size();
  const auto number = std::from_chars(name.data() + 2, end, attempt.number);
  if (number.ec != std::errc() || number.ptr == end || *number.ptr != '.') return std::nullopt;
  const auto count = std::from_chars(number.ptr + 1, end, attempt.attempt);
  if (count.ec != std::errc() || count.ptr != end) return std::nullopt;
  return attempt;
}

engine::RunResult Failed(const Error& error) {
  return {.failed = true, .error_code = std::string(NameOf(error.code)), .error_message = error.message};
}

/// True for errors that may not occur again later.
bool IsPassing(const Error& error) {
  return error.code == Errc::kUnavailable || error.code == Errc::kTimeout || error.code == Errc::kBusy ||
         error.code == Errc::kResourceExhausted || error.code == Errc::kIo;
}

}  // namespace

Member::Member(MemberOptions options, NodeModules* modules) : options_(std::move(options)), modules_(modules) {}

void Member::Run() {
  std::vector<std::thread> others;
  if (options_.parts) others.emplace_back([this] { TalkAboutParts(); });
  if (modules_ != nullptr) {
    others.emplace_back([this] { TalkToNode(); });
    others.emplace_back([this] { GiveResultsBack(); });
  }
  TalkToManager();
}

void Member::SayOnce(const std::string& what) {
  {
    const std::lock_guard guard(mutex_);
    if (options_.quiet || said_ == what) return;
    said_ = what;
  }
  std::fprintf(stderr, "weir-member: %s\n", what.c_str());
}

// -- Requests --------------------------------------------------------------------------------------------------------

void Member::NextManager(std::size_t after) {
  const std::lock_guard guard(mutex_);
  if (manager_ != after) return;
  manager_ = (after + 1) % options_.managers.size();
  given_.Clear();
}

Result<http::Answer> Member::AskManager(http::Call call, Duration timeout) {
  std::size_t which = 0;
  {
    const std::lock_guard guard(mutex_);
    which = manager_;
  }
  const Address& manager = options_.managers[which];
  auto answer = http::tls::Ask(manager.host, manager.port, options_.access, std::move(call), timeout);
  if (!answer || answer->status == EntryOf(Errc::kUnavailable).http_status) NextManager(which);
  return answer;
}

Result<json> Member::AskManagerFor(http::Call call, Duration timeout) {
  const std::string asked = "asked the manager for " + call.method + " " + call.target;
  WEIR_TRY(const http::Answer answer, AskManager(std::move(call), timeout));
  return http::ObjectOf(answer, asked);
}

Result<http::Answer> Member::AskNode(const http::Call& call, Duration timeout) { return modules_->Ask(call, timeout); }

Result<json> Member::AskNodeFor(const http::Call& call, Duration timeout) {
  const std::string asked = "asked " + modules_->name() + " for " + call.method + " " + call.target;
  WEIR_TRY(const http::Answer answer, AskNode(call, timeout));
  return http::ObjectOf(answer, asked);
}

// -- The manager -----------------------------------------------------------------------------------------------------

void Member::TalkToManager() {
  for (;;) {
    bool able = false, greeted = false;
    {
      const std::lock_guard guard(mutex_);
      able = modules_ == nullptr || (node_known_ && platform::Now() - node_heard_ < kNodeSilentMax);
      greeted = session_ != 0;
    }
    if (!able || !(greeted ? TakeWork() : Hello())) std::this_thread::sleep_for(kTryAgain);
  }
}

bool Member::Hello() {
  ordered_json body{
      {"identity", options_.identity}, {"devices", ordered_json::array()}, {"runs", ordered_json::array()}};
  {
    const std::lock_guard guard(mutex_);
    for (const engine::NodeDevice& device : devices_.list()) body["devices"].push_back(JsonOf(device));
    for (const auto& [attempt, held] : held_) body["runs"].push_back(JsonOf(attempt));
  }
  const auto answer = AskManagerFor(
      {.method = "POST", .target = "/v1/members/" + options_.name + "/hello", .body = body.dump()}, kManagerMax);
  if (!answer) {
    SayOnce(answer.error().message);
    // The request itself was refused, so that the next manager would refuse it too.
    if (!IsPassing(answer.error())) std::this_thread::sleep_for(seconds(1));
    return false;
  }
  const std::lock_guard guard(mutex_);
  session_ = answer->value("session", std::uint64_t{0});
  if (!options_.quiet && said_ != "joined")
    std::fprintf(stderr, "weir-member: node %s has joined at %s\n", options_.name.c_str(),
                 options_.managers[manager_].Text().c_str());
  said_ = "joined";
  return session_ != 0;
}

bool Member::TakeWork() {
  std::uint64_t session = 0;
  {
    const std::lock_guard guard(mutex_);
    session = session_;
  }
  const auto work = AskManagerFor(
      {.method = "GET", .target = fmt::format("/v1/members/{}/work?session={}&wait_ms=500", options_.name, session)},
      kManagerMax);
  const std::lock_guard guard(mutex_);
  if (!work) {
    session_ = 0;
    return false;
  }
  const json drop = work->value("drop", json::array());
  for (const json& each : drop)
    if (const auto attempt = AttemptOf(each)) held_.erase(*attempt);
  const json start = work->value("start", json::array());
  for (const json& each : start) {
    const auto attempt = AttemptOf(each);
    if (!attempt || !each.contains("run") || !each["run"].is_object()) continue;
    const json& run = each["run"];
    held_.try_emplace(*attempt, Held{.body = run.dump(),
                                     .blob = run.value("blob", ""),
                                     .input = run.value("input", ""),
                                     .result = std::nullopt});
  }
  const json inspect = work->value("inspect", json::array());
  for (const json& blob : inspect)
    // An inspection takes seconds. The manager hands out few at a time.
    if (blob.is_string())
      std::thread([this, session, name = blob.get<std::string>()] { Inspect(name, session); }).detach();
  if (!drop.empty() || !start.empty()) changed_.notify_all();
  return true;
}

// -- The node --------------------------------------------------------------------------------------------------------

void Member::TalkToNode() {
  for (;;) {
    const bool heard = NodePass();
    if (!heard) {
      std::this_thread::sleep_for(kTryAgain);
      continue;
    }
    std::unique_lock guard(mutex_);
    bool some_run = false;
    for (const auto& [attempt, held] : held_) some_run |= !held.result;
    const std::size_t count = held_.size();
    changed_.wait_for(guard, some_run && !modules_->reports() ? kLookWhileRunning : kLookIdle,
                      [&] { return held_.size() != count || look_at_node_; });
    look_at_node_ = false;
  }
}

bool Member::NodePass() {
  auto devices = AskNodeFor({.method = "GET", .target = "/v1/devices"}, kNodeMax);
  const auto runs =
      devices ? AskNodeFor({.method = "GET", .target = "/v1/runs"}, kNodeMax) : Result<json>(devices.error());
  if (!runs) {
    SayOnce(runs.error().message);
    return false;
  }
  const auto known = DevicesOf(devices->value("devices", json::array()));
  if (!known) {
    SayOnce(known.error().message);
    return false;
  }
  std::map<engine::RunAttempt, json> there;
  const json list = runs->value("runs", json::array());
  for (const json& run : list)
    if (const auto attempt = AttemptNamed(run.value("id", ""))) there.emplace(*attempt, run);

  std::vector<std::pair<engine::RunAttempt, Held>> missing;
  std::vector<engine::RunAttempt> unwanted;
  {
    const std::lock_guard guard(mutex_);
    node_heard_ = platform::Now();
    if (devices_.Update(node_heard_, *known)) session_ = 0;  // a new Hello tells the manager
    if (!node_known_)
      for (const auto& [attempt, run] : there) held_.try_emplace(attempt);
    node_known_ = !devices_.list().empty();
    for (auto at = held_.begin(); at != held_.end();) {
      auto& [attempt, held] = *at;
      const auto run = there.find(attempt);
      if (held.result) {
        ++at;
      } else if (run == there.end() && held.body.empty()) {
        // The node had the run before this member started, and has lost it. Only the manager knows its request.
        session_ = 0;
        at = held_.erase(at);
      } else {
        if (run == there.end()) missing.emplace_back(attempt, held);
        ++at;
      }
    }
    for (const auto& [attempt, run] : there)
      if (!held_.contains(attempt)) unwanted.push_back(attempt);
  }
  for (const engine::RunAttempt attempt : unwanted)
    (void)AskNode({.method = "DELETE", .target = "/v1/runs/" + NodeRunName(attempt)}, kNodeMax).has_value();
  for (const auto& [attempt, held] : missing) Submit(attempt, held);
  for (const auto& [attempt, run] : there)
    if (auto result = ResultOf(run)) EndWith(attempt, std::move(*result));
  return true;
}

void Member::RunEnded(const json& run) {
  const auto attempt = AttemptNamed(run.value("id", ""));
  if (!attempt) return;
  if (auto result = ResultOf(run)) EndWith(*attempt, std::move(*result));
}

void Member::DevicesChanged() {
  const std::lock_guard guard(mutex_);
  look_at_node_ = true;
  changed_.notify_all();
}

void Member::EndWith(engine::RunAttempt attempt, engine::RunResult result) {
  const std::lock_guard guard(mutex_);
  const auto at = held_.find(attempt);
  if (at == held_.end() || at->second.result) return;
  at->second.result = std::move(result);
  changed_.notify_all();
}

void Member::Submit(engine::RunAttempt attempt, const Held& held) {
  const http::Call call{.method = "PUT", .target = "/v1/runs/" + NodeRunName(attempt), .body = held.body};
  auto answer = AskNodeFor(call, kNodeMax);
  if (!answer && answer.error().code == Errc::kNotFound) {
    // Copies missing blobs to the node, unless it shares the manager's store.
    for (const std::string* blob : {&held.blob, &held.input}) {
      if (blob->empty()) continue;
      const Status brought = BringBlob(*blob);
      if (!brought && IsPassing(brought.error())) return SayOnce(brought.error().message);
      if (!brought) return EndWith(attempt, Failed(brought.error()));
    }
    answer = AskNodeFor(call, kNodeMax);
  }
  if (answer) return;
  if (IsPassing(answer.error())) return SayOnce(answer.error().message);
  EndWith(attempt, Failed(answer.error()));
}

Result<json> Member::KernelsByNode(const std::string& blob) {
  // A name that users of the node do not choose. It is registered only for a short time, since runs name the blob.
  const std::string target = "/v1/modules/c." + blob.substr(0, 40);
  const http::Call call{.method = "PUT", .target = target, .body = json{{"blob", blob}}.dump()};
  auto module = AskNodeFor(call, kBlobMax);
  if (!module && module.error().code == Errc::kNotFound) {
    WEIR_TRY_STATUS(BringBlob(blob));
    module = AskNodeFor(call, kBlobMax);
  }
  if (!module) return module;
  (void)AskNode({.method = "DELETE", .target = target}, kNodeMax).has_value();
  return module->value("kernels", json::array());
}

void Member::Inspect(const std::string& blob, std::uint64_t session) {
  const auto kernels = KernelsByNode(blob);
  // Another node may succeed.
  if (!kernels && IsPassing(kernels.error())) return SayOnce(kernels.error().message);
  ordered_json body{{"session", session}, {"blob", blob}};
  if (kernels)
    body["kernels"] = *kernels;
  else
    body["error"] = {{"code", NameOf(kernels.error().code)}, {"message", kernels.error().message}};
  const auto told = AskManagerFor(
      {.method = "POST", .target = "/v1/members/" + options_.name + "/inspected", .body = body.dump()}, kManagerMax);
  if (!told) SayOnce(told.error().message);
}

Status Member::BringBlob(const std::string& blob) {
  WEIR_TRY(const http::Answer answer, AskManager({.method = "GET", .target = "/v1/blobs/" + blob}, kBlobMax));
  if (answer.status != 200) {
    const auto why = http::ObjectOf(answer, "asked the manager for blob " + blob);
    return why ? Fail(Errc::kProtocol, "the manager gave no blob " + blob) : why.error();
  }
  if (modules::Sha256Of(answer.body) != blob)
    return Fail(Errc::kIo, "the manager's data for blob " + blob + " are other bytes");
  WEIR_TRY_STATUS(AskNodeFor(
      {.method = "PUT", .target = "/v1/blobs/" + blob, .body = answer.body, .content_type = "application/octet-stream"},
      kBlobMax));
  return Ok();
}

// -- Results ---------------------------------------------------------------------------------------------------------

Status Member::GiveBlob(const std::string& blob) {
  {
    const std::lock_guard guard(mutex_);
    if (given_.Has(platform::Now(), blob)) return Ok();
  }
  WEIR_TRY(http::Answer bytes, AskNode({.method = "GET", .target = "/v1/blobs/" + blob}, kBlobMax));
  if (bytes.status == EntryOf(Errc::kNotFound).http_status)
    return Fail(Errc::kNotFound, "the node lost its output, blob " + blob);
  if (bytes.status != 200) {
    WEIR_TRY_STATUS(http::ObjectOf(bytes, "asked the node for blob " + blob));
  }
  WEIR_TRY_STATUS(AskManagerFor({.method = "PUT",
                                 .target = "/v1/blobs/" + blob,
                                 .body = std::move(bytes.body),
                                 .content_type = "application/octet-stream"},
                                kBlobMax));
  const std::lock_guard guard(mutex_);
  given_.Add(platform::Now(), blob);
  return Ok();
}

void Member::GiveResultsBack() {
  for (;;) {
    std::vector<std::pair<engine::RunAttempt, engine::RunResult>> ended;
    std::uint64_t session = 0;
    {
      std::unique_lock guard(mutex_);
      changed_.wait_for(guard, kLookIdle, [&] {
        if (session_ == 0) return false;
        ended.clear();
        for (const auto& [attempt, held] : held_)
          if (held.result && ended.size() < kResultsAtOnce) ended.emplace_back(attempt, *held.result);
        return !ended.empty();
      });
      session = session_;
    }
    if (ended.empty() || session == 0) continue;
    ResultsBody body(session);
    bool given = true;
    for (auto& [attempt, result] : ended) {
      if (!result.output.empty()) {
        const Status status = GiveBlob(result.output);
        if (!status && IsPassing(status.error())) {
          SayOnce(status.error().message);
          given = false;
          continue;
        }
        if (!status) result = Failed(status.error());
      }
      if (!body.Add(attempt, result)) break;
    }
    const auto answer = AskManagerFor(
        {.method = "POST", .target = "/v1/members/" + options_.name + "/results", .body = body.Text()}, kResultsMax);
    if (!answer) {
      const std::lock_guard guard(mutex_);
      if (session_ == session) session_ = 0;
    } else {
      const std::lock_guard guard(mutex_);
      const json taken = answer->value("taken", json::array());
      for (const json& each : taken)
        if (const auto attempt = AttemptOf(each)) held_.erase(*attempt);
      changed_.notify_all();
    }
    if (!answer || !given) std::this_thread::sleep_for(kTryAgain);
  }
}

}  // namespace weir::cluster
