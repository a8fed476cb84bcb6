// SPDX-License-Identifier: Apache-2.0
#include "cluster/manager.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <variant>

#include "cluster/addresses.h"
#include "cluster/cluster_json.h"
#include "http/json_api.h"
#include "platform/clock.h"

namespace weir::cluster {
namespace {

std::string LogLine(const engine::NodeJoined& joined) {
  return fmt::format("node {} is here with {} devices", joined.node, joined.devices);
}
std::string LogLine(const engine::NodeLost& lost) {
  return fmt::format("node {} is lost: not heard of for {:.1f} s; it had {} runs", lost.node, SecondsOf(lost.silent),
                     lost.runs);
}

}  // namespace

using nlohmann::ordered_json;

Manager::Manager(boost::asio::io_context& loop, StateStore& store, modules::ModuleStore blobs, ManagerOptions options,
                 std::function<void(Error)> fatal)
    : loop_(loop),
      store_(store),
      blobs_(std::move(blobs)),
      options_(std::move(options)),
      fatal_(std::move(fatal)),
      why_not_("it has just been started"),
      replies_(loop),
      timer_(loop),
      blob_keeper_(loop, blobs_, options_.keep_blobs, [this] { return NamedBlobs(); }),
      blob_worker_(loop, blobs_) {
  const std::weak_ptr<bool> alive = alive_;
  keeper_ = std::make_unique<LeadKeeper>(
      loop_, store_, options_.self,
      LeadKeeper::Callbacks{.leads =
                                [this, alive](Lead lead, const std::vector<Entry>& entries) {
                                  if (!alive.expired()) TakeLead(lead, entries);
                                },
                            .follows =
                                [this, alive](const std::string& leader, const std::string& why) {
                                  if (!alive.expired()) StepDown(leader, why);
                                }});
}

Manager::~Manager() {
  alive_.reset();
  // The writer ends before the keeper gives up the lead, because pending writes need the lead.
  writer_.reset();
  keeper_.reset();
}

std::optional<std::vector<std::string>> Manager::NamedBlobs() const {
  if (!engine_) return std::nullopt;
  std::vector<std::string> named;
  for (const auto& [name, module] : engine_->modules()) named.push_back(module.blob);
  for (const auto& inspection : inspections_) named.push_back(inspection->blob);
  for (const auto& [id, run] : engine_->runs())
    named.insert(named.end(), {run.request.blob, run.request.input, run.result.output});
  return named;
}

void Manager::TakeLead(Lead lead, const std::vector<Entry>& entries) {
  auto records = RecordsOf(entries);
  if (!records) return fatal_(records.error());
  auto placement = core::MakePlacement(options_.placement, {});
  if (!placement) return fatal_(placement.error());
  lead_ = lead;
  const std::uint64_t led = ++led_;
  const std::weak_ptr<bool> alive = alive_;
  writer_ = std::make_unique<StateWriter>(
      loop_, store_, lead,
      [this, alive, led](std::uint64_t sequence) {
        if (alive.expired() || led != led_ || !engine_) return;
        engine::ClusterActions actions;
        WEIR_CHECK(Step(engine::Stored{sequence}, actions).has_value());
      },
      [this, alive, led](const Error& error) {
        if (alive.expired() || led != led_ || !engine_) return;
        StepDown("", error.message);
        keeper_->StartAgain();
      });
  engine_ = std::make_unique<engine::ClusterEngine>(std::move(*placement), lead.fence, options_.bounds);
  engine::ClusterActions actions;
  engine_->Restore(platform::Now(), *records, actions);
  if (!options_.quiet)
    std::fprintf(stderr, "weir-manager: leads, with %zu runs, %zu nodes and %zu modules (fence %llu)\n",
                 records->runs.size(), records->nodes.size(), records->modules.size(),
                 static_cast<unsigned long long>(lead.fence));
  SendWrites(actions);
  ArmTimer();
}

void Manager::StepDown(const std::string& leader, const std::string& why) {
  if (engine_ && !options_.quiet) std::fprintf(stderr, "weir-manager: leads no more: %s\n", why.c_str());
  leader_ = leader;
  why_not_ = why;
  ++led_;
  writer_.reset();
  engine_.reset();
  inspections_.clear();
  replies_.SendAll(NotLeading());
}

void Manager::SendWrites(engine::ClusterActions& actions) {
  for (const engine::RecordWrite& write : actions.writes) writer_->Add(write.sequence, ChangeOf(write));
  if (!options_.quiet)
    for (const engine::ClusterDecision& decision : actions.decisions)
      std::fprintf(stderr, "weir-manager: %s\n",
                   std::visit([](const auto& node) { return LogLine(node); }, decision).c_str());
}

Status Manager::Step(const engine::ClusterEvent& event, engine::ClusterActions& actions) {
  WEIR_TRY_STATUS(engine_->Step(platform::Now(), event, actions));
  SendWrites(actions);
  replies_.SendDue();
  ArmTimer();
  return Ok();
}

void Manager::ArmTimer() {
  const Instant next = engine_->LookAgain();
  if (next == core::kNever) return;
  timer_.expires_after(std::max(next - platform::Now(), Duration(milliseconds(1))));
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error) {
    if (error || alive.expired() || !engine_) return;
    engine::ClusterActions actions;
    WEIR_CHECK(Step(engine::LookAround{}, actions).has_value());
  });
}

void Manager::WhenConfirmed(std::function<http::Reply()> answer, http::Respond respond) {
  constexpr Duration kConfirmedMax = seconds(20);  // longer than the writer's limit, after which it gives up the lead
  const std::uint64_t sequence = engine_->sequence();
  const auto confirmed = [this, sequence] { return engine_->confirmed() >= sequence; };
  replies_.Hold(
      confirmed, [this, confirmed, answer = std::move(answer)] { return confirmed() ? answer() : NotLeading(); },
      std::move(respond), kConfirmedMax);
}

http::Reply Manager::NotLeading() const {
  const std::string message = leader_.empty() ? "this manager does not lead now (" + why_not_ + "): try again"
                                              : "this manager does not lead: ask " + leader_;
  ordered_json body{{"error", {{"code", NameOf(Errc::kUnavailable)}, {"message", message}}}};
  if (!leader_.empty()) body["leader"] = leader_;
  return http::JsonReply(body, EntryOf(Errc::kUnavailable).http_status);
}

}  // namespace weir::cluster
