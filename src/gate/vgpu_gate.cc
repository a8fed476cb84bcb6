// SPDX-License-Identifier: Apache-2.0
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "gate/host.h"
#include "gate/memory_claim.h"
#include "gate/turns.h"
#include "platform/futex.h"

namespace weir::gate {
namespace {

/// Tells the peer why it is refused, and closes the connection. A Hello that arrives meanwhile does not reset the
/// connection, so that the peer can read the Refusal.
Error Refuse(platform::Fd connection, Error why) {
  platform::SendLastPacket(std::move(connection), proto::Encode(proto::Refusal{why.code, why.message}));
  return why;
}

}  // namespace

Result<std::unique_ptr<VgpuGate>> VgpuGate::Make(VgpuId id, const std::string& socket_path, uid_t owner_uid,
                                                 const proto::CpuMask& device_cpus, std::int64_t now_ns) {
  std::unique_ptr<VgpuGate> gate(new VgpuGate(id, socket_path, owner_uid, device_cpus));
  WEIR_TRY(gate->listener_, platform::ListenSeqPacket(socket_path, 0666));
  gate->doorbell_.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!gate->doorbell_) return platform::ErrnoError("making an eventfd", errno);
  WEIR_TRY(gate->programs_, gate->MakeRegion());
  gate->programs_.back_max_ns = kProgramsBackMaxNs;
  gate->Beat(now_ns);
  return gate;
}

Result<VgpuGate::Shared> VgpuGate::MakeRegion() const {
  Shared shared;
  WEIR_TRY(shared.region,
           platform::MakeSharedRegion("weir-vgpu-" + std::to_string(id_.value), proto::kVgpuRegionBytes));
  proto::VgpuRegion& page = shared.page();
  proto::InitHeader(page.header, proto::kVgpuRegionMagic, proto::kVgpuRegionBytes, id_.value);
  page.heartbeat_ns.store(beat_ns_, std::memory_order_relaxed);
  page.doorbell_wanted.store(doorbell_wanted_, std::memory_order_relaxed);
  page.messages_sent.store(messages_sent_, std::memory_order_relaxed);
  page.allowance_ns.store(allowance_ns_, std::memory_order_relaxed);
  return shared;
}

Result<VgpuGate::Shared*> VgpuGate::RegionOf(bool is_executor) {
  if (!is_executor) return &programs_;
  if (!executors_.exists()) {
    static_cast<void>(AllowanceNs());  // what the new region begins with
    WEIR_TRY(executors_, MakeRegion());
    if (memory_order_ != 0) WriteControls(executors_.page(), /*memory=*/true);
  }
  return &executors_;
}

VgpuGate::~VgpuGate() {
  if (listener_) ::unlink(socket_path_.c_str());  // without a listener, the path belongs to another process
}

void VgpuGate::AnswerDoorbell() {
  std::uint64_t rings = 0;
  // EFD_NONBLOCK is not enough: agents share the open file and may clear the flag or empty the counter first.
  const iovec part{&rings, sizeof rings};
  [[maybe_unused]] const ssize_t got = ::preadv2(doorbell_.get(), &part, 1, -1, RWF_NOWAIT);
}

Result<platform::Fd> VgpuGate::Accept(const std::function<bool(pid_t)>& is_executor) {
  platform::Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection) return platform::ErrnoError("accepting on " + socket_path_, errno);
  WEIR_TRY(const platform::Peer peer, platform::PeerOf(connection.get()));
  const bool ours = is_executor && is_executor(peer.pid);
  if (Status may = MayAttach(peer, ours); !may) return Refuse(std::move(connection), std::move(may).error());
  return connection;
}

Status VgpuGate::MayAttach(const platform::Peer& peer, bool is_executor) const {
  if (peer.uid == 0 || peer.uid == owner_uid_ || is_executor) return Ok();
  return Fail(Errc::kPermissionDenied, "user " + std::to_string(peer.uid) +
                                           " may not attach to this vGPU; its owner is user " +
                                           std::to_string(owner_uid_));
}

