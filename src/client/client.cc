// SPDX-License-Identifier: Apache-2.0
// libweir-client: implements include/weir/client.h with the service API for modules. No exception leaves the library.
#pragma GCC visibility push(default)
#include <weir/client.h>
#pragma GCC visibility pop

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>

#include "http/client.h"
#include "modules/module_client.h"
#include "platform/clock.h"
#include "platform/files.h"

using weir::Duration;
using weir::Errc;
using weir::Error;
using weir::Fail;
using weir::Result;
using weir::Status;
using weir::modules::ModuleClient;

struct weir_client {
  std::shared_ptr<ModuleClient> service;
};

struct weir_client_run {
  std::shared_ptr<ModuleClient> service;
  std::string id, body;
  // The result of a request, which is made without the lock. Set once under the lock and then constant, because callers
  // receive pointers to its texts.
  std::mutex mutex;
  std::optional<nlohmann::json> ended;
  std::string text, words, device, node;
  std::optional<std::string> output;
};

namespace {

constexpr double kSecondsMax = 1e9;
constexpr std::size_t kWordsAt = offsetof(weir_client_error, words);

int Say(weir_client_error* error, Errc code, const char* words) noexcept {
  const int number = weir::EntryOf(code).exit_code;
  if (error == nullptr || error->size <= kWordsAt) return number;
  error->code = number;
  const std::size_t room = std::min<std::size_t>(error->size, sizeof *error) - kWordsAt - 1;
  const std::size_t count = std::min(room, std::strlen(words));
  std::memcpy(error->words, words, count);
  error->words[count] = '\0';
  return number;
}

/// Calls `work` and returns the error code of its result or exception.
template <typename Work>
int Guarded(weir_client_error* error, Work work) noexcept {
  try {
    const Status status = work();
    return status ? WEIR_CLIENT_OK : Say(error, status.error().code, status.error().message.c_str());
  } catch (const std::bad_alloc&) {
    return Say(error, Errc::kResourceExhausted, "out of memory");
  } catch (const std::exception& thrown) {
    return Say(error, Errc::kInternal, thrown.what());
  } catch (...) {
    return Say(error, Errc::kInternal, "a value that is not an error was thrown");
  }
}

Status Needs(bool given, const char* what) {
  if (given) return weir::Ok();
  return Fail(Errc::kInvalidArgument, std::string("no ") + what + " was given");
}

/// Copies a structure of the caller's, which may be shorter or longer than this version's; missing fields are 0.
template <typename T>
Result<T> Copied(const T* given, const char* what) {
  WEIR_TRY_STATUS(Needs(given != nullptr, what));
  if (given->size < sizeof(std::uint32_t))
    return Fail(Errc::kInvalidArgument, std::string(what) + ": its size is not set; begin with its …_INIT");
  T copy{};
  std::memcpy(&copy, given, std::min<std::size_t>(given->size, sizeof copy));
  return copy;
}

std::string ModuleTarget(const char* name) { return "/v1/modules/" + weir::http::PercentEncode(name); }

Duration Span(double seconds) {
  return weir::FromSeconds(std::isnan(seconds) || seconds < 0 || seconds > kSecondsMax ? kSecondsMax : seconds);
}

/// The body of the API's run request.
Result<std::string> BodyOf(ModuleClient& service, const weir_client_order& order) {
  WEIR_TRY_STATUS(Needs(order.module != nullptr, "module"));
  WEIR_TRY_STATUS(Needs(order.kernel != nullptr, "kernel"));
  WEIR_TRY_STATUS(Needs(order.input != nullptr || order.input_bytes == 0, "input"));
  nlohmann::json body{{"module", order.module}, {"kernel", order.kernel}};
  if (order.arguments != nullptr) body["arguments"] = order.arguments;
  if (order.device != nullptr) body["device"] = order.device;
  if (order.seconds_max != 0) body["seconds_max"] = order.seconds_max;
  if (order.memory_bytes != 0) body["need"]["memory_bytes"] = order.memory_bytes;
  if (order.alone_s != 0) body["need"]["alone_s"] = order.alone_s;
  if (order.input_bytes > 0) {
    WEIR_TRY(body["input"], service.PutBlob(std::string(static_cast<const char*>(order.input), order.input_bytes)));
  }
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Stores the result of an ended run. The run's lock must be held.
void Keep(weir_client_run& run, nlohmann::json ended) {
  if (run.ended) return;
  run.text = weir::modules::TextOf(ended, "text");
  run.device = weir::modules::TextOf(ended, "device");
  run.node = weir::modules::TextOf(ended, "node");
  if (weir::modules::TextOf(ended, "state") == "failed") run.words = weir::modules::ErrorOfRun(ended).message;
  run.ended = std::move(ended);
}

Result<nlohmann::json> EndOf(weir_client_run& run) {
  const std::lock_guard guard(run.mutex);
  if (!run.ended) return Fail(Errc::kBusy, "run " + run.id + " is not over: wait for it first");
  return *run.ended;
}

}  // namespace

extern "C" {

weir_client* weir_client_open_node(const char* socket, weir_client_error* error) {
  weir_client* client = nullptr;
  Guarded(error, [&]() -> Status {
    auto service = std::make_shared<ModuleClient>(
        ModuleClient::OfNode(socket != nullptr ? socket : weir::platform::DefaultRunDir() + "/modules.sock"));
    client = new weir_client{std::move(service)};
    return weir::Ok();
  });
  return client;
}

weir_client* weir_client_open_managers(const char* managers, const char* token, weir_client_error* error) {
  weir_client* client = nullptr;
  Guarded(error, [&]() -> Status {
    WEIR_TRY_STATUS(Needs(managers != nullptr, "manager"));
    WEIR_TRY(auto list, ModuleClient::ParseManagers(managers));
    WEIR_TRY(weir::http::tls::Access access, weir::http::tls::AccessOf(token != nullptr ? token : "", "the token"));
    client =
        new weir_client{std::make_shared<ModuleClient>(ModuleClient::OfManagers(std::move(list), std::move(access)))};
    return weir::Ok();
  });
  return client;
}

void weir_client_close(weir_client* client) { delete client; }

void weir_client_set_patience(weir_client* client, double seconds) {
  if (client != nullptr) client->service->SetPatience(Span(seconds));
}

int weir_client_register(weir_client* client, const char* module, const void* image, uint64_t bytes,
                         weir_client_error* error) {
  return Guarded(error, [&]() -> Status {
    WEIR_TRY_STATUS(Needs(client != nullptr, "client"));
    WEIR_TRY_STATUS(Needs(module != nullptr, "name"));
    WEIR_TRY_STATUS(Needs(image != nullptr && bytes > 0, "image"));
    WEIR_TRY(const std::string blob,
             client->service->PutBlob(std::string(static_cast<const char*>(image), static_cast<std::size_t>(bytes))));
    WEIR_TRY_STATUS(client->service->AskUntil("PUT", ModuleTarget(module), nlohmann::json{{"blob", blob}}.dump()));
    return weir::Ok();
  });
}

int weir_client_remove(weir_client* client, const char* module, weir_client_error* error) {
  return Guarded(error, [&]() -> Status {
    WEIR_TRY_STATUS(Needs(client != nullptr, "client"));
    WEIR_TRY_STATUS(Needs(module != nullptr, "name"));
    WEIR_TRY_STATUS(client->service->AskUntil("DELETE", ModuleTarget(module)));
    return weir::Ok();
  });
}

int weir_client_list(weir_client* client,
                     void (*each)(void* own, const char* module, const char* kernel, const char* summary), void* own,
                     weir_client_error* error) {
  return Guarded(error, [&]() -> Status {
    WEIR_TRY_STATUS(Needs(client != nullptr, "client"));
    WEIR_TRY_STATUS(Needs(each != nullptr, "function"));
    WEIR_TRY(const nlohmann::json reply, client->service->AskUntil("GET", "/v1/modules"));
    for (const nlohmann::json& module : weir::modules::ListOf(reply, "modules"))
      for (const nlohmann::json& kernel : weir::modules::ListOf(module, "kernels"))
        each(own, weir::modules::TextOf(module, "module").c_str(), weir::modules::TextOf(kernel, "name").c_str(),
             weir::modules::TextOf(kernel, "summary").c_str());
    return weir::Ok();
  });
}

weir_client_run* weir_client_start(weir_client* client, const weir_client_order* order, weir_client_error* error) {
  std::unique_ptr<weir_client_run> run;
  const int wrong = Guarded(error, [&]() -> Status {
    WEIR_TRY_STATUS(Needs(client != nullptr, "client"));
    WEIR_TRY(const weir_client_order wanted, Copied(order, "order"));
    run = std::make_unique<weir_client_run>();
    run->service = client->service;
    WEIR_TRY(run->body, BodyOf(*run->service, wanted));
    if (wanted.id != nullptr) run->id = wanted.id;
    if (run->id.empty()) {
      WEIR_TRY(run->id, weir::modules::DrawRunId());
    }
    WEIR_TRY_STATUS(run->service->AskUntil("PUT", "/v1/runs/" + weir::http::PercentEncode(run->id), run->body));
    return weir::Ok();
  });
  return wrong == WEIR_CLIENT_OK ? run.release() : nullptr;
}

int weir_client_wait(weir_client_run* run, double seconds, weir_client_error* error) {
  return Guarded(error, [&]() -> Status {
    WEIR_TRY_STATUS(Needs(run != nullptr, "run"));
    if (EndOf(*run)) return weir::Ok();
    WEIR_TRY(nlohmann::json ended, run->service->WaitForEnd(run->id, run->body, Span(seconds)));
    const std::lock_guard guard(run->mutex);
    Keep(*run, std::move(ended));
    return weir::Ok();
  });
}

int weir_client_result_of(weir_client_run* run, weir_client_result* result, weir_client_error* error) {
  return Guarded(error, [&]() -> Status {
    WEIR_TRY_STATUS(Needs(run != nullptr, "run"));
    WEIR_TRY(weir_client_result filled, Copied(result, "result"));
    WEIR_TRY(const nlohmann::json ended, EndOf(*run));
    const bool failed = weir::modules::TextOf(ended, "state") == "failed";
    filled.code = failed ? weir::EntryOf(weir::modules::ErrorOfRun(ended).code).exit_code : 0;
    filled.text = run->text.c_str();
    filled.words = run->words.c_str();
    filled.device = run->device.c_str();
    filled.node = run->node.c_str();
    filled.id = run->id.c_str();
    filled.seconds = weir::modules::NumberOf(ended, "seconds");
    filled.ran_beside = weir::modules::NumberOf(ended, "ran_beside");
    filled.attempts = static_cast<std::uint64_t>(std::max(0.0, weir::modules::NumberOf(ended, "attempt")));
    std::memcpy(result, &filled, std::min<std::size_t>(filled.size, sizeof filled));
    return weir::Ok();
  });
}

int weir_client_output_of(weir_client_run* run, const void** output, uint64_t* bytes, weir_client_error* error) {
  return Guarded(error, [&]() -> Status {
    WEIR_TRY_STATUS(Needs(run != nullptr, "run"));
    WEIR_TRY_STATUS(Needs(output != nullptr && bytes != nullptr, "place for the output"));
    WEIR_TRY(const nlohmann::json ended, EndOf(*run));
    const std::string blob = weir::modules::TextOf(ended, "output");
    const std::lock_guard guard(run->mutex);
    if (!run->output) {
      std::string fetched;
      if (!blob.empty()) {
        WEIR_TRY(fetched, run->service->GetBlob(blob));
      }
      run->output = std::move(fetched);
    }
    *output = run->output->empty() ? nullptr : run->output->data();
    *bytes = run->output->size();
    return weir::Ok();
  });
}

int weir_client_forget(weir_client_run* run, weir_client_error* error) {
  return Guarded(error, [&]() -> Status {
    WEIR_TRY_STATUS(Needs(run != nullptr, "run"));
    const auto gone = run->service->AskUntil("DELETE", "/v1/runs/" + weir::http::PercentEncode(run->id));
    // After an earlier call the service has no run left to forget.
    if (!gone && gone.error().code != Errc::kNotFound) return gone.error();
    return weir::Ok();
  });
}

void weir_client_run_close(weir_client_run* run) { delete run; }

}  // extern "C"
