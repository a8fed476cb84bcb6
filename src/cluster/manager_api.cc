// SPDX-License-Identifier: Apache-2.0
// The manager's HTTP API. Errors: docs/protocol/control-api.md; requests: docs/cluster.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "cluster/access.h"
#include "cluster/addresses.h"
#include "cluster/cluster_json.h"
#include "cluster/manager.h"
#include "http/fields.h"
#include "http/json_api.h"
#include "http/route.h"
#include "modules/module_image.h"
#include "modules/sha256.h"
#include "platform/clock.h"

namespace weir::cluster {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::uint64_t kWaitMsMax = 30'000;
constexpr std::uint64_t kWorkWaitMsMax = 500;  // the interval of the members' heartbeats
constexpr std::size_t kInspectionsMax = 8;
constexpr Duration kInspectMax = seconds(25);         // an inspection on one node takes 10 s at most
constexpr Duration kInspectAgainAfter = seconds(12);  // then another node inspects the module

http::Reply ErrorOf(const Status& status) { return http::ErrorReply(status.error()); }

constexpr const char* kPage = "docs/cluster.md";

http::Reply NoRun(const std::string& id) {
  return http::ErrorReply(Fail(Errc::kNotFound, fmt::format("no run {}", id)));
}

http::Reply NothingAt(const http::Request& request) { return http::ErrorReply(http::Route(request).NotFound(kPage)); }

}  // namespace

std::optional<http::Reply> Manager::Refusal(const http::Request& head) const {
  if (options_.tls) {
    const Status may = MayAsk(head);
    if (may) return std::nullopt;
    http::Reply refusal = ErrorOf(may);
    if (options_.audit != nullptr) options_.audit->Add(std::time(nullptr), head, refusal.status);
    return refusal;
  }
  const bool asks_for_life = head.method == "GET" && head.path == "/v1/alive";
  if (asks_for_life || options_.token.empty() || SameToken(head.bearer, options_.token)) return std::nullopt;
  return http::ErrorReply(Fail(Errc::kPermissionDenied, head.bearer.empty()
                                                            ? "this manager requires a token: give --token FILE"
                                                            : "that is not this manager's token"));
}

void Manager::Handle(const http::Request& request, http::Respond respond) {
  if (options_.audit == nullptr || request.method == "GET") return Dispatch(request, std::move(respond));
  http::Request head{.method = request.method, .path = request.path, .holder = request.holder};  // a body may be 64 MiB
  Dispatch(request, [this, head = std::move(head), respond = std::move(respond)](http::Reply reply) {
    if (IsAudited(head, reply.status)) options_.audit->Add(std::time(nullptr), head, reply.status);
    respond(std::move(reply));
  });
}

void Manager::Dispatch(const http::Request& request, http::Respond respond) {
  const http::Route route(request);
  // This request tells whether this process runs. It needs no token, because the reply says only whether this manager
  // leads.
  if (route.Is("GET", "/v1/alive")) return respond(http::JsonReply({{"leads", engine_ != nullptr}}));
  if (auto refusal = Refusal(request)) return respond(std::move(*refusal));
  if (engine_ && keeper_->LeadIsOver()) {
    StepDown("", "its leader's lease expired");
    keeper_->StartAgain();
  }
  const std::string third = route.Part(2);
  if (route.Is("GET", "/v1/cluster")) return respond(ShowCluster());
  if (route.Is("GET", "/metrics")) return respond(Metrics());
  if (route.Is("GET PUT", "/v1/blobs/*")) return HandleBlob(request, third, std::move(respond));
  if (!engine_) return respond(NotLeading());
  if (route.Is("GET", "/v1/runs")) return respond(ListRuns(request.holder));
  if (route.Is("GET", "/v1/nodes")) return respond(ListNodes());
  if (route.Is("GET", "/v1/devices")) return respond(ListDevices());
  if (route.Is("GET", "/v1/modules")) return respond(ListModules());
  if (route.Is("PUT DELETE", "/v1/modules/*")) return HandleModules(request, third, std::move(respond));
  if (route.Is("GET", "/v1/runs/*/explain")) return respond(Explain(request.holder, third));
  if (route.Is("GET PUT DELETE", "/v1/runs/*")) return HandleRuns(request, third, std::move(respond));
  if (route.Is("POST", "/v1/members/*/hello")) return Hello(third, request, std::move(respond));
  if (route.Is("GET", "/v1/members/*/work")) return Work(third, request, std::move(respond));
  if (route.Is("POST", "/v1/members/*/inspected")) return Inspected(third, request, respond);
  if (route.Is("POST", "/v1/members/*/parts")) return Parts(third, request, respond);
  if (route.Is("POST", "/v1/members/*/results")) return Results(third, request, std::move(respond));
  respond(NothingAt(request));
}

