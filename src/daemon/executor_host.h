// SPDX-License-Identifier: Apache-2.0
// Starts one vGPU's OpenCL executor on demand: listens on its socket until a client connects, starts it, and listens
// again when it has ended.
//
//             a client connects                       it has ended
//   listening ────────────────────▶ running ────────────────────────▶ listening
//                   └─ can't be started, or ended at once: clients get the reason ──┘
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "core/partition/plan.h"
#include "daemon/error_lines.h"
#include "daemon/executor_book.h"
#include "daemon/executor_files.h"
#include "daemon/executor_users.h"
#include "daemon/fd_watch.h"
#include "daemon/start_backoff.h"
#include "platform/fd.h"
#include "platform/spawn.h"

namespace weir::daemon {

/// How executors of a device are started. Without a `program`, OpenCL programs find no device.
struct ExecutorSetup {
  std::string program;
  std::string library;   // the vendor's OpenCL library; empty: the first that works and has the device
  std::string device{};  // the device as its driver knows it: number, UUID or PCI address; empty: the first
  std::vector<std::string> environment{};  // NAME=VALUE, added to the daemon's environment
  unsigned cpus = 0;                       // of an embedded device
  Duration kernel_timeout{};
  double copy_bytes_per_s = 0;       // for modelling a slower link of elastic memory's copies; 0: unlimited
  std::vector<std::string> peers{};  // sockets of relays to peers, which run parts of launches
  std::string peer_list{};           // file that lists more peers; empty: none
  GpuName gpu{};
  std::vector<std::string> reads{};  // absolute paths that executors with users of their own may read in addition;
                                     // those of /dev they may open
};

class ExecutorHost {
 public:
  struct Tenant {
    std::string vgpu, attach;
    uid_t owner = 0;
    bool ephemeral = false;
    core::PartitionMode partition = core::PartitionMode::kAuto;
  };
  /// `setup` and `users` must outlive the host. `setup` may change: each executor is started with its values of then.
  static Result<std::unique_ptr<ExecutorHost>> Listen(boost::asio::io_context& loop, const std::string& path,
                                                      const ExecutorSetup& setup, ExecutorUsers& users, Tenant tenant);
  /// Does not end a running executor: its clients continue without a daemon.
  ~ExecutorHost();
  ExecutorHost(const ExecutorHost&) = delete;
  ExecutorHost& operator=(const ExecutorHost&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// The running executor's pid while it has not been reaped; 0: none runs.
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::uint64_t starts() const { return starts_; }
  /// The number of executors that ended by a signal or with an error.
  [[nodiscard]] std::uint64_t failures() const { return failures_; }
  /// Whether this daemon or an earlier one started this process as an executor of the vGPU.
  [[nodiscard]] bool Started(pid_t pid) const { return book_.Has(pid); }
  /// Takes effect when the next executor is started; a running one keeps its mode.
  void SetPartition(core::PartitionMode mode) { tenant_.partition = mode; }
  /// Ends the executor, and those of earlier daemons that still serve clients. The clients lose their device.
  void End();
  /// Ends executors that may be hung, at once. The next client starts another one.
  void Kill() const;
  /// Ends the executor of this daemon, which serves clients without a gate.
  void EndWithoutGate() const;

 private:
  ExecutorHost(boost::asio::io_context& loop, std::string path, const ExecutorSetup& setup, ExecutorUsers& users,
               Tenant tenant)
      : loop_(loop),
        path_(std::move(path)),
        setup_(setup),
        users_(users),
        tenant_(std::move(tenant)),
        book_(path_ + ".executors") {}
  void Watch();
  [[nodiscard]] platform::SpawnSpec SpecOf(const ExecutorUser& user) const;
  void OnClient();
  void OnEnd();
  bool ReadErrors();
  void CloseErrors();
  void LogErrors(const std::vector<std::string>& lines) const;
  void Refuse(const std::string& why);

  boost::asio::io_context& loop_;
  const std::string path_;
  const ExecutorSetup& setup_;
  ExecutorUsers& users_;
  Tenant tenant_;
  ExecutorBook book_;
  platform::Fd listener_;
  std::unique_ptr<FdWatch> listener_watch_;
  pid_t pid_ = 0;
  platform::Fd process_;
  std::unique_ptr<FdWatch> process_watch_;
  platform::Fd errors_;  // the executor's standard error, to be read
  std::unique_ptr<FdWatch> errors_watch_;
  ErrorLines error_lines_;
  Instant started_{};
  std::uint64_t starts_ = 0;
  std::uint64_t failures_ = 0;
  StartBackoff backoff_;
  std::string failed_with_;              // the last failure as text
  std::string group_;                    // ExecutorUser::group of the executor
  std::uint64_t killed_for_memory_ = 0;  // in its group, when it was started
};

}  // namespace weir::daemon
