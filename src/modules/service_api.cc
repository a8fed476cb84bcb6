// SPDX-License-Identifier: Apache-2.0
// The service API: docs/protocol/modules-api.md.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "http/fields.h"
#include "http/json_api.h"
#include "http/route.h"
#include "modules/service.h"
#include "modules/sha256.h"
#include "platform/clock.h"
#include "platform/files.h"

namespace weir::modules {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kStateBytesMax = 16u << 20;
constexpr std::size_t kModulesMax = 1'000;
constexpr std::size_t kInspectionsMax = 8;
constexpr std::uint64_t kWaitMsMax = 30'000;
constexpr const char* kPage = "docs/protocol/modules-api.md";

}  // namespace

Service::Service(boost::asio::io_context& loop, ModuleStore store, std::unique_ptr<core::Placement> placement,
                 ServiceOptions options)
    : loop_(loop),
      store_(std::move(store)),
      blobs_(loop, store_),
      options_(std::move(options)),
      book_(std::move(placement)),
      replies_(loop),
      deadline_(loop) {}

Service::~Service() = default;

Result<std::unique_ptr<Service>> Service::Start(boost::asio::io_context& loop, ModuleStore store,
                                                ServiceOptions options) {
  WEIR_TRY(auto placement, core::MakePlacement(options.placement, {}));
  std::unique_ptr<Service> service(new Service(loop, std::move(store), std::move(placement), std::move(options)));
  WEIR_TRY_STATUS(service->LoadModules());
  service->keeper_ = std::make_unique<BlobKeeper>(loop, service->store_, service->options_.keep_blobs,
                                                  [raw = service.get()] { return std::optional(raw->NamedBlobs()); });
  Slot& first = service->slots_[DeviceId{1}];
  first.id = DeviceId{1};
  service->StartHost(first);
  return service;
}

std::vector<std::string> Service::NamedBlobs() const {
  std::vector<std::string> named;
  for (const auto& [name, module] : modules_) named.push_back(module.blob);
  for (const auto& [number, inspection] : inspections_) named.push_back(inspection.blob);
  for (const Run* run : book_.Runs()) named.insert(named.end(), {run->spec.blob, run->spec.input, run->output});
  return named;
}

Status Service::LoadModules() {
  if (options_.state_file.empty()) return Ok();
  const auto text = platform::ReadFile(options_.state_file, kStateBytesMax);
  if (!text && text.error().code == Errc::kNotFound) return Ok();
  auto modules = text ? ModulesFrom(*text) : Result<std::map<std::string, RegisteredModule>>(text.error());
  if (!modules)
    return Fail(modules.error().code,
                fmt::format("the saved modules {0} can't be used: {1}; the service does not start, so that nothing is "
                            "lost. To start with no module: 'mv {0} {0}.damaged'",
                            options_.state_file, modules.error().message));
  modules_ = std::move(*modules);
  return Ok();
}

void Service::SaveModules() {
  if (options_.state_file.empty()) return;
  const Status saved = platform::WriteFileAtomically(options_.state_file, SavedModules(modules_));
  if (!saved)
    std::fprintf(stderr, "weir-modules: %s; the modules registered since are lost by a restart\n",
                 saved.error().message.c_str());
}

void Service::Handle(const http::Request& request, http::Respond respond) {
  const http::Route route(request);
  const std::string third = route.Part(2);
  if (route.Is("GET PUT", "/v1/blobs/*")) return blobs_.Answer(request, third, respond);
  if (route.Is("GET PUT DELETE", "/v1/modules/*")) return HandleModule(request, third, std::move(respond));
  if (route.Is("GET PUT DELETE", "/v1/runs/*")) return HandleRun(request, third, std::move(respond));
  auto list = ordered_json::array();
  if (route.Is("GET", "/v1/modules")) {
    for (const auto& [name, module] : modules_) list.push_back(ToJson(name, module));
    respond(http::JsonReply({{"modules", std::move(list)}}));
  } else if (route.Is("GET", "/v1/runs")) {
    for (const Run* run : book_.Runs()) list.push_back(ToJson(*run, platform::Now()));
    respond(http::JsonReply({{"runs", std::move(list)}}));
  } else if (route.Is("GET", "/v1/devices")) {
    for (const auto& view : book_.Devices()) list.push_back(ToJson(view, slots_.at(view.id).model));
    ordered_json reply{{"devices", std::move(list)}};
    if (const core::InterferenceModel* model = book_.model(); model != nullptr) reply["interference"] = ToJson(*model);
    respond(http::JsonReply(reply));
  } else if (route.At("/v1/blobs/*")) {
    respond(http::ErrorReply(route.WrongMethod("GET and PUT")));
  } else if (route.At("/v1/modules/*") || route.At("/v1/runs/*")) {
    respond(http::ErrorReply(route.WrongMethod("GET, PUT and DELETE")));
  } else if (route.At("/v1/modules") || route.At("/v1/runs") || route.At("/v1/devices")) {
    respond(http::ErrorReply(route.WrongMethod("GET")));
  } else {
    respond(http::ErrorReply(route.NotFound(kPage)));
  }
}