Status VgpuGate::HasPlace(const platform::Peer& peer, const Places& places) const {
  if (processes_.size() < places.most) return Ok();
  // The daemon's own executor has a reserved place, so that other processes can't exclude it.
  const auto is_peer = [&peer](const auto& process) { return process.second->pid() == peer.pid; };
  if (places.executor_pid != 0 && peer.pid == places.executor_pid && std::ranges::none_of(processes_, is_peer))
    return Ok();
  std::string why = "this vGPU has " + std::to_string(processes_.size()) + " processes already";
  if (places.most < kProcessesPerVgpuMax)
    why += ", and the daemon keeps its last file descriptors for other vGPUs; raise the daemon's limit of open files";
  return Fail(Errc::kResourceExhausted, std::move(why));
}

Result<proto::Hello> VgpuGate::ReadHello(int connection, const platform::Peer& peer, const Places& places) const {
  const auto packet =
      platform::ReceivePacket(connection, proto::kAttachMessageBytesMax, platform::Descriptors::kRefused);
  WEIR_TRY_STATUS(MayAttach(peer, places.executor_pid != 0 && peer.pid == places.executor_pid));
  WEIR_TRY_STATUS(HasPlace(peer, places));
  if (!packet) return packet.error();
  WEIR_TRY(proto::AttachMessage message, proto::Decode(packet->bytes));
  auto* hello = std::get_if<proto::Hello>(&message);
  if (hello == nullptr) return Fail(Errc::kProtocol, "expected a Hello");
  if (hello->gate_version_major != proto::kGateVersionMajor)
    return Fail(Errc::kVersionMismatch, "the agent speaks gate layout " + std::to_string(hello->gate_version_major) +
                                            ", this daemon " + std::to_string(proto::kGateVersionMajor));
  return std::move(*hello);
}

/// A program of GL gets one, too, because it may use CUDA later in the same process; but programs of GL do not take the
/// last half of the words from programs that allocate for certain.
std::uint32_t VgpuGate::FreeMemoryWord(proto::Api api) {
  const bool may_claim = api == proto::Api::kGl;
  if (!may_claim && api != proto::Api::kCuda && api != proto::Api::kVulkan) return 0;
  if (may_claim && memory_words_.count() >= proto::kMemoryWords / 2) return 0;
  for (std::uint32_t word = 0; word < proto::kMemoryWords; ++word) {
    if (memory_words_[word]) continue;
    programs_.page().memory.words[word].store(0, std::memory_order_seq_cst);
    return word + 1;
  }
  return 0;
}

void VgpuGate::SetExecutorsMemory(Bytes bytes) {
  proto::MemoryTable& table = programs_.page().memory;
  table.others_pages.store(MemoryPagesOf(bytes.count), std::memory_order_seq_cst);
  if (!executors_.exists()) return;
  const std::uint64_t programs = PagesInWords(table);
  executors_.page().memory.others_pages.store(
      static_cast<std::uint32_t>(std::min<std::uint64_t>(programs, std::numeric_limits<std::uint32_t>::max())),
      std::memory_order_relaxed);
}

Result<ProcessGate*> VgpuGate::Welcome(platform::Fd connection, ProcessId id, const Places& places) {
  WEIR_TRY(const platform::Peer peer, platform::PeerOf(connection.get()));
  auto hello = ReadHello(connection.get(), peer, places);
  if (!hello) return Refuse(std::move(connection), std::move(hello).error());
  auto region = platform::MakeSharedRegion("weir-process-" + std::to_string(id.value), proto::kProcessRegionBytes);
  if (!region) return Refuse(std::move(connection), std::move(region).error());
  const auto shared = RegionOf(places.executor_pid != 0 && peer.pid == places.executor_pid);
  if (!shared) return Refuse(std::move(connection), shared.error());
  proto::InitHeader(region->mapping.As<proto::ProcessRegion>()->header, proto::kProcessRegionMagic,
                    proto::kProcessRegionBytes, id.value);
  Beat(beat_ns_);  // the region may be damaged, and an agent refuses a wrong header
  const std::uint32_t word = *shared == &programs_ ? FreeMemoryWord(hello->api) : 0;
  region->mapping.As<proto::ProcessRegion>()->memory_word.store(word, std::memory_order_relaxed);
  const proto::Welcome welcome{id_.value, id.value, proto::kVgpuRegionBytes, proto::kProcessRegionBytes, device_cpus_};
  std::array<int, proto::kWelcomeFds> fds{};
  fds[proto::kVgpuRegionFd] = (*shared)->region.fd.get();
  fds[proto::kProcessRegionFd] = region->fd.get();
  fds[proto::kDoorbellFd] = doorbell_.get();
  WEIR_TRY_STATUS(platform::SendPacket(connection.get(), proto::Encode(welcome), fds));
  // The region's descriptor is closed here: the daemon needs only the mapping.
  auto process = std::make_unique<ProcessGate>(id, std::move(connection), peer, *hello, std::move(region->mapping));
  if (word != 0) memory_words_.set(word - 1);
  process->set_memory_word(word);
  ProcessGate* raw = process.get();
  processes_.emplace(id, std::move(process));
  return raw;
}