void Manager::HandleBlob(const http::Request& request, const std::string& blob, http::Respond respond) {
  if (!modules::IsSha256(blob))
    return respond(http::ErrorReply(Fail(Errc::kInvalidArgument, "a blob is named by its SHA-256: 64 of 0-9 a-f")));
  blob_worker_.Answer(request, blob, std::move(respond));
}

void Manager::HandleModules(const http::Request& request, const std::string& name, http::Respond respond) {
  engine::ClusterActions actions;
  if (request.method == "DELETE") {
    if (const Status status = Step(engine::DropModule{name}, actions); !status) return respond(ErrorOf(status));
    return WhenConfirmed([name] { return http::JsonReply({{"removed", name}}); }, std::move(respond));
  }
  const auto body = http::ParseObject(request.body);
  if (!body) return respond(http::ErrorReply(body.error()));
  const auto field = body->find("blob");
  if (field == body->end() || !field->is_string())
    return respond(http::ErrorReply(Fail(Errc::kInvalidArgument, "'blob' must be the SHA-256 of the module")));
  const auto blob = field->get<std::string>();
  if (!modules::IsSha256(blob))
    return respond(http::ErrorReply(Fail(Errc::kInvalidArgument, "a blob is named by its SHA-256: 64 of 0-9 a-f")));
  // A manager runs no native code; the nodes find out whether the module can be loaded.
  blob_worker_.Get(blob, [this, name, blob, respond = std::move(respond)](const Result<std::string>& bytes) {
    if (!bytes) return respond(http::ErrorReply(bytes.error()));
    if (const Status module = modules::CheckModuleImage(std::as_bytes(std::span(*bytes))); !module)
      return respond(ErrorOf(module));
    if (!engine_) return respond(NotLeading());  // the lead ended meanwhile
    Inspect(name, blob, respond);
  });
}

bool Manager::HasInspection() const {
  const Instant now = platform::Now();
  return std::ranges::any_of(inspections_, [now](const auto& inspection) {
    return !inspection->outcome && now - inspection->given >= kInspectAgainAfter;
  });
}

void Manager::Inspect(const std::string& name, const std::string& blob, http::Respond respond) {
  const auto known = engine_->modules().find(name);
  if (known != engine_->modules().end() && known->second.blob == blob)
    return WhenConfirmed([module = known->second] { return http::JsonReply(JsonOf(module)); }, std::move(respond));
  if (std::ranges::none_of(engine_->Nodes(platform::Now()), [](const engine::ClusterNodeStatus& status) {
        return status.state == engine::NodeState::kUp;
      }))
    return respond(http::ErrorReply(
        Fail(Errc::kUnavailable, "no node has joined that could inspect the module: try again later")));
  if (inspections_.size() >= kInspectionsMax)
    return respond(http::ErrorReply(
        Fail(Errc::kResourceExhausted, fmt::format("{} modules are being looked at: try again", inspections_.size()))));
  auto inspection = std::make_shared<Inspection>();
  inspection->name = name;
  inspection->blob = blob;
  inspections_.push_back(inspection);
  replies_.Hold(
      [this, inspection] { return inspection->outcome && engine_->confirmed() >= inspection->sequence; },
      [this, inspection, name]() -> http::Reply {
        inspections_.remove(inspection);
        if (!inspection->outcome)
          return http::ErrorReply(Fail(Errc::kTimeout, "no node has reported the module's kernels: try again"));
        if (!*inspection->outcome) return ErrorOf(*inspection->outcome);
        const auto module = engine_->modules().find(name);
        if (module == engine_->modules().end())
          return http::ErrorReply(Fail(Errc::kNotFound, fmt::format("module {} was removed meanwhile", name)));
        return http::JsonReply(JsonOf(module->second));
      },
      std::move(respond), kInspectMax);
  replies_.SendDue();  // a held reply may belong to a node that waits for work
}

