// SPDX-License-Identifier: Apache-2.0
#include "account/drm_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "platform/fd.h"

namespace weir::account {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kDevices = "/dev/dri/";

std::optional<std::int64_t> PidOf(const std::string& name) {
  std::int64_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return pid;
}

/// Empty: the file can't be read, because the process has ended or belongs to another user.
std::string TextOf(const std::string& path) {
  const platform::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(kFdinfoBytesMax, '\0');
  const ssize_t got = file ? ::read(file.get(), text.data(), text.size()) : -1;
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

}  // namespace

void DrmSource::Search() {
  files_.clear();
  std::error_code error;
  for (fs::directory_iterator process(proc_, error); !error && process != fs::directory_iterator();
       process.increment(error)) {
    const auto pid = PidOf(process->path().filename().string());
    if (!pid) continue;
    std::error_code gone;
    for (fs::directory_iterator fd(process->path() / "fd", gone); !gone && fd != fs::directory_iterator();
         fd.increment(gone)) {
      std::error_code closed;
      if (!fs::read_symlink(fd->path(), closed).string().starts_with(kDevices) || closed) continue;
      if (files_.size() == kFilesMax) return;
      files_.push_back({*pid, (process->path() / "fdinfo" / fd->path().filename()).string()});
    }
  }
}

Result<std::vector<DeviceUse>> DrmSource::Read() {
  if (const Instant now = now_(); searched_ == Instant{} || now - searched_ >= kSearchEvery) {
    Search();
    searched_ = now;
  }
  // Descriptors of one open file, for example in a child that inherited it, show the same client.
  std::map<std::uint64_t, ClientUse> clients;
  bool counts_cycles = false;
  for (const File& file : files_) {
    const auto client = ParseFdinfo(TextOf(file.fdinfo));
    if (!client || client->pdev != pci_) continue;
    counts_cycles = counts_cycles || client->counts_cycles;
    ClientUse& use = clients.try_emplace(client->id, ClientUse{client->id, file.pid, {}}).first->second;
    use.used = std::max(use.used, client->Sum());
  }
  if (counts_cycles)
    return Fail(Errc::kUnavailable, "the driver of " + pci_ + " counts cycles of engines and no time, and is not read");
  DeviceUse use;
  for (const auto& [id, client] : clients) use.clients.push_back(client);
  return std::vector{std::move(use)};
}

}  // namespace weir::account