void VgpuGate::Detach(ProcessId id) {
  const auto found = processes_.find(id);
  if (found == processes_.end()) return;
  // A process that was killed could not give its memory back. The driver has it back by now, or will soon.
  if (const std::uint32_t word = found->second->memory_word(); word != 0) {
    programs_.page().memory.words[word - 1].store(0, std::memory_order_seq_cst);
    memory_words_.reset(word - 1);
  }
  processes_.erase(found);
}

void VgpuGate::Publish(const Controls& controls) {
  const bool memory = memory_order_ == 0 || !controls.SameMemory(published_);
  if (memory) memory_order_ += 2;
  published_ = controls;
  InBoth([this, memory](proto::VgpuRegion& page) { WriteControls(page, memory); });
  Wake();
}

void VgpuGate::Beat(std::int64_t now_ns) {
  beat_ns_ = now_ns;
  if (executors_.exists() && !HoldsMemoryOrder(executors_.page())) {
    memory_order_ += 2;  // a new order, so that an executor that has read a false one reads this one
    InBoth([this](proto::VgpuRegion& page) { WriteControls(page, /*memory=*/true); });
  } else if (!HoldsMemoryOrder(programs_.page())) {
    WriteControls(programs_.page(), /*memory=*/true);  // programs carry out no orders
  }
  InBoth([this](proto::VgpuRegion& page) { Mend(page); });
}

/// Whether the controls are as published, but for those of memory.
bool VgpuGate::HoldsControls(const proto::VgpuRegion& page) const {
  return page.mode.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(published_.mode) &&
         page.frame_interval_ns.load(std::memory_order_relaxed) == published_.frame_interval_ns &&
         page.frame_sync.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(published_.frame_sync) &&
         page.frame_start.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(published_.frame_start) &&
         page.cap_ppm.load(std::memory_order_relaxed) == published_.cap_ppm;
}

bool VgpuGate::HoldsMemoryOrder(const proto::VgpuRegion& page) const {
  return page.memory_order.load(std::memory_order_relaxed) == memory_order_ &&
         page.memory_limit_slots.load(std::memory_order_relaxed) == published_.memory_limit_slots &&
         page.memory_elastic.load(std::memory_order_relaxed) == (published_.memory_elastic ? 1U : 0U) &&
         page.memory_here_slots.load(std::memory_order_relaxed) == published_.memory_here_slots &&
         page.memory_max_slots.load(std::memory_order_relaxed) == published_.memory_max_slots;
}

/// Writes the heartbeat, and those of the daemon's other words that are not as it has left them.
void VgpuGate::Mend(proto::VgpuRegion& page) const {
  proto::RegionHeader header{};
  proto::InitHeader(header, proto::kVgpuRegionMagic, proto::kVgpuRegionBytes, id_.value);
  if (std::memcmp(&page.header, &header, sizeof header) != 0) std::memcpy(&page.header, &header, sizeof header);
  if (!HoldsControls(page)) WriteControls(page, /*memory=*/false);
  if (page.doorbell_wanted.load(std::memory_order_relaxed) != doorbell_wanted_)
    page.doorbell_wanted.store(doorbell_wanted_, std::memory_order_seq_cst);
  if (page.messages_sent.load(std::memory_order_relaxed) != messages_sent_)
    page.messages_sent.store(messages_sent_, std::memory_order_release);
  page.heartbeat_ns.store(beat_ns_, std::memory_order_relaxed);
}

