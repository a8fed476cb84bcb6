// SPDX-License-Identifier: Apache-2.0
#include "account/drm_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "platform/fd.h"

namespace weir::account {
namespace {

namespace fs = std::filesystem;

/// Whether a descriptor's link can be that of a DRM client. Other files below /dev/dri are open to every user.
bool MayBeClient(std::string_view link) {
  return link.starts_with("/dev/dri/card") || link.starts_with("/dev/dri/render");
}

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

/// Empty: the file is not that of a client of this device.
std::optional<DrmClient> DrmSource::ClientOf(const std::string& fdinfo) const {
  auto client = ParseFdinfo(TextOf(fdinfo));
  if (!client || client->pdev != pci_) return std::nullopt;
  return client;
}

void DrmSource::Search() {
  files_.clear();
  std::map<std::uint64_t, std::size_t> files_of;  // of each client
  std::error_code error;
  for (fs::directory_iterator process(proc_, error); !error && process != fs::directory_iterator();
       process.increment(error)) {
    const auto pid = PidOf(process->path().filename().string());
    if (!pid) continue;
    std::error_code gone;
    for (fs::directory_iterator fd(process->path() / "fd", gone); !gone && fd != fs::directory_iterator();
         fd.increment(gone)) {
      std::error_code closed;
      if (!MayBeClient(fs::read_symlink(fd->path(), closed).string()) || closed) continue;
      std::string fdinfo = (process->path() / "fdinfo" / fd->path().filename()).string();
      const auto client = ClientOf(fdinfo);
      if (!client || ++files_of[client->id] > kFilesOfClientMax) continue;
      files_.push_back({*pid, std::move(fdinfo)});
      if (files_.size() > limits_.files) return;
    }
  }
}

Error DrmSource::TooMany(std::size_t most, const char* what) const {
  return Fail(Errc::kResourceExhausted, fmt::format("{} has more than {} {}, which are too many to read: its use is "
                                                    "charged as programs report it until some are closed",
                                                    pci_, most, what));
}

Result<std::vector<DeviceUse>> DrmSource::Read() {
  if (const Instant now = now_(); searched_ == Instant{} || now - searched_ >= kSearchEvery) {
    Search();
    searched_ = now;
  }
  if (files_.size() > limits_.files) return TooMany(limits_.files, "open files");
  // Descriptors of one open file, for example in a child that inherited it, show the same client.
  std::map<std::uint64_t, ClientUse> clients;
  bool counts_cycles = false;
  for (const File& file : files_) {
    const auto client = ClientOf(file.fdinfo);
    if (!client) continue;
    counts_cycles = counts_cycles || client->counts_cycles;
    const Duration used = client->Sum();
    if (used == Duration{0}) continue;
    ClientUse& use = clients.try_emplace(client->id, ClientUse{client->id, file.pid, {}}).first->second;
    use.used = std::max(use.used, used);
  }
  if (counts_cycles)
    return Fail(Errc::kUnavailable, "the driver of " + pci_ + " counts cycles of engines and no time, and is not read");
  if (clients.size() > limits_.clients) return TooMany(limits_.clients, "clients that use it");
  DeviceUse use;
  for (const auto& [id, client] : clients) use.clients.push_back(client);
  return std::vector{std::move(use)};
}

}  // namespace weir::account