void Manager::Inspected(const std::string& name, const http::Request& request, const http::Respond& respond) {
  const auto body = http::ParseObject(request.body);
  const json session = body ? body->value("session", json(0U)) : json();
  const json blob = body ? body->value("blob", json("")) : json();
  if (!session.is_number_unsigned() || !blob.is_string())
    return respond(http::ErrorReply(Fail(Errc::kInvalidArgument, "'session' and 'blob' are needed")));
  engine::ClusterActions heard;
  if (const Status status = Step(engine::NodeHeard{name, session.get<std::uint64_t>()}, heard); !status)
    return respond(ErrorOf(status));
  const auto inspections = inspections_;  // a copy: answering a request removes its inspection
  for (const auto& inspection : inspections) {
    if (inspection->outcome || inspection->blob != blob.get<std::string>()) continue;
    if (body->contains("error")) {
      const auto why = http::ObjectOf({.status = 400, .body = request.body}, "asked node " + name + " for its kernels");
      inspection->outcome = Status(why ? Fail(Errc::kInternal, "no reason given") : why.error());
      continue;
    }
    auto kernels = KernelsOf(body->value("kernels", json::array()));
    if (!kernels) return respond(http::ErrorReply(kernels.error()));
    engine::ClusterActions actions;
    inspection->outcome = Step(engine::SetModule{{inspection->name, inspection->blob, std::move(*kernels)}}, actions);
    inspection->sequence = engine_->sequence();
  }
  replies_.SendDue();
  respond(http::JsonReply({{"blob", blob}}));
}

const engine::ClusterRun* Manager::RunFor(const http::Holder& holder, const std::string& id) const {
  const engine::ClusterRun* run = engine_->FindRun(id);
  return run != nullptr && MaySee(holder, *run) ? run : nullptr;
}

http::Reply Manager::RunReply(const http::Holder& holder, const std::string& id, unsigned status) const {
  const engine::ClusterRun* run = RunFor(holder, id);
  if (run == nullptr) return NoRun(id);
  return http::JsonReply(ShownRun(*run), status);
}

void Manager::HandleRuns(const http::Request& request, const std::string& id, http::Respond respond) {
  engine::ClusterActions actions;
  const http::Holder holder = request.holder;
  if (request.method == "PUT") {
    const auto body = http::ParseObject(request.body);
    auto run = body ? RequestOf(*body) : Result<engine::RunRequest>(body.error());
    if (!run) return respond(http::ErrorReply(run.error()));
    if (const Status status = Step(engine::SubmitRun{id, std::move(*run), TenantOf(holder)}, actions); !status)
      return respond(ErrorOf(status));
    return WhenConfirmed([this, holder, id] { return RunReply(holder, id, 202); }, std::move(respond));
  }
  if (request.method == "DELETE") {
    if (RunFor(holder, id) == nullptr) return respond(NoRun(id));
    if (const Status status = Step(engine::RemoveRun{id}, actions); !status) return respond(ErrorOf(status));
    return WhenConfirmed([id] { return http::JsonReply({{"removed", id}}); }, std::move(respond));
  }
  const auto wait_ms = http::QueryNumber(request.query, "wait_ms", 0);
  if (!wait_ms) return respond(http::ErrorReply(wait_ms.error()));
  replies_.Hold(
      [this, holder, id] {
        const engine::ClusterRun* run = RunFor(holder, id);
        return run == nullptr || run->ended();
      },
      [this, holder, id] { return RunReply(holder, id, 200); }, std::move(respond),
      milliseconds(std::min(*wait_ms, kWaitMsMax)), request.when_gone);
}

