// SPDX-License-Identifier: Apache-2.0
#include "modules/blob_worker.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>

#include "http/json_api.h"

namespace weir::modules {

http::Limits LimitBodies(http::Limits limits) {
  limits.request_bytes = ModuleStore::kBlobBytesMax;
  limits.request_bytes_of = [](const http::Request& head) {
    return head.path.starts_with("/v1/blobs/") ? ModuleStore::kBlobBytesMax : kTextRequestBytesMax;
  };
  limits.too_large = http::ErrorReply(Fail(
      Errc::kInvalidArgument, fmt::format("the body is too large: a blob has at most {} MiB, any other body {} MiB",
                                          ModuleStore::kBlobBytesMax >> 20, kTextRequestBytesMax >> 20)));
  return limits;
}

BlobWorker::BlobWorker(boost::asio::io_context& loop, ModuleStore store)
    : loop_(loop), store_(std::move(store)), thread_([this] { Run(); }) {}

BlobWorker::~BlobWorker() {
  alive_.reset();
  {
    const std::lock_guard guard(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status BlobWorker::Add(Job job) {
  {
    const std::lock_guard guard(mutex_);
    if (jobs_.size() >= kRequestsMax || waiting_bytes_ + job.bytes > kWaitingBytesMax)
      return Fail(Errc::kUnavailable, "too many blobs wait for the disk; try again");
    waiting_bytes_ += job.bytes;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
  return Ok();
}

void BlobWorker::Run() {
  std::unique_lock guard(mutex_);
  for (;;) {
    changed_.wait(guard, [this] { return ends_ || !jobs_.empty(); });
    if (ends_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    guard.unlock();
    boost::asio::post(loop_, [alive = std::weak_ptr(alive_), tell = job.work()] {
      if (!alive.expired()) tell();
    });
    guard.lock();
    waiting_bytes_ -= job.bytes;
  }
}

template <class Value>
void BlobWorker::Do(std::size_t bytes, std::function<Result<Value>()> work, std::function<void(Result<Value>)> done) {
  const auto callback = std::make_shared<std::function<void(Result<Value>)>>(std::move(done));
  const std::weak_ptr waiting = callback;
  const Status added = Add({bytes, [this, work = std::move(work), waiting]() -> std::function<void()> {
                              const auto result = std::make_shared<Result<Value>>(work());
                              return [this, result, waiting] {
                                const auto tell = waiting.lock();
                                callbacks_.erase(tell);
                                (*tell)(std::move(*result));
                              };
                            }});
  if (!added) return (*callback)(added.error());
  callbacks_.insert(callback);
}

void BlobWorker::PutAs(std::string blob, std::string bytes, std::function<void(Result<ModuleStore::Stored>)> done) {
  const std::size_t size = bytes.size();
  // The bytes are shared because std::function copies its target.
  auto shared = std::make_shared<const std::string>(std::move(bytes));
  Do<ModuleStore::Stored>(
      size, [this, blob = std::move(blob), shared = std::move(shared)] { return store_.PutAs(blob, *shared); },
      std::move(done));
}

void BlobWorker::Get(std::string blob, std::function<void(Result<std::string>)> done) {
  Do<std::string>(
      0, [this, blob = std::move(blob)] { return store_.Get(blob); }, std::move(done));
}

void BlobWorker::Answer(const http::Request& request, const std::string& blob, const http::Respond& respond) {
  if (request.method == "PUT")
    return PutAs(blob, request.body, [blob, bytes = request.body.size(), respond](const auto& stored) {
      if (!stored) return respond(http::ErrorReply(stored.error()));
      respond(http::JsonReply({{"blob", blob}, {"bytes", bytes}}, stored->added ? 201 : 200));
    });
  Get(blob, [respond](Result<std::string> bytes) {
    if (!bytes) return respond(http::ErrorReply(bytes.error()));
    respond({.status = 200, .content_type = "application/octet-stream", .body = std::move(*bytes)});
  });
}

}  // namespace weir::modules
