// SPDX-License-Identifier: Apache-2.0
#include "platform/control_groups.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "platform/fd.h"
#include "platform/files.h"

namespace weir::platform {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 20;

std::vector<std::string> Words(std::string_view text, char between) {
  std::vector<std::string> words;
  std::istringstream stream{std::string(text)};
  for (std::string word; std::getline(stream, word, between);) words.push_back(word);
  return words;
}

bool Has(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

/// The words of a file such as cgroup.controllers; none if it can't be read.
std::vector<std::string> WordsOf(const std::string& path) {
  auto text = ReadFile(path, kFileBytesMax);
  if (!text) return {};
  while (text->ends_with('\n')) text->pop_back();
  return Words(*text, ' ');
}

Status Write(const std::string& path, const std::string& text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_TRUNC));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return ErrnoError("writing '" + text + "' to " + path, errno);
  return Ok();
}

/// 0: the file can't be read, or has no number.
std::uint64_t NumberIn(const std::string& path) {
  const auto text = ReadFile(path, kFileBytesMax);
  std::uint64_t number = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), number);
  return number;
}

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

/// Makes or removes the folder `path`. The root of a hierarchy is closed to its owner, too (mode 0555). The owner needs
/// CAP_DAC_OVERRIDE, which the daemon's unit does not have, or another mode. False, with errno: it was not possible.
template <typename Change>
bool ChangeFolder(const std::string& path, Change change) {
  if (change(path.c_str())) return true;
  if (errno != EACCES) return false;
  if (::chmod(std::filesystem::path(path).parent_path().c_str(), 0755) == 0) return change(path.c_str());
  errno = EACCES;
  return false;
}

Status MakeGroupFolder(const std::string& path) {
  const auto make = [](const char* folder) { return ::mkdir(folder, 0755) == 0 || errno == EEXIST; };
  return ChangeFolder(path, make) ? Ok() : Status(ErrnoError("making the cgroup " + path, errno));
}

/// Version 2: the groups in `folder` get these controllers.
Status Enable(const std::string& folder, bool memory, bool processes) {
  const std::string file = folder + "/cgroup.subtree_control";
  const std::vector<std::string> enabled = WordsOf(file);
  std::string more;
  if (memory && !Has(enabled, "memory")) more += "+memory ";
  if (processes && !Has(enabled, "pids")) more += "+pids ";
  if (more.empty()) return Ok();
  more.pop_back();
  return Write(file, more);
}

}  // namespace

std::vector<CgroupMount> CgroupMountsIn(std::string_view mountinfo) {
  std::vector<CgroupMount> mounts;
  for (const std::string& line : Words(mountinfo, '\n')) {
    const std::vector<std::string> words = Words(line, ' ');
    // ID PARENT DEVICE ROOT FOLDER OPTIONS [TAG ...] - TYPE SOURCE OPTIONS_OF_THE_FILE_SYSTEM
    const auto dash = std::ranges::find(words, "-");
    if (dash - words.begin() < 6 || words.end() - dash < 4) continue;
    if (dash[1] == "cgroup2") mounts.push_back({.folder = words[4], .is_v2 = true});
    if (dash[1] != "cgroup") continue;
    const std::vector<std::string> options = Words(dash[3], ',');
    mounts.push_back({.folder = words[4], .memory = Has(options, "memory"), .processes = Has(options, "pids")});
  }
  return mounts;
}

Result<ControlGroups> ControlGroups::Make(const std::string& name, const GroupLimits& together,
                                          const std::string& root) {
  WEIR_TRY(const std::string mountinfo, ReadFile(root + "/proc/self/mountinfo", kFileBytesMax));
  std::vector<CgroupMount> mounts = CgroupMountsIn(mountinfo);
  for (CgroupMount& mount : mounts) {
    mount.folder.insert(0, root);
    if (!mount.is_v2) continue;
    const std::vector<std::string> controllers = WordsOf(mount.folder + "/cgroup.controllers");
    mount.memory = Has(controllers, "memory");
    mount.processes = Has(controllers, "pids");
  }
  // A controller is in one hierarchy only, which may be mounted at several places: the first of them is taken.
  ControlGroups groups;
  bool memory = false, processes = false;
  for (const CgroupMount& mount : mounts) {
    const Part part{.folder = mount.folder + "/" + name,
                    .is_v2 = mount.is_v2,
                    .memory = mount.memory && !memory,
                    .processes = mount.processes && !processes};
    if (!part.memory && !part.processes) continue;
    memory = memory || part.memory;
    processes = processes || part.processes;
    groups.parts_.push_back(part);
  }
  if (!memory) return Fail(Errc::kNotFound, "no cgroup hierarchy is mounted that limits memory");
  groups.together_ = together;
  for (const Part& part : groups.parts_) WEIR_TRY_STATUS(MakePart(part, together));
  return groups;
}

