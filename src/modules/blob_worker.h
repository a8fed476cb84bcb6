// SPDX-License-Identifier: Apache-2.0
// Puts blobs into a store and gets them in a thread of its own: hashing and syncing up to 64 MiB takes a second and
// more, in which a loop could answer nobody. Requests are served in the order in which they came.
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

class BlobWorker {
 public:
  static constexpr std::size_t kRequestsMax = 1024;
  static constexpr std::size_t kWaitingBytesMax = 256u << 20;  // of blobs to be put

  /// `store` may be used by others, too. Callbacks are called in the loop's thread.
  BlobWorker(boost::asio::io_context& loop, ModuleStore store);
  /// Waits for the request that is being served. The others are dropped, and their callbacks with them.
  ~BlobWorker();
  BlobWorker(const BlobWorker&) = delete;
  BlobWorker& operator=(const BlobWorker&) = delete;

  /// As ModuleStore's. kUnavailable, at once: too many requests or bytes wait.
  void PutAs(std::string blob, std::string bytes, std::function<void(Result<ModuleStore::Stored>)> done);
  void Get(std::string blob, std::function<void(Result<std::string>)> done);

  /// Answers PUT and GET of one blob.
  void Answer(const http::Request& request, const std::string& blob, http::Respond respond);

 private:
  struct Job {
    std::size_t bytes;
    std::function<std::function<void()>()> work;  // returns what is to be called in the loop
  };
  template <class Value>
  void Do(std::size_t bytes, std::function<Result<Value>()> work, std::function<void(Result<Value>)> done);
  Status Add(Job job);
  void Run();

  boost::asio::io_context& loop_;
  const ModuleStore store_;
  // Of the loop's thread. The only owner of callbacks, so that they end here and not with the loop.
  std::set<std::shared_ptr<void>> callbacks_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;           // guarded by mutex_
  std::size_t waiting_bytes_ = 0;  // likewise
  bool ends_ = false;              // likewise
  std::thread thread_;             // last: starts when all else is there
};

}  // namespace weir::modules
