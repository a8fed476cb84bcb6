// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/debug_report.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/common/version.h"
#include "platform/files.h"

namespace weir::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::size_t kEntriesMax = 200;
/// Programs make files in the homes of executors, as many as they like. So the search for names has an end.
constexpr std::size_t kSeenMax = 100'000;
constexpr std::size_t kLogBytes = std::size_t{8} << 10, kLogBytesMax = std::size_t{64} << 20;

ordered_json Host() {
  utsname name{};
  static_cast<void>(::uname(&name));
  rlimit files{};
  static_cast<void>(::getrlimit(RLIMIT_NOFILE, &files));
  std::array<double, 3> load{};
  static_cast<void>(::getloadavg(load.data(), static_cast<int>(load.size())));
  const long pages = ::sysconf(_SC_PHYS_PAGES), page_bytes = ::sysconf(_SC_PAGESIZE);
  return {{"kernel", fmt::format("{} {} {}", name.sysname, name.release, name.machine)},
          {"cpus_online", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"memory_bytes", static_cast<std::int64_t>(pages) * page_bytes},
          {"load", load},
          {"uid", ::geteuid()},
          {"files_limit", files.rlim_cur},
          {"files_limit_max", files.rlim_max}};
}

ordered_json Entry(const fs::path& path, const fs::path& below) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return {{"name", path.lexically_relative(below).string()}, {"gone", true}};
  return {{"name", path.lexically_relative(below).string()},
          {"mode", fmt::format("{:06o}", info.st_mode)},
          {"uid", info.st_uid},
          {"bytes", info.st_size}};
}

/// The paths in `folder`, at most `most` of them, sorted. Adds those of folders to `folders`; a link is not followed.
std::vector<fs::path> PathsIn(const fs::path& folder, std::size_t most, std::deque<fs::path>& folders,
                              std::error_code& error) {
  std::vector<fs::path> paths;
  for (fs::directory_iterator at(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end && paths.size() < most; at.increment(error))
    paths.push_back(at->path());
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    std::error_code none;
    if (fs::symlink_status(path, none).type() == fs::file_type::directory) folders.push_back(path);
  }
  return paths;
}

/// Names, modes and owners of what is in the folder; not the contents. If there is too much, what lies deepest is left
/// out: those are the files of programs, while the sockets of the daemon lie near the top.
ordered_json Listing(const std::string& folder) {
  ordered_json out{{"path", folder}, {"entries", ordered_json::array()}};
  std::vector<fs::path> listed;
  std::deque<fs::path> folders{folder};
  std::size_t seen = 0;
  for (; !folders.empty() && seen < kSeenMax; folders.pop_front()) {
    std::error_code error;
    const std::vector<fs::path> paths = PathsIn(folders.front(), kSeenMax - seen, folders, error);
    if (error && !out.contains("problem")) out["problem"] = error.message();
    seen += paths.size();
    const std::size_t room = std::min(paths.size(), kEntriesMax - listed.size());
    listed.insert(listed.end(), paths.begin(), paths.begin() + static_cast<std::ptrdiff_t>(room));
  }
  if (seen > listed.size()) out["left_out"] = seen - listed.size();
  if (seen >= kSeenMax) out["left_out_at_least"] = true;
  std::sort(listed.begin(), listed.end());
  for (const fs::path& path : listed) out["entries"].push_back(Entry(path, folder));
  return out;
}

/// The last lines of a private daemon's log; empty: there is no log.
ordered_json EndOfLog(const std::string& path) {
  ordered_json lines = ordered_json::array();
  const auto text = platform::ReadFile(path, kLogBytesMax);
  if (!text) return lines;
  std::string_view end = *text;
  if (end.size() > kLogBytes) {
    end.remove_prefix(end.size() - kLogBytes);
    end.remove_prefix(std::min(end.find('\n'), end.size() - 1) + 1);  // a line that is cut
  }
  while (!end.empty()) {
    const std::size_t length = std::min(end.find('\n'), end.size());
    lines.push_back(std::string(end.substr(0, length)));
    end.remove_prefix(std::min(length + 1, end.size()));
  }
  return lines;
}

ordered_json Answer(const ControlClient& client, const char* target) {
  const auto reply = client.Get(target);
  if (!reply) return {{"problem", reply.error().message}};
  return *reply;
}

}  // namespace

ordered_json DebugReport(const Places& places, const ControlClient& client) {
  ordered_json report{{"weir", kVersion}, {"socket", places.socket}, {"host", Host()}};
  report["run_folder"] = Listing(places.run_dir);
  report["private_log_end"] = EndOfLog(places.run_dir + "/private.log");
  constexpr std::pair<const char*, const char*> kQuestions[] = {{"status", "/v1/status"},
                                                                {"devices", "/v1/devices"},
                                                                {"vgpus", "/v1/vgpus"},
                                                                {"peers", "/v1/peers"},
                                                                {"events", "/v1/events"}};
  for (const auto& [name, target] : kQuestions) {
    report["daemon"][name] = Answer(client, target);
    if (report["daemon"][name].contains("problem") && name == std::string_view("status")) break;  // it does not answer
  }
  return report;
}

}  // namespace weir::cli
