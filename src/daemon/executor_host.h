// SPDX-License-Identifier: Apache-2.0
// One vGPU's OpenCL executor: listens in its place until somebody connects, starts it, and listens again when it has
// ended.
//
//             somebody connects                       it has ended
//   listening ────────────────────▶ running ────────────────────────▶ listening
//                   └─ can't be started, or ended at once: whoever waits is told why ─┘
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "core/partition/plan.h"
#include "daemon/executor_book.h"
#include "daemon/fd_watch.h"
#include "daemon/start_backoff.h"
#include "platform/fd.h"

namespace weir::daemon {

/// How executors of a device are started; `program` empty: there is none, and OpenCL programs find no device.
struct ExecutorSetup {
  std::string program;
  std::string library;   // the vendor's; empty: any that works and has the device
  std::string device{};  // the device as its driver knows it: number, UUID or PCI address; empty: the first
  std::vector<std::string> environment{};  // NAME=VALUE, for executors beside that of the daemon
  unsigned cpus = 0;                       // of a software device
  Duration kernel_timeout{};
  double copy_bytes_per_s = 0;       // of elastic memory's copies, to model a link; 0: as fast as it goes
  std::vector<std::string> peers{};  // sockets of relays to nodes that may run parts of what does not fit
  std::string peer_list{};           // and a file that lists more of them; empty: there is none
};

class ExecutorHost {
 public:
  struct Tenant {
    std::string vgpu, attach, run_dir;
    uid_t owner = 0;
    bool ephemeral = false;
    core::PartitionMode partition = core::PartitionMode::kAuto;
  };
  /// `setup` outlives it and may change: whoever is started later is started as it is then.
  static Result<std::unique_ptr<ExecutorHost>> Listen(boost::asio::io_context& loop, const std::string& path,
                                                      const ExecutorSetup& setup, Tenant tenant);
  /// Leaves a running executor alone: its clients go on without a daemon.
  ~ExecutorHost();
  ExecutorHost(const ExecutorHost&) = delete;
  ExecutorHost& operator=(const ExecutorHost&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Of the executor that runs, not reaped yet; 0: there is none.
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Whether this daemon or one before it has started this process as an executor of the vGPU.
  [[nodiscard]] bool Started(pid_t pid) const { return book_.Has(pid); }
  /// Of the next one that is started; one that runs goes on as it was.
  void SetPartition(core::PartitionMode mode) { tenant_.partition = mode; }
  /// Ends it, and with it its clients' devices.
  void End();
  /// Ends one that may not listen any more, at once. The next client has another one started.
  void Kill() const;

 private:
  ExecutorHost(boost::asio::io_context& loop, std::string path, const ExecutorSetup& setup, Tenant tenant)
      : loop_(loop), path_(std::move(path)), setup_(setup), tenant_(std::move(tenant)), book_(path_ + ".executors") {}
  void Watch();
  void OnClient();
  void OnEnd();
  void Refuse(const std::string& why);

  boost::asio::io_context& loop_;
  const std::string path_;
  const ExecutorSetup& setup_;
  Tenant tenant_;
  ExecutorBook book_;
  platform::Fd listener_;
  std::unique_ptr<FdWatch> listener_watch_;
  pid_t pid_ = 0;
  platform::Fd process_;
  std::unique_ptr<FdWatch> process_watch_;
  Instant started_{};
  StartBackoff backoff_;
  std::string failed_with_;  // the last one, in words
};

}  // namespace weir::daemon
