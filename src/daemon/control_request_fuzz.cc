// SPDX-License-Identifier: Apache-2.0
// Requests to the control API of a real node. The first byte selects the request; the rest is its body or its query.
// Every reply must be JSON or metrics text, and no request may end the daemon.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "daemon/control.h"
#include "platform/clock.h"
#include "tests/harness/temp_folder.h"

namespace {

using namespace weir;

struct Route {
  const char *method, *path;
};
constexpr Route kRoutes[] = {{"POST", "/v1/vgpus"},
                             {"PATCH", "/v1/vgpus/a"},
                             {"PUT", "/v1/devices/embedded/policy"},
                             {"PUT", "/v1/devices/embedded/oversell"},
                             {"PUT", "/v1/devices/embedded/memory"},
                             {"PUT", "/v1/devices/embedded/memory/used"},
                             {"PUT", "/v1/use"},
                             {"GET", "/v1/events"},
                             {"GET", "/v1/vgpus/a/frames"},
                             {"POST", "/v1/vgpus/a/pause"},
                             {"DELETE", "/v1/vgpus/a"}};

class FuzzedNode {
 public:
  FuzzedNode() {
    std::filesystem::create_directory(folder_ / "vgpu");
    std::filesystem::create_directory(folder_ / "opencl");
  }
  http::Reply Ask(const std::string& method, const std::string& path, const std::string& body) {
    const bool get = method == "GET";
    return control_.Handle({method, path, get ? body : "", get ? "" : body, "", ::geteuid(), ::getpid()});
  }
  /// Restores the initial state: one vGPU named "a" and one device.
  void Reset() {
    for (const auto& vgpu : node_.Vgpus()) static_cast<void>(node_.Remove(vgpu.status.name, true));
    static_cast<void>(node_.SetOversell("embedded", core::OversellMode::kOff, {}));
    static_cast<void>(node_.SetMemory("embedded", Bytes{}, {}, 0));
    static_cast<void>(node_.SetPolicy("embedded", "none", {}));
    if (Ask("POST", "/v1/vgpus", R"({"name":"a"})").status != 201) std::abort();
  }
  [[nodiscard]] const daemon::SavedNode& saved() const { return saved_; }

 private:
  weir::testing::TempFolder folder_;
  boost::asio::io_context loop_{1};
  daemon::SavedNode saved_;
  daemon::Node node_{loop_,
                     folder_.path(),
                     {{.spec = {"embedded", "software", {0}}, .executors = {}}},
                     [this](const daemon::SavedNode& saved) { saved_ = saved; }};
  daemon::Control control_{node_, {folder_.path(), folder_.path(), false, platform::Now(), [] {}}};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // A node keeps its events. A new node now and then keeps the list short.
  constexpr int kInputsPerNode = 64;
  static std::unique_ptr<FuzzedNode> kept;
  static int inputs = 0;
  if (inputs++ % kInputsPerNode == 0) kept = std::make_unique<FuzzedNode>();
  FuzzedNode& node = *kept;
  node.Reset();
  const Route& route = kRoutes[data[0] % std::size(kRoutes)];
  const std::string rest(reinterpret_cast<const char*>(data + 1), size - 1);
  const http::Reply reply = node.Ask(route.method, route.path, rest);
  if (!nlohmann::json::accept(reply.body)) std::abort();
  // The state after any request must be readable after a restart.
  if (!daemon::FromText(daemon::ToText(node.saved()))) std::abort();
  for (const char* path : {"/v1/vgpus", "/v1/samples"})
    if (!nlohmann::json::accept(node.Ask("GET", path, "").body)) std::abort();
  static_cast<void>(daemon::OfferedNodesFrom(rest).has_value());
  return 0;
}
