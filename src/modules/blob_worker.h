// SPDX-License-Identifier: Apache-2.0
// Writes and reads blobs of a store in a separate thread. Hashing and syncing 64 MiB can take more than a second, which
// would block a loop. Requests are served in order.
#pragma once

#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "http/server.h"
#include "modules/module_store.h"

namespace weir::modules {

/// Largest body of a request that is not a blob. A loop parses such bodies.
inline constexpr std::size_t kTextRequestBytesMax = 1u << 20;
/// Sets the limits of bodies for a service with blobs: kBlobBytesMax for them, kTextRequestBytesMax for all others.
http::Limits LimitBodies(http::Limits limits);

class BlobWorker {
 public:
  static constexpr std::size_t kRequestsMax = 1024;
  static constexpr std::size_t kWaitingBytesMax = 256u << 20;  // total size of the blobs that wait to be written

  /// `store` may have other users. Callbacks are called in the loop's thread.
  BlobWorker(boost::asio::io_context& loop, ModuleStore store);
  /// Waits for the current request. The remaining requests and their callbacks are dropped.
  ~BlobWorker();
  BlobWorker(const BlobWorker&) = delete;
  BlobWorker& operator=(const BlobWorker&) = delete;

  /// As ModuleStore's functions. Fails at once with kUnavailable while too many requests or bytes wait.
  void PutAs(std::string blob, std::string bytes, std::function<void(Result<ModuleStore::Stored>)> done);
  void Get(std::string blob, std::function<void(Result<std::string>)> done);

  /// Answers a PUT or GET request for one blob.
  void Answer(const http::Request& request, const std::string& blob, const http::Respond& respond);

 private:
  struct Job {
    std::size_t bytes;
    std::function<std::function<void()>()> work;  // returns the function to call in the loop
  };
  template <class Value>
  void Do(std::size_t bytes, std::function<Result<Value>()> work, std::function<void(Result<Value>)> done);
  Status Add(Job job);
  void Run();

  boost::asio::io_context& loop_;
  const ModuleStore store_;
  // Used by the loop's thread only. This is the only owner of the callbacks, so that they are destroyed here and not
  // with the loop.
  std::set<std::shared_ptr<void>> callbacks_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;           // guarded by mutex_
  std::size_t waiting_bytes_ = 0;  // guarded by mutex_
  bool ends_ = false;              // guarded by mutex_
  std::thread thread_;             // declared last: starts when all other members exist
};

}  // namespace weir::modules
