// SPDX-License-Identifier: Apache-2.0
#include "cluster/memory_store.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "platform/files.h"

namespace weir::cluster {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kJournalBytesMax = 1U << 30;
constexpr std::size_t kLinesAtLeast = 10'000;  // before the journal is written anew

/// {"fence": N, "set": {key: value}, "gone": [key]}
std::string LineOf(std::uint64_t fence, std::span<const Change> changes) {
  ordered_json line{{"fence", fence}};
  // Later changes of one key win, so each key is in one of the two.
  std::map<std::string, const Change*> last;
  for (const Change& change : changes) last[change.key] = &change;
  for (const auto& [key, change] : last) {
    if (change->value)
      line["set"][key] = *change->value;
    else
      line["gone"].push_back(key);
  }
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Result<std::unique_ptr<MemoryStore>> MemoryStore::Open(const std::string& path) {
  auto store = std::make_unique<MemoryStore>();
  store->path_ = path;
  const std::string lock = path + ".lock";
  store->lock_.Reset(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!store->lock_) return platform::ErrnoError("opening " + lock, errno);
  if (::flock(store->lock_.get(), LOCK_EX | LOCK_NB) != 0)
    return Fail(Errc::kBusy, "another manager has " + path + " open: several managers need etcd (--etcd)");
  WEIR_TRY_STATUS(store->Load());
  WEIR_TRY_STATUS(store->Rewrite());
  return store;
}

Status MemoryStore::Load() {
  const auto text = platform::ReadFile(path_, kJournalBytesMax);
  if (!text && text.error().code == Errc::kNotFound) return Ok();
  if (!text) return text.error();
  std::size_t begin = 0;
  for (std::size_t number = 1; begin < text->size(); ++number) {
    const std::size_t end = text->find('\n', begin);
    if (end == std::string::npos) break;  // torn off: it was never confirmed
    const auto line = nlohmann::json::parse(text->begin() + static_cast<std::ptrdiff_t>(begin),
                                            text->begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    const Error bad = Fail(Errc::kProtocol, path_ + ": line " + std::to_string(number) +
                                                " is none of a manager's; set the file aside to start with nothing");
    if (!line.is_object() || !line.contains("fence") || !line["fence"].is_number_unsigned()) return bad;
    fence_ = std::max(fence_, line["fence"].get<std::uint64_t>());
    const auto set = line.value("set", nlohmann::json::object());
    for (const auto& [key, value] : set.items()) {
      if (!value.is_string()) return bad;
      records_[key] = value.get<std::string>();
    }
    const auto gone = line.value("gone", nlohmann::json::array());
    for (const auto& key : gone) {
      if (!key.is_string()) return bad;
      records_.erase(key.get<std::string>());
    }
    begin = end + 1;
  }
  return Ok();
}

Status MemoryStore::Rewrite() {
  std::string all = LineOf(fence_, {});
  for (const auto& [key, value] : records_) {
    const Change change{key, value};
    all += LineOf(fence_, std::span(&change, 1));
  }
  WEIR_TRY_STATUS(platform::WriteFileAtomically(path_, all));
  journal_.Reset(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!journal_) return platform::ErrnoError("opening " + path_, errno);
  lines_ = records_.size() + 1;
  return Ok();
}

Status MemoryStore::Append(const std::string& line) {
  if (path_.empty()) return Ok();
  if (lines_ > kLinesAtLeast && lines_ > 4 * records_.size()) WEIR_TRY_STATUS(Rewrite());
  const off_t before = ::lseek(journal_.get(), 0, SEEK_END);
  const ssize_t written = ::write(journal_.get(), line.data(), line.size());
  const int error = written < 0 ? errno : ENOSPC;
  if (written != static_cast<ssize_t>(line.size())) {
    if (before >= 0 && ::ftruncate(journal_.get(), before) != 0) return platform::ErrnoError("mending " + path_, errno);
    return platform::ErrnoError("writing " + path_, error);
  }
  if (::fdatasync(journal_.get()) != 0) return platform::ErrnoError("syncing " + path_, errno);
  ++lines_;
  return Ok();
}

Result<std::optional<Leader>> MemoryStore::WhoLeads() {
  const std::lock_guard guard(mutex_);
  return leader_;
}

Result<Lead> MemoryStore::TakeLead(const std::string& holder, const std::optional<Leader>& instead_of) {
  const std::lock_guard guard(mutex_);
  if ((leader_ ? leader_->fence : 0) != (instead_of ? instead_of->fence : 0))
    return Fail(Errc::kBusy, "another manager took the lead");
  WEIR_TRY_STATUS(Append(LineOf(fence_ + 1, {})));
  leader_ = Leader{holder, ++fence_};
  return Lead{.fence = fence_};
}

Status MemoryStore::KeepLead(const Lead& lead) {
  const std::lock_guard guard(mutex_);
  if (leader_ && leader_->fence == lead.fence) return Ok();
  return Fail(Errc::kNotFound, "the lead is over");
}

void MemoryStore::GiveUpLead(const Lead& lead) {
  const std::lock_guard guard(mutex_);
  if (leader_ && leader_->fence == lead.fence) leader_.reset();
}

Result<std::vector<Entry>> MemoryStore::Read() {
  const std::lock_guard guard(mutex_);
  std::vector<Entry> entries;
  for (const auto& [key, value] : records_) entries.push_back({key, value});
  return entries;
}

Status MemoryStore::Write(const Lead& lead, std::span<const Change> changes) {
  const std::lock_guard guard(mutex_);
  if (!leader_ || leader_->fence != lead.fence) return Fail(Errc::kBusy, "another manager has the lead");
  WEIR_TRY_STATUS(Append(LineOf(fence_, changes)));
  for (const Change& change : changes) {
    if (change.value)
      records_[change.key] = *change.value;
    else
      records_.erase(change.key);
  }
  return Ok();
}

}  // namespace weir::cluster