void Manager::Hello(const std::string& name, const http::Request& request, http::Respond respond) {
  const auto body = http::ParseObject(request.body);
  if (!body) return respond(http::ErrorReply(body.error()));
  engine::NodeHello hello;
  hello.node.name = name;
  const auto identity = body->find("identity");
  if (identity != body->end() && identity->is_string()) hello.node.identity = identity->get<std::string>();
  auto devices = DevicesOf(body->value("devices", json::array()));
  if (!devices) return respond(http::ErrorReply(devices.error()));
  hello.node.devices = std::move(*devices);
  const json has = body->value("runs", json::array());
  for (const json& each : has) {
    const auto attempt = AttemptOf(each);
    if (!attempt) return respond(http::ErrorReply(attempt.error()));
    hello.has.push_back(*attempt);
  }
  engine::ClusterActions actions;
  if (const Status status = Step(hello, actions); !status) return respond(ErrorOf(status));
  WhenConfirmed([session = actions.session] { return http::JsonReply({{"session", session}}); }, std::move(respond));
}

void Manager::Work(const std::string& name, const http::Request& request, http::Respond respond) {
  const auto session = http::QueryNumber(request.query, "session", 0);
  const auto wait_ms = http::QueryNumber(request.query, "wait_ms", 0);
  if (!session || !wait_ms) return respond(http::ErrorReply(session ? wait_ms.error() : session.error()));
  engine::ClusterActions actions;
  if (const Status status = Step(engine::NodeHeard{name, *session}, actions); !status) return respond(ErrorOf(status));
  replies_.Hold([this, name,
                 id = *session] { return engine_->HasWork(name) || HasInspection() || !engine_->IsSession(name, id); },
                [this, name, id = *session]() -> http::Reply {
                  engine::ClusterActions taken;
                  const Status status = engine_->Step(platform::Now(), engine::TakeWork{name, id}, taken);
                  if (!status) return ErrorOf(status);
                  ordered_json body{{"start", ordered_json::array()},
                                    {"drop", ordered_json::array()},
                                    {"inspect", ordered_json::array()}};
                  const Instant now = platform::Now();
                  for (const auto& inspection : inspections_) {
                    if (inspection->outcome || now - inspection->given < kInspectAgainAfter) continue;
                    inspection->given = now;
                    body["inspect"].push_back(inspection->blob);
                  }
                  for (const engine::ClusterRun& run : taken.work.start) {
                    ordered_json each = JsonOf(run.Attempt());
                    each["id"] = run.id;
                    each["run"] = JsonOf(run.request);
                    each["run"]["device"] = run.device;
                    body["start"].push_back(std::move(each));
                  }
                  for (const engine::RunAttempt attempt : taken.work.drop) body["drop"].push_back(JsonOf(attempt));
                  return http::JsonReply(body);
                },
                std::move(respond), milliseconds(std::min(*wait_ms, kWorkWaitMsMax)), request.when_gone);
}

