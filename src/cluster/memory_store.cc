// SPDX-License-Identifier: Apache-2.0
#include "cluster/memory_store.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdio>

namespace weir::cluster {
namespace {

constexpr std::size_t kJournalBytesMax = 1U << 30;
// The journal is rewritten when it has four times as many lines as records and more than this, or four times its size
// after the last rewrite and more than this.
constexpr std::size_t kLinesAtLeast = 10'000;
constexpr std::size_t kBytesAtLeast = 4U << 20;

}  // namespace

Result<std::unique_ptr<MemoryStore>> MemoryStore::Open(const std::string& path, platform::FileCalls& calls) {
  auto store = std::make_unique<MemoryStore>();
  store->path_ = path;
  store->calls_ = &calls;
  const std::string lock = path + ".lock";
  store->lock_.Reset(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!store->lock_) return platform::ErrnoError("opening " + lock, errno);
  if (::flock(store->lock_.get(), LOCK_EX | LOCK_NB) != 0)
    return Fail(Errc::kBusy, "another manager has " + path + " open: several managers need etcd (--etcd)");
  WEIR_TRY_STATUS(store->Load());
  WEIR_TRY_STATUS(store->Rewrite(store->fence_, {}));
  return store;
}

Status MemoryStore::Load() {
  const auto text = platform::ReadFile(*calls_, path_, kJournalBytesMax);
  if (!text && text.error().code == Errc::kNotFound) return Ok();
  if (!text) return text.error();
  auto content = ParseJournal(*text);
  if (!content)
    return Fail(content.error().code,
                path_ + ": " + content.error().message +
                    "; the manager does not start, so that nothing is lost. Restore the file from a backup, or set it "
                    "aside to start with nothing: 'mv " +
                    path_ + " " + path_ + ".damaged'");
  if (content->good_bytes < text->size()) {
    const std::string torn = path_ + ".torn";
    WEIR_TRY_STATUS(platform::ReplaceDurably(*calls_, torn, std::string_view(*text).substr(content->good_bytes)));
    std::fprintf(stderr,
                 "weir-manager: %s: the last record is torn; it was never confirmed. It is removed and saved in %s\n",
                 path_.c_str(), torn.c_str());
  }
  fence_ = content->fence;
  records_ = std::move(content->records);
  return Ok();
}

Status MemoryStore::Rewrite(std::uint64_t fence, std::span<const Change> changes) {
  journal_ = {};
  std::string all = writer_.Begin(fence);
  for (const auto& [key, value] : records_) {
    const Change change{key, value};
    all += writer_.Line(fence, std::span(&change, 1));
  }
  if (!changes.empty()) all += writer_.Line(fence, changes);
  WEIR_TRY_STATUS(platform::ReplaceDurably(*calls_, path_, all));
  journal_ = {*calls_, calls_->Open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC, 0)};
  if (!journal_) return platform::ErrnoError("opening " + path_, errno);
  lines_ = records_.size() + 1;
  bytes_ = rewritten_bytes_ = all.size();
  return Ok();
}

Status MemoryStore::Append(std::uint64_t fence, std::span<const Change> changes) {
  if (path_.empty()) return Ok();
  const bool is_long = lines_ > kLinesAtLeast && lines_ > 4 * records_.size();
  const bool is_large = bytes_ > kBytesAtLeast && bytes_ > 4 * rewritten_bytes_;
  if (!journal_ || is_long || is_large) return Rewrite(fence, changes);
  const std::string line = writer_.Line(fence, changes);
  Status status = platform::WriteAll(*calls_, journal_.get(), line, path_);
  if (status && calls_->Fdatasync(journal_.get()) != 0) status = platform::ErrnoError("syncing " + path_, errno);
  if (!status) journal_ = {};
  ++lines_;
  bytes_ += line.size();
  return status;
}

Result<std::optional<Leader>> MemoryStore::WhoLeads() {
  const std::lock_guard guard(mutex_);
  return leader_;
}

Result<Lead> MemoryStore::TakeLead(const std::string& holder, const std::optional<Leader>& instead_of) {
  const std::lock_guard guard(mutex_);
  if ((leader_ ? leader_->fence : 0) != (instead_of ? instead_of->fence : 0))
    return Fail(Errc::kBusy, "another manager has become the leader");
  WEIR_TRY_STATUS(Append(fence_ + 1, {}));
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
  // As etcd's revision, so that the next lead's fence, and numbers of runs that begin with it, are beyond this write.
  WEIR_TRY_STATUS(Append(fence_ + 1, changes));
  ++fence_;
  for (const Change& change : changes) {
    if (change.value)
      records_[change.key] = *change.value;
    else
      records_.erase(change.key);
  }
  return Ok();
}

}  // namespace weir::cluster