void Service::HandleModule(const http::Request& request, const std::string& name, http::Respond respond) {
  if (!IsPlainName(name))
    return respond(http::ErrorReply(
        Fail(Errc::kInvalidArgument, "a module's name is 1 to 64 of A-Z a-z 0-9 . _ -, not '" + name + "'")));
  const auto known = modules_.find(name);
  if (request.method == "GET" || request.method == "DELETE") {
    if (known == modules_.end())
      return respond(http::ErrorReply(Fail(Errc::kNotFound, "no module is registered as '" + name + "'")));
    if (request.method == "GET") return respond(http::JsonReply(ToJson(name, known->second)));
    const std::string blob = known->second.blob;
    modules_.erase(known);
    SaveModules();
    DropBlob(blob);
    return respond(http::JsonReply({{"removed", name}}));
  }
  const auto body = ObjectFrom(request.body, {"blob"});
  if (!body) return respond(http::ErrorReply(body.error()));
  if (!body->contains("blob") || !(*body)["blob"].is_string())
    return respond(http::ErrorReply(Fail(Errc::kInvalidArgument, "'blob' is the SHA-256 of the module's bytes")));
  const auto blob = (*body)["blob"].get<std::string>();
  if (known != modules_.end() && known->second.blob == blob)
    return respond(http::JsonReply(ToJson(name, known->second)));
  if (modules_.size() >= kModulesMax || inspections_.size() >= kInspectionsMax)
    return respond(http::ErrorReply(Fail(
        Errc::kResourceExhausted, fmt::format("{} modules are registered and {} are looked at: at most {} and {}",
                                              modules_.size(), inspections_.size(), kModulesMax, kInspectionsMax))));
  Inspect(name, blob, std::move(respond));
}

Result<http::Reply> Service::PutRun(const http::Request& request, const std::string& id) {
  if (!IsPlainName(id))
    return Fail(Errc::kInvalidArgument, "a run's id is 1 to 64 of A-Z a-z 0-9 . _ -, not '" + id + "'");
  WEIR_TRY(RunRequest asked, RunRequestFrom(request.body));
  RunSpec& spec = asked.spec;
  spec.tenant = std::uint64_t{request.peer_uid} + 1;
  const Run* known = book_.Find(id);
  const auto module = modules_.find(spec.module);
  if (spec.blob.empty()) {
    if (module == modules_.end())
      return Fail(Errc::kNotFound, "no module is registered as '" + spec.module + "'; 'weir module list' shows them");
    spec.blob = module->second.blob;
  }
  if (module != modules_.end() && module->second.blob == spec.blob) {
    const auto& kernels = module->second.kernels;
    const auto kernel = std::ranges::find(kernels, spec.kernel, &KernelLine::name);
    if (kernel == kernels.end())
      return Fail(Errc::kNotFound,
                  fmt::format("module '{}' has no kernel '{}'; its kernels are listed by 'weir module list'",
                              spec.module, spec.kernel));
    if (!asked.has_need) spec.need = kernel->need;
  }
  if (known == nullptr) {
    for (const std::string* blob : {&spec.blob, &spec.input})
      if (!blob->empty() && !store_.Has(*blob))
        return Fail(Errc::kNotFound, "blob " + *blob + " is not in the store: put it first");
    const bool some = std::ranges::any_of(slots_, [](const auto& entry) { return !entry.second.name.empty(); });
    if (!spec.device.empty() && some &&
        std::ranges::none_of(slots_, [&](const auto& entry) { return entry.second.name == spec.device; }))
      return Fail(Errc::kNotFound, "there is no device '" + spec.device + "' here");
  }
  std::vector<BookAction> actions;
  WEIR_TRY(const Run* run, book_.Submit(id, spec, platform::Now(), actions));
  const core::RunId number = run->number;
  Apply(actions);
  return http::JsonReply(ToJson(*book_.Find(number), platform::Now()), 202);
}

void Service::HandleRun(const http::Request& request, const std::string& id, http::Respond respond) {
  if (request.method == "PUT") {
    auto reply = PutRun(request, id);
    return respond(reply ? *std::move(reply) : http::ErrorReply(reply.error()));
  }
  const Run* run = book_.Find(id);
  if (run == nullptr) return respond(http::ErrorReply(Fail(Errc::kNotFound, "no run '" + id + "'")));
  if (request.method == "DELETE") {
    const std::string blob = run->spec.blob;
    std::vector<BookAction> actions;
    book_.Remove(id, platform::Now(), actions);
    replies_.SendDue();
    Apply(actions);
    ForgetDropped(blob);
    return respond(http::JsonReply({{"removed", id}}));
  }
  auto wait = http::QueryNumber(request.query, "wait_ms", 0);
  if (wait && *wait > kWaitMsMax)
    wait = Fail(Errc::kInvalidArgument, fmt::format("wait_ms: {} is over {}", *wait, kWaitMsMax));
  if (!wait) return respond(http::ErrorReply(wait.error()));
  replies_.Hold(
      [this, id] {
        const Run* then = book_.Find(id);
        return then == nullptr || then->over();
      },
      [this, id] {
        const Run* then = book_.Find(id);
        return then != nullptr ? http::JsonReply(ToJson(*then, platform::Now()))
                               : http::ErrorReply(Fail(Errc::kNotFound, "run '" + id + "' was removed"));
      },
      std::move(respond), milliseconds(*wait), request.when_gone);
}

}  // namespace weir::modules
