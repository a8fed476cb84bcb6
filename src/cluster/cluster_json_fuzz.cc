// SPDX-License-Identifier: Apache-2.0
// Bodies of the manager's API and records of its store. Any bytes are accepted without crashing. A value that was read
// is unchanged after it was written and read again, so that a restart of the manager changes no record; an attempt
// keeps the number that was sent. The first byte selects the kind of input; a record starts with a line that holds its
// key.
#include <cstdint>
#include <cstdlib>

#include "cluster/cluster_json.h"
#include "http/fields.h"

namespace {

using namespace weir;
using namespace weir::cluster;
using nlohmann::json;

void Require(bool holds) {
  if (!holds) std::abort();
}

/// A body as its receiver sees it: written as text and parsed.
json Sent(const nlohmann::ordered_json& body) {
  const auto parsed = json::parse(body.dump(), nullptr, /*allow_exceptions=*/false);
  Require(!parsed.is_discarded());
  return parsed;
}

template <typename Read>
void RequireSameAgain(const json& body, Read read) {
  const auto first = read(body);
  if (!first) return;
  const json once = Sent(JsonOf(*first));
  const auto second = read(once);
  Require(second.has_value());
  Require(Sent(JsonOf(*second)) == once);
}

void RequireSameRecordAgain(const std::string& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const auto first = RecordsOf({{text.substr(0, end), text.substr(std::min(end + 1, text.size()))}});
  if (!first) return;
  std::vector<engine::RecordWrite> writes;
  for (const auto& run : first->runs) writes.push_back({0, engine::RecordWrite::Kind::kRun, run.id, run});
  for (const auto& node : first->nodes) writes.push_back({0, engine::RecordWrite::Kind::kNode, node.name, node});
  for (const auto& module : first->modules)
    writes.push_back({0, engine::RecordWrite::Kind::kModule, module.name, module});
  Require(writes.size() == 1);
  const Change once = ChangeOf(writes[0]);
  Require(once.value.has_value());
  const auto second = RecordsOf({{once.key, *once.value}});
  Require(second.has_value());
  Require(second->runs.size() == first->runs.size() && second->nodes.size() == first->nodes.size());
  if (!second->runs.empty()) writes[0].record = second->runs[0];
  if (!second->nodes.empty()) writes[0].record = second->nodes[0];
  if (!second->modules.empty()) writes[0].record = second->modules[0];
  const Change twice = ChangeOf(writes[0]);
  Require(twice.key == once.key && twice.value == once.value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 7 == 0) {
    RequireSameRecordAgain(text);
    return 0;
  }
  const auto body = http::ParseObject(text);
  if (!body) return 0;
  const auto list = [&](const char* name) { return body->contains(name) ? (*body)[name] : *body; };
  switch (data[0] % 7) {
    case 1: RequireSameAgain(*body, RequestOf); break;
    case 2:
      RequireSameAgain(*body, AttemptOf);
      if (const auto attempt = AttemptOf(*body); attempt && body->contains("attempt") && !(*body)["attempt"].is_null())
        Require((*body)["attempt"] == attempt->attempt);
      break;
    case 3: RequireSameAgain(*body, ResultOf); break;
    case 4: RequireSameAgain(*body, OfferOf); break;
    case 5:
      if (const auto devices = DevicesOf(list("devices")))
        for (const engine::NodeDevice& device : *devices) static_cast<void>(Sent(JsonOf(device)));
      break;
    default:
      if (const auto kernels = KernelsOf(list("kernels"))) {
        const json once = Sent(JsonOf(engine::ClusterModule{.name = "m", .blob = {}, .kernels = *kernels}));
        const auto again = KernelsOf(once["kernels"]);
        Require(again.has_value() && again->size() == kernels->size());
      }
  }
  return 0;
}