void Manager::Parts(const std::string& name, const http::Request& request, const http::Respond& respond) {
  const auto body = http::ParseObject(request.body);
  if (!body) return respond(http::ErrorReply(body.error()));
  const json session = body->value("session", json()), device = body->value("device", json("")),
             driver = body->value("driver", json(""));
  if (!session.is_number_unsigned() || !device.is_string() || !driver.is_string())
    return respond(http::ErrorReply(
        Fail(Errc::kInvalidArgument, "'session', a number, and the texts 'device' and 'driver' are needed")));
  engine::OfferParts said{.name = name, .session = session.get<std::uint64_t>(), .offer = std::nullopt};
  if (body->contains("offer")) {
    auto offer = OfferOf((*body)["offer"]);
    if (!offer) return respond(http::ErrorReply(offer.error()));
    said.offer = std::move(*offer);
  }
  engine::ClusterActions actions;
  if (const Status status = Step(said, actions); !status) return respond(ErrorOf(status));
  ordered_json nodes = ordered_json::array();
  for (const engine::NodeOffer& one :
       engine_->OffersFor(platform::Now(), name, device.get<std::string>(), driver.get<std::string>())) {
    ordered_json each{{"node", one.node}};
    each.update(JsonOf(one.offer));
    nodes.push_back(std::move(each));
  }
  respond(http::JsonReply({{"nodes", std::move(nodes)}}));
}

void Manager::Results(const std::string& name, const http::Request& request, http::Respond respond) {
  const auto body = http::ParseObject(request.body);
  if (!body) return respond(http::ErrorReply(body.error()));
  const auto session = body->find("session");
  if (session == body->end() || !session->is_number_unsigned())
    return respond(http::ErrorReply(Fail(Errc::kInvalidArgument, "'session' must be the value in the reply to hello")));
  std::vector<engine::RunAttempt> attempts;
  const json results = body->value("results", json::array());
  for (const json& each : results) {
    const auto attempt = AttemptOf(each);
    auto result = attempt ? ResultOf(each) : Result<engine::RunResult>(attempt.error());
    if (!result) return respond(http::ErrorReply(result.error()));
    engine::ClusterActions actions;
    const Status status =
        Step(engine::ResultCame{name, session->get<std::uint64_t>(), *attempt, std::move(*result)}, actions);
    if (!status) return respond(ErrorOf(status));
    attempts.push_back(*attempt);
  }
  WhenConfirmed(
      [this, name, attempts] {
        ordered_json taken = ordered_json::array();
        for (const engine::RunAttempt attempt : attempts)
          if (engine_->IsTaken(name, attempt)) taken.push_back(JsonOf(attempt));
        return http::JsonReply({{"taken", taken}});
      },
      std::move(respond));
}

http::Reply Manager::Explain(const http::Holder& holder, const std::string& id) {
  if (RunFor(holder, id) == nullptr) return NoRun(id);
  const auto candidates = engine_->ExplainRun(id);
  if (!candidates) return http::ErrorReply(candidates.error());
  const engine::ClusterRun* run = engine_->FindRun(id);
  ordered_json body{{"id", id}, {"placement", options_.placement}, {"candidates", ordered_json::array()}};
  if (run != nullptr) body["run"] = ShownRun(*run);
  for (const auto& [node, device, candidate] : *candidates)
    body["candidates"].push_back({{"node", node},
                                  {"device", device},
                                  {"alike", candidate.alike},
                                  {"idle", candidate.idle},
                                  {"room", candidate.room},
                                  {"slowdown", candidate.predicted.slowdown},
                                  {"reason", candidate.reason}});
  return http::JsonReply(body);
}

http::Reply Manager::ListRuns(const http::Holder& holder) const {
  ordered_json list = ordered_json::array();
  for (const auto& [id, run] : engine_->runs())
    if (MaySee(holder, run)) list.push_back(ShownRun(run));
  return http::JsonReply({{"runs", std::move(list)}});
}

http::Reply Manager::ListNodes() const {
  ordered_json list = ordered_json::array();
  for (const engine::ClusterNodeStatus& status : engine_->Nodes(platform::Now())) {
    ordered_json devices = ordered_json::array();
    for (const engine::NodeDevice& device : status.node.devices) devices.push_back(JsonOf(device));
    list.push_back({{"name", status.node.name},
                    {"state", NameOf(status.state)},
                    {"silent_s", SecondsOf(status.silent)},
                    {"running", status.running},
                    {"devices", std::move(devices)}});
    if (status.offer) list.back()["parts"] = JsonOf(*status.offer);
  }
  return http::JsonReply({{"nodes", std::move(list)}});
}

