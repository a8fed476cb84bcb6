// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <list>
#include <thread>

#include "opencl/executor/memory_keeper.h"
#include "opencl/executor/session.h"
#include "platform/accept_pause.h"
#include "platform/clock.h"
#include "platform/pending_peers.h"
#include "platform/refusals.h"
#include "platform/service_end.h"
#include "proto/opencl_messages.h"

namespace weir::opencl {
namespace {

/// Interval at which sessions are checked and charged.
constexpr Duration kTick = milliseconds(100);
/// A connection that has not sent its Hello by then is closed.
constexpr Duration kHelloWithin = seconds(2);
/// Limit of one attempt to attach.
constexpr Duration kAttachWithin = seconds(5);
/// How long clients wait for an executor that is not attached before they are refused: the daemon may be restarting.
constexpr Duration kAttachPatience = seconds(2);
constexpr std::size_t kPendingPerUidMax = 64;
/// Limit of the connections that one pass of the event loop accepts, those of other users included.
constexpr int kAcceptsPerVisit = 64;
/// The time that a stopped session has before the process ends: with a kernel that runs, and without one. A session
/// without a kernel ends by itself, which takes its thread some time on a busy host.
constexpr Duration kEndWithin = milliseconds(500);
constexpr Duration kEndIdleWithin = seconds(10);
constexpr std::size_t kSessionsMax = 256;
/// Without a memory limit of the vGPU, the device's memory is reported and used, but at least this much.
constexpr std::uint64_t kArenaBytesMin = 64ULL << 20;

void Say(const std::string& text) { std::fprintf(stderr, "weir-executor: %s\n", text.c_str()); }

/// The path of weir-analyzer in this program's folder. Empty: it does not exist.
std::string AnalyzerBesideUs() {
  std::error_code none;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", none).parent_path() / "weir-analyzer";
  return ::access(path.c_str(), X_OK) == 0 ? path.string() : std::string();
}

std::vector<std::byte> RefusalOf(const std::string& why) {
  return proto::cl::Encode(proto::cl::Welcome{.magic = proto::cl::kHelloMagic, .refusal = why});
}

struct Seat {
  std::unique_ptr<Session> session;
  std::thread thread;
  std::atomic<bool> ended{false};
  std::int64_t stopped_ns = 0;
};

class Server {
 public:
  Server(ExecutorOptions options, NativeDevice device)
      : options_(std::move(options)),
        agent_(options_.attach, proto::Api::kOpenCl, "weir-executor"),
        device_(std::move(device)),
        memory_bytes_(std::max(DeviceNumber(*device_.cl, device_.device, CL_DEVICE_GLOBAL_MEM_SIZE), kArenaBytesMin)),
        was_available_(Available()) {}

  Status Run(int stop);

 private:
  [[nodiscard]] bool Attach();
  Result<bool> AwaitGate(int stop);
  void Share();
  void TellWhatIsMade();
  [[nodiscard]] bool Available() const { return DeviceNumber(*device_.cl, device_.device, CL_DEVICE_AVAILABLE) != 0; }
  platform::Fd AcceptOurs(int& left);
  void RefuseSome(const std::string& why);
  void Accept();
  void Welcome(platform::Fd connection);
  void Tick(std::int64_t now_ns);
  void Watch(const Session& session, std::int64_t now_ns) const;
  /// The limits that hold while a client is connected.
  [[nodiscard]] Quota::Limits Limits() const;
  [[nodiscard]] Quota::Limits LimitsNow() const;