/// `memory`: also the words of elastic memory, which have changed.
void VgpuGate::WriteControls(proto::VgpuRegion& page, bool memory) const {
  page.frame_interval_ns.store(published_.frame_interval_ns, std::memory_order_relaxed);
  page.frame_sync.store(static_cast<std::uint32_t>(published_.frame_sync), std::memory_order_relaxed);
  page.frame_start.store(static_cast<std::uint32_t>(published_.frame_start), std::memory_order_relaxed);
  page.cap_ppm.store(published_.cap_ppm, std::memory_order_relaxed);
  if (memory) {
    page.memory_order.store(memory_order_ - 1, std::memory_order_release);  // odd: readers retry
    page.memory_limit_slots.store(published_.memory_limit_slots, std::memory_order_release);
    page.memory_elastic.store(published_.memory_elastic ? 1 : 0, std::memory_order_release);
    page.memory_here_slots.store(published_.memory_here_slots, std::memory_order_release);
    page.memory_max_slots.store(published_.memory_max_slots, std::memory_order_release);
    page.memory_order.store(memory_order_, std::memory_order_release);
  }
  page.mode.store(static_cast<std::uint32_t>(published_.mode), std::memory_order_release);
}

/// What was spent of a region's allowance since the last call, within bounds. An allowance beyond them is corrected.
std::int64_t VgpuGate::TakeSpent(Shared& shared) {
  std::int64_t spent = 0;
  const bool beyond =
      __builtin_sub_overflow(allowance_ns_, shared.page().allowance_ns.load(std::memory_order_relaxed), &spent);
  const std::int64_t believed = beyond ? 0 : std::clamp(spent, -shared.back_ns, kSpentMaxNs);
  if (believed != spent) {
    ++forged_allowances_;
    shared.page().allowance_ns.fetch_add(
        static_cast<std::int64_t>(static_cast<std::uint64_t>(spent) - static_cast<std::uint64_t>(believed)),
        std::memory_order_relaxed);
  }
  shared.back_ns = std::min(shared.back_ns + believed, shared.back_max_ns);
  return believed;
}

std::int64_t VgpuGate::AllowanceNs() {
  const std::int64_t by_programs = TakeSpent(programs_);
  if (executors_.exists()) {
    const std::int64_t by_executors = TakeSpent(executors_);
    if (by_programs != 0) executors_.page().allowance_ns.fetch_sub(by_programs, std::memory_order_relaxed);
    if (by_executors != 0) programs_.page().allowance_ns.fetch_sub(by_executors, std::memory_order_relaxed);
    allowance_ns_ -= by_executors;
  }
  allowance_ns_ -= by_programs;
  return std::clamp(allowance_ns_, -kBelievableNs, kBelievableNs);
}

void VgpuGate::Grant(std::int64_t delta_ns) {
  allowance_ns_ += delta_ns;
  InBoth([delta_ns](proto::VgpuRegion& page) { page.allowance_ns.fetch_add(delta_ns, std::memory_order_relaxed); });
}

std::uint64_t VgpuGate::FailOpens() const {
  const auto of = [](const Shared& shared) { return shared.page().fail_opens.load(std::memory_order_relaxed); };
  return of(programs_) + (executors_.exists() ? of(executors_) : 0);
}

void VgpuGate::Wake() {
  InBoth([](proto::VgpuRegion& page) {
    page.wake_word.fetch_add(1, std::memory_order_release);
    platform::FutexWakeAll(page.wake_word);
  });
}

void VgpuGate::WakeNext() {
  InBoth([](proto::VgpuRegion& page) {
    page.wake_word.fetch_add(1, std::memory_order_release);
    gate::WakeNext(page);
  });
}

std::vector<ProcessId> VgpuGate::Tell(proto::CommandKind command, std::uint64_t argument) {
  std::vector<ProcessId> deaf;
  ++messages_sent_;
  for (const auto& [id, process] : processes_)
    if (!process->Send({messages_sent_, command, argument})) deaf.push_back(id);
  // Stored after the messages were sent, so that an agent that reads the count finds them.
  InBoth([this](proto::VgpuRegion& page) { page.messages_sent.store(messages_sent_, std::memory_order_release); });
  Wake();
  return deaf;
}

}  // namespace weir::gate