http::Reply Manager::ListModules() const {
  ordered_json list = ordered_json::array();
  for (const auto& [name, module] : engine_->modules()) list.push_back(JsonOf(module));
  return http::JsonReply({{"modules", list}});
}

http::Reply Manager::ListDevices() const {
  ordered_json list = ordered_json::array();
  for (const engine::ClusterNodeStatus& status : engine_->Nodes(platform::Now()))
    for (const engine::NodeDevice& device : status.node.devices) {
      ordered_json body = JsonOf(device);
      body["node"] = status.node.name;
      body["running"] = engine_->RunsOn(status.node.name, device.name);
      body["waiting"] = 0;  // waiting runs belong to the cluster, not to a device
      list.push_back(std::move(body));
    }
  return http::JsonReply({{"devices", std::move(list)}});
}

http::Reply Manager::ShowCluster() const {
  ordered_json body{
      {"self", options_.self}, {"leads", engine_ != nullptr}, {"leader", engine_ ? options_.self : leader_}};
  if (!engine_) return body["why"] = why_not_, http::JsonReply(body);
  const engine::ClusterCounts counts = engine_->Counts();
  body["fence"] = lead_.fence;
  body["placement"] = options_.placement;
  body["writes"] = engine_->sequence();
  body["confirmed"] = engine_->confirmed();
  body["runs"] = {
      {"waiting", counts.waiting}, {"running", counts.running}, {"done", counts.done}, {"failed", counts.failed}};
  body["nodes"] = counts.nodes;
  body["devices"] = counts.devices;
  body["modules"] = counts.modules;
  body["moved_total"] = counts.moved_total;
  body["nodes_lost_total"] = counts.nodes_lost_total;
  return http::JsonReply(body);
}

http::Reply Manager::Metrics() const {
  const engine::ClusterCounts counts = engine_ ? engine_->Counts() : engine::ClusterCounts{};
  struct Line {
    const char *name, *kind, *help;
    std::uint64_t value;
  };
  const std::array lines{
      Line{"weir_cluster_leads", "gauge", "1: this manager leads", engine_ ? 1U : 0U},
      Line{"weir_cluster_fence", "gauge", "revision at which the lead was taken", engine_ ? lead_.fence : 0},
      Line{"weir_cluster_runs_waiting", "gauge", "runs that wait for a device", counts.waiting},
      Line{"weir_cluster_runs_running", "gauge", "runs that are at a node", counts.running},
      Line{"weir_cluster_runs_done", "gauge", "results in storage", counts.done},
      Line{"weir_cluster_runs_failed", "gauge", "failures in storage", counts.failed},
      Line{"weir_cluster_nodes", "gauge", "nodes that are heard of or awaited", counts.nodes},
      Line{"weir_cluster_devices", "gauge", "their devices", counts.devices},
      Line{"weir_cluster_modules", "gauge", "modules that are registered", counts.modules},
      Line{"weir_cluster_placed_total", "counter", "attempts since this manager leads", counts.placed_total},
      Line{"weir_cluster_moved_total", "counter", "of these, not a run's first", counts.moved_total},
      Line{"weir_cluster_nodes_lost_total", "counter", "nodes that were silent for too long", counts.nodes_lost_total},
      Line{"weir_cluster_stale_results_total", "counter", "useless results: of a reassigned attempt, or sent again",
           counts.stale_results_total}};
  std::string text;
  for (const Line& line : lines)
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", line.name, line.help, line.kind, line.value);
  return {.status = 200, .content_type = "text/plain; version=0.0.4", .body = std::move(text)};
}

}  // namespace weir::cluster