  ExecutorOptions options_;
  gate::Agent agent_;
  NativeDevice device_;
  const std::uint64_t memory_bytes_;
  const bool was_available_;
  std::unique_ptr<DeviceMeter> meter_;
  std::unique_ptr<Shared> shared_;
  std::unique_ptr<MemoryKeeper> keeper_;  // null: memory is not elastic
  std::list<Seat> seats_;
  platform::PendingPeers<platform::Fd> pending_{kPendingPerUidMax, kHelloWithin};
  platform::AcceptPause accept_pause_;
  std::int64_t idle_since_ns_ = 0;
};

// The agent attaches when a frame arrives. The frame is withdrawn at once: it only serves to learn which CPUs form the
// device. The CPUs, and whether memory is elastic, are fixed for the executor's life. The limit of time is long,
// because no real frame waits here and the daemon may be busy.
bool Server::Attach() {
  const gate::Ticket ticket = agent_.Arrive(platform::NowNs(), kAttachWithin);
  if (ticket.attachment == nullptr && !options_.attach.empty()) return false;
  const proto::CpuMask cpus = agent_.device_cpus();
  meter_ = std::make_unique<DeviceMeter>(device_.in_host_memory ? device_.workers : std::vector<pid_t>{}, cpus);
  agent_.Describe(meter_->by_workers() ? proto::MeterKind::kWorkerCpuTime : proto::MeterKind::kTimerQuery,
                  device_.name.c_str());
  if (ticket.attachment != nullptr) agent_.Withdraw(ticket);
  return true;
}

// An executor with a gate serves no client before it has attached, because its work would have no cap and no quota.
// Once attached it continues without the daemon, as every agent does. True: attached. False: told to end.
Result<bool> Server::AwaitGate(int stop) {
  const std::int64_t start_ns = platform::NowNs();
  const std::int64_t give_up_ns = start_ns + std::max(options_.idle_exit_after, kAttachWithin).count();
  while (!Attach()) {
    const std::int64_t now_ns = platform::NowNs();
    const std::string why =
        "the executor of '" + options_.vgpu +
        "' is not attached to the gate of its vGPU, and serves no client before it is: " + agent_.last_error();
    if (now_ns - start_ns > kAttachPatience.count()) RefuseSome(why);
    if (now_ns > give_up_ns) return Fail(Errc::kUnavailable, why);
    pollfd watched{stop, POLLIN, 0};
    if (::poll(&watched, 1, static_cast<int>(kTick.count() / 1'000'000)) > 0) return false;
  }
  return true;
}

// Fixes whether memory is elastic: buffers that are ranges of the arena cannot be evicted.
void Server::Share() {
  const gate::MemoryOrder order = agent_.memory_order();
  std::shared_ptr<BufferStore> store;
  if (order.elastic) {
    store = std::make_shared<BufferStore>(
        BufferStore::Options{.device_bytes = memory_bytes_, .copy_bytes_per_s = options_.copy_bytes_per_s});
    keeper_ = std::make_unique<MemoryKeeper>(agent_, store, device_.workers, order);
  }
  shared_ = std::make_unique<Shared>(Shared{.device = device_,
                                            .agent = agent_,
                                            .meter = *meter_,
                                            .quota = std::make_shared<Quota>([this] { return LimitsNow(); }),
                                            .copies = options_.copies || order.elastic,
                                            .store = store,
                                            .partition = options_.partition,
                                            .analyzer = nullptr,
                                            .peers = options_.peers});
  const std::string analyzer = AnalyzerBesideUs();
  if (store && options_.partition != core::PartitionMode::kStay && !analyzer.empty()) {
    shared_->analyzer = std::make_shared<AnalyzerClient>(analyzer);
    shared_->analyzer->Start();
  }
}

/// The vGPU's limit of memory in slots while nothing is evicted; 0: it has none.
std::uint64_t LimitOf(const gate::MemoryOrder& order) { return order.elastic ? order.max : order.limit; }

// With elastic memory, objects that do not fit are evicted: a program may create as much as the device has, and only
// runs slower. A command needs each of its objects whole on the device, whose memory never exceeds the maximum.
Quota::Limits Server::Limits() const {
  const gate::MemoryOrder order = agent_.memory_order();
  const auto bytes = [this](std::uint64_t slots) {
    return slots > 0 ? std::min(slots * kSlotBytes.count, memory_bytes_) : memory_bytes_;
  };
  if (keeper_ != nullptr) return {.all = memory_bytes_, .each = bytes(order.max)};
  const std::uint64_t all = bytes(LimitOf(order));
  return {.all = all, .each = all};
}

// What the vGPU's programs hold themselves, as those of CUDA do, leaves less of a limit.
Quota::Limits Server::LimitsNow() const {
  Quota::Limits limits = Limits();
  if (keeper_ == nullptr && LimitOf(agent_.memory_order()) > 0)
    limits.all -= std::min(limits.all, agent_.programs_memory());
  return limits;
}

// Memory became elastic after this executor had started. Its objects stay, and the daemon is told how much they take.
void Server::TellWhatIsMade() {
  const gate::MemoryOrder order = agent_.memory_order();
  if (!order.elastic) return;
  const std::uint64_t made = shared_->quota->used();
  const auto slots = static_cast<std::uint32_t>((made + kSlotBytes.count - 1) / kSlotBytes.count);
  agent_.ReportMemory({.order_done = order.number,
                       .resident_slots = slots,
                       .resident = Bytes{made},
                       .in_use = Bytes{made},
                       .made = Bytes{made}},
                      /*ring=*/false);
}

Status Server::Run(int stop) {
  WEIR_TRY(const bool attached, AwaitGate(stop));
  if (!attached) return Ok();
  Share();
  idle_since_ns_ = platform::NowNs();
  for (;;) {
    std::vector<pollfd> watched{{stop, POLLIN, 0},
                                {accept_pause_.Holds(platform::Now()) ? -1 : options_.listener.get(), POLLIN, 0}};
    std::vector<std::uint64_t> numbers;  // of the pending connections, which follow
    for (const auto& entry : pending_.entries()) {
      watched.push_back({entry.connection.get(), POLLIN, 0});
      numbers.push_back(entry.number);
    }
    if (::poll(watched.data(), watched.size(), static_cast<int>(kTick.count() / 1'000'000)) < 0) {
      if (errno != EINTR) return platform::ErrnoError("waiting for clients", errno);
      continue;
    }
    if ((watched[0].revents & POLLIN) != 0) break;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (watched[i + 2].revents == 0) continue;
      if (auto connection = pending_.Take(numbers[i])) Welcome(std::move(*connection));
    }
    const bool clients_wait = (watched[1].revents & POLLIN) != 0;
    if (clients_wait && was_available_ && !Available()) {
      // The device was lost or reset, and a process that used it before cannot use it again. The next executor serves
      // the clients that wait.
      Say("the device of '" + options_.vgpu + "' is no longer available: this executor ends");
      break;
    }
    if (clients_wait) Accept();
    const std::int64_t now_ns = platform::NowNs();
    pending_.DropLate(InstantFromNs(now_ns));
    Tick(now_ns);
    agent_.StayAttached(now_ns);  // the daemon ends an executor that has lost its gate
    if (!keeper_) TellWhatIsMade();
    agent_.ReportUse(shared_->work_items->load(std::memory_order_relaxed), shared_->quota->used(),
                     shared_->quota->refused());
    if (!seats_.empty()) idle_since_ns_ = now_ns;
    if (now_ns - idle_since_ns_ > options_.idle_exit_after.count()) break;
  }
  for (Seat& seat : seats_) seat.session->Stop();
  const std::int64_t until_ns = platform::NowNs() + kEndWithin.count();
  while (!seats_.empty() && platform::NowNs() < until_ns) {
    ::usleep(10'000);
    Tick(platform::NowNs());
  }
  // A running kernel cannot be cancelled; the driver's threads end with the process.
  if (!seats_.empty()) std::_Exit(0);
  return Ok();
}

// Accepts a connection of a permitted user. Returns no descriptor if none waits, or if `left` were accepted before.
// Another user's connection is closed at once without reading from it, because waiting for it would occupy a place.
platform::Fd Server::AcceptOurs(int& left) {
  while (left > 0) {
    --left;
    platform::Fd connection(::accept4(options_.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        const Error why = platform::ErrnoError("accepting a client", errno);
        if (accept_pause_.Failed(platform::Now())) Say(why.message + "; clients wait");
      }
      return {};
    }
    const auto peer = platform::PeerOf(connection.get());
    if (peer && options_.clients.Include(peer->uid)) return connection;
    if (peer)
      platform::SendLastPacket(std::move(connection),
                               RefusalOf("this vGPU belongs to uid " + std::to_string(options_.clients.owner)));
  }
  return {};
}

// Those that are not refused now wait for the next pass.
void Server::RefuseSome(const std::string& why) {
  int left = kAcceptsPerVisit;
  platform::RefuseWaiting([this, &left] { return AcceptOurs(left); }, RefusalOf(why));
}

void Server::Accept() {
  int left = kAcceptsPerVisit;
  for (platform::Fd connection = AcceptOurs(left); connection; connection = AcceptOurs(left)) {
    const auto peer = platform::PeerOf(connection.get());
    if (peer) pending_.Add(platform::Now(), peer->uid, std::move(connection));
  }
}

void Server::Welcome(platform::Fd connection) {
  if (seats_.size() >= kSessionsMax)
    return platform::SendLastPacket(
        std::move(connection), RefusalOf("this vGPU has " + std::to_string(kSessionsMax) + " OpenCL clients already"));
  auto accepted = opencl::Welcome(std::move(connection), options_.clients,
                                  {.buffers = Limits().all, .staging = StagingFor(Limits().all)},
                                  device_.in_host_memory && !shared_->copies && shared_->store == nullptr);
  // A client that closed its connection is not reported.
  if (!accepted && accepted.error().code == Errc::kUnavailable) return;
  if (!accepted) return Say(accepted.error().message);
  Seat& seat = seats_.emplace_back();
  seat.session = std::make_unique<Session>(*shared_, std::move(*accepted));
  seat.thread = std::thread([&seat] {
    ::pthread_setname_np(::pthread_self(), "weir-session");
    if (const Status status = seat.session->Run(); !status) Say(status.error().message);
    seat.ended.store(true, std::memory_order_release);
  });
}

void Server::Tick(std::int64_t now_ns) {
  bool all_stuck = true;
  for (auto seat = seats_.begin(); seat != seats_.end();) {
    if (seat->ended.load(std::memory_order_acquire)) {
      seat->thread.join();
      seat = seats_.erase(seat);
      continue;
    }
    if (seat->stopped_ns == 0 && !StillConnected(seat->session->socket())) {
      seat->session->Stop();
      seat->stopped_ns = now_ns;
    }
    const Duration within = seat->session->BusySinceNs() != 0 ? kEndWithin : kEndIdleWithin;
    all_stuck = all_stuck && seat->stopped_ns != 0 && now_ns - seat->stopped_ns > within.count();
    seat->session->ChargeInFlight(now_ns);  // before the watchdog, which may end the process
    Watch(*seat->session, now_ns);
    ++seat;
  }
  // All clients have left and what they started has not ended. A kernel cannot be cancelled, and the memory must be
  // freed.
  if (all_stuck && !seats_.empty()) std::_Exit(0);
}

void Server::Watch(const Session& session, std::int64_t now_ns) const {
  // A compiler cannot be cancelled, and what it takes of the processors is not charged.
  if (const std::int64_t since_ns = session.BuildingSinceNs();
      since_ns != 0 && now_ns - since_ns > options_.build_timeout.count()) {
    Say("a build of " + session.program() + " has not ended for " +
        std::to_string(options_.build_timeout.count() / 1'000'000) + " ms: this executor ends, and every client of '" +
        options_.vgpu + "' loses its device");
    std::_Exit(4);
  }
  if (options_.kernel_timeout.count() == 0) return;
  // A batch may wait behind one of another queue, which may take as long. Twice that time is too long for every batch,
  // although others end meanwhile.
  const auto lasts = [now_ns](std::int64_t since_ns) { return since_ns != 0 ? now_ns - since_ns : 0; };
  const std::int64_t limit_ns = options_.kernel_timeout.count();
  if (lasts(session.BusySinceNs()) < limit_ns && lasts(session.OldestSinceNs()) < 2 * limit_ns) return;
  Say("a kernel of " + session.program() + " has not ended for " +
      std::to_string(options_.kernel_timeout.count() / 1'000'000) + " ms: this executor ends, and every client of '" +
      options_.vgpu + "' loses its device");
  std::_Exit(3);
}

}  // namespace

Status RunExecutor(ExecutorOptions options) {
  // Before any thread is started, including the driver's, so that no thread receives these signals.
  WEIR_TRY(const platform::ServiceEnd end, platform::ServiceEnd::Watch());
  std::vector<std::string> libraries{options.library};
  if (options.library.empty()) libraries = VendorLibraries("/etc/OpenCL/vendors");
  std::string said = "no OpenCL driver is installed (/etc/OpenCL/vendors names none)";
  for (const std::string& library : libraries) {
    auto devices = OpenLibrary(library);
    if (!devices) {
      said = devices.error().message;
      continue;
    }
    auto found = ChooseDevice(*devices, options.device);
    if (!found) {
      said = library + ": " + found.error().message;
      continue;
    }
    NativeDevice device = std::move((*devices)[*found]);
    return Server(std::move(options), std::move(device)).Run(end.stop.get());
  }
  return Fail(Errc::kUnavailable, said);
}

}  // namespace weir::opencl