Status ControlGroups::MakePart(const Part& part, const GroupLimits& together) {
  if (part.is_v2)
    WEIR_TRY_STATUS(Enable(std::filesystem::path(part.folder).parent_path(), part.memory, part.processes));
  WEIR_TRY_STATUS(MakeGroupFolder(part.folder));
  // Version 1: a group's limit holds for the groups in it only with this, which is the default of recent kernels.
  if (const std::string file = part.folder + "/memory.use_hierarchy"; part.memory && Exists(file)) {
    const std::vector<std::string> now = WordsOf(file);
    if (now != std::vector<std::string>{"1"}) WEIR_TRY_STATUS(Write(file, "1"));
  }
  WEIR_TRY_STATUS(SetLimits(part, part.folder, together));
  return part.is_v2 ? Enable(part.folder, part.memory, part.processes) : Ok();
}

Status ControlGroups::SetLimits(const Part& part, const std::string& folder, const GroupLimits& limits) {
  if (part.processes)
    WEIR_TRY_STATUS(Write(folder + "/pids.max", limits.processes > 0 ? std::to_string(limits.processes) : "max"));
  if (!part.memory) return Ok();
  const std::string bytes = std::to_string(limits.memory_bytes);
  const std::uint64_t held = NumberIn(folder + (part.is_v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  if (limits.memory_bytes > 0 && held > limits.memory_bytes) return Ok();
  if (part.is_v2) {
    if (Exists(folder + "/memory.swap.max"))
      WEIR_TRY_STATUS(Write(folder + "/memory.swap.max", limits.memory_bytes > 0 ? "0" : "max"));
    return Write(folder + "/memory.max", limits.memory_bytes > 0 ? bytes : "max");
  }
  // The limit of memory with swap is never below that of memory, so that one of them has to be set first: which one
  // depends on the former values.
  const std::string file = folder + "/memory.limit_in_bytes", with_swap = folder + "/memory.memsw.limit_in_bytes";
  const std::string value = limits.memory_bytes > 0 ? bytes : "-1";
  if (!Exists(with_swap)) return Write(file, value);
  (void)Write(file, value);
  WEIR_TRY_STATUS(Write(with_swap, value));
  return Write(file, value);
}

Status ControlGroups::Set(const std::string& group, const GroupLimits& limits) const {
  for (const Part& part : parts_) {
    const std::string folder = part.folder + "/" + group;
    if (!Exists(part.folder)) WEIR_TRY_STATUS(MakePart(part, together_));
    WEIR_TRY_STATUS(MakeGroupFolder(folder));
    WEIR_TRY_STATUS(SetLimits(part, folder, limits));
    if (const std::string all = folder + "/memory.oom.group"; part.memory && part.is_v2 && Exists(all))
      WEIR_TRY_STATUS(Write(all, "1"));
  }
  return Ok();
}

std::vector<std::string> ControlGroups::Folders() const {
  std::vector<std::string> folders;
  for (const Part& part : parts_) folders.push_back(part.folder);
  return folders;
}

std::vector<std::string> ControlGroups::EntriesOf(const std::string& group) const {
  return GroupEntries(Folders(), group);
}

std::uint64_t ControlGroups::KilledForMemory(const std::string& group) const {
  for (const Part& part : parts_) {
    if (!part.memory) continue;
    const auto text =
        ReadFile(part.folder + "/" + group + (part.is_v2 ? "/memory.events" : "/memory.oom_control"), kFileBytesMax);
    if (!text) return 0;
    constexpr std::string_view kKey = "oom_kill ";
    for (const std::string& line : Words(*text, '\n')) {
      std::uint64_t count = 0;
      if (line.starts_with(kKey) &&
          std::from_chars(line.data() + kKey.size(), line.data() + line.size(), count).ec == std::errc())
        return count;
    }
  }
  return 0;
}

bool ControlGroups::RemoveUnused(const std::set<std::string>& groups) const {
  bool all = true;
  for (const Part& part : parts_) {
    std::error_code none;
    std::vector<std::string> unused;
    for (std::filesystem::directory_iterator entry(part.folder, none), end; entry != end; entry.increment(none))
      if (entry->is_directory(none) && !groups.contains(entry->path().filename())) unused.push_back(entry->path());
    for (const std::string& folder : unused)  // fails while a process is left in it
      if (::rmdir(folder.c_str()) != 0) all = false;
  }
  return all;
}

void ControlGroups::RemoveIfEmpty() const {
  for (const Part& part : parts_) ChangeFolder(part.folder, [](const char* folder) { return ::rmdir(folder) == 0; });
}

std::vector<std::string> GroupEntries(const std::vector<std::string>& folders, const std::string& group) {
  const std::string entry = "/" + group + "/cgroup.procs";
  std::vector<std::string> entries;
  entries.reserve(folders.size());
  for (const std::string& folder : folders) entries.push_back(folder + entry);
  return entries;
}

}  // namespace weir::platform
