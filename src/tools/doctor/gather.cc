// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/gather.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/common/control_client.h"
#include "cli/common/places.h"
#include "cli/common/program.h"
#include "cli/common/text_units.h"
#include "cli/common/version.h"
#include "platform/clock.h"
#include "platform/fd.h"
#include "platform/process.h"
#include "tools/doctor/elf_image.h"

namespace weir::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kScriptHeadBytes = 4096;

bool Exists(const char* path) { return access(path, F_OK) == 0; }

bool IsNoexec(const std::string& path) {
  struct statvfs mount {};
  return statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_NOEXEC) != 0;
}

std::string ReadAt(int fd, std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  const ssize_t count = offset > INT64_MAX ? -1 : pread(fd, bytes.data(), size, static_cast<off_t>(offset));
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return bytes;
}

/// Opens only regular files, because reading a device or a pipe could block.
platform::Fd OpenRegular(const std::string& path) {
  platform::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat file {};
  if (fd && (fstat(fd.get(), &file) != 0 || !S_ISREG(file.st_mode))) fd.Reset();
  return fd;
}

std::string PrivilegeText(const std::string& path) {
  const Privilege p = PrivilegeOf(path);
  if (!DropsPreload(p)) return "";
  if ((p.mode & S_ISUID) != 0 && !p.ignored) return "setuid";
  if ((p.mode & S_ISGID) != 0 && !p.ignored) return "setgid";
  return p.file_capabilities ? "file capabilities" : "this shell's own ids differ";
}

ImageFacts LookAt(const std::string& path) {
  ImageFacts image;
  image.path = path;
  const platform::Fd fd = OpenRegular(path);
  if (!fd) return image;
  const auto read = [&fd](std::uint64_t offset, std::size_t size) { return ReadAt(fd.get(), offset, size); };
  const std::string head = read(0, kScriptHeadBytes);
  if (head.starts_with("#!")) {
    image.type = ImageType::kScript;
    const ScriptLine line = ParseScriptLine(head);
    image.interpreter = line.interpreter;
    // "#!/usr/bin/env python3" runs the program that env finds.
    if (fs::path(line.interpreter).filename() == "env" && !line.argument.empty() && line.argument[0] != '-')
      image.interpreter = line.argument.substr(0, line.argument.find(' '));
    image.readable = !image.interpreter.empty();
    return image;
  }
  if (InspectImage(head) == ImageKind::kWindows) {
    image.type = ImageType::kWindows;
    image.readable = true;
    return image;
  }
  const ElfImage elf = ParseElf(read);
  if (elf.bits == 0) return image;
  image.type = ImageType::kElf;
  image.bits = elf.bits;
  image.machine = elf.machine;
  image.loader = elf.loader;
  image.needed = elf.needed;
  image.readable = elf.readable;
  image.privilege = PrivilegeText(path);
  return image;
}

LibraryFacts LookAtLibrary(const std::string& path) {
  LibraryFacts library;
  library.path = path;
  const platform::Fd fd = OpenRegular(path);
  if (!fd) {
    library.error = fmt::format("{}: {}", path, std::strerror(errno));
    return library;
  }
  const ElfImage elf =
      ParseElf([&fd](std::uint64_t offset, std::size_t size) { return ReadAt(fd.get(), offset, size); });
  if (elf.bits == 0) library.error = fmt::format("{} is not a library", path);
  library.bits = elf.bits;
  library.machine = elf.machine;
  library.noexec = IsNoexec(path);
  return library;
}

std::string RunDirProblem(const std::string& path) {
  struct stat folder {};
  if (stat(path.c_str(), &folder) != 0) return "";  // the daemon creates it
  if (!S_ISDIR(folder.st_mode)) return fmt::format("{} is not a folder", path);
  if (folder.st_uid != geteuid() && folder.st_uid != 0)
    return fmt::format("{} belongs to another user (uid {})", path, folder.st_uid);
  if ((folder.st_mode & S_IWOTH) != 0) return fmt::format("every user may write to {}", path);
  return "";
}

}  // namespace

InstallFacts GatherInstall() {
  InstallFacts install;
  install.version = kVersion;
  install.machine = OwnMachine();
  const auto self = SelfExecutable();
  const auto library = self ? FindPreloadLibrary(*self) : Result<std::string>(self.error());
  if (!library) {
    install.stub.error = library.error().message;
    return install;
  }
  install.stub = LookAtLibrary(*library);
  install.shim = LookAtLibrary((fs::path(*library).parent_path() / "libweir-shim.so").string());
  if (const auto preload = ComposePreload("", *library); !preload) install.preload_error = preload.error().message;
  return install;
}

EnvironmentFacts GatherEnvironment() {
  EnvironmentFacts environment;
  environment.display = EnvironmentVariable("DISPLAY");
  environment.wayland_display = EnvironmentVariable("WAYLAND_DISPLAY");
  for (const std::string& part : SplitList(EnvironmentVariable("LD_PRELOAD"), ':'))
    for (const std::string& entry : SplitList(part, ' '))
      if (!entry.empty()) environment.preload.push_back(entry);
  environment.flatpak = Exists("/.flatpak-info") || !EnvironmentVariable("FLATPAK_ID").empty();
  environment.steam_container =
      Exists("/run/pressure-vessel") || !EnvironmentVariable("PRESSURE_VESSEL_RUNTIME").empty();
  environment.container = Exists("/.dockerenv") || Exists("/run/.containerenv");
  return environment;
}

DaemonFacts GatherDaemon(const Places& places) {
  DaemonFacts daemon;
  daemon.socket = places.socket;
  daemon.socket_named = places.socket_named;
  daemon.socket_exists = Exists(places.socket.c_str());
  daemon.usable_cpus = platform::UsableCpus();
  if (!places.socket_named) daemon.run_dir_problem = RunDirProblem(places.run_dir);
  const ControlClient client(places.socket);
  const auto status = client.Get("/v1/status");
  if (!status) {
    daemon.code = status.error().code;
    daemon.error = status.error().message;
    return daemon;
  }
  daemon.version = TextField(*status, "version");
  daemon.run_dir = TextField(*status, "run_dir");
  daemon.is_private = status->value("private", nlohmann::json()) == true;
  daemon.clock_difference_ns = WholeField(*status, "now_ns") - platform::NowNs();
  const auto reply = client.Get("/v1/devices");
  const auto devices = reply ? DevicesFromJson(*reply) : Result<std::vector<DeviceView>>(reply.error());
  if (devices)
    daemon.devices = *devices;
  else
    daemon.code = devices.error().code, daemon.error = devices.error().message;
  return daemon;
}

ProgramFacts GatherProgram(const std::string& name) {
  ProgramFacts program;
  program.name = name;
  const auto found = FindProgram(name);
  if (!found) {
    program.code = found.error().code;
    program.error = found.error().message;
    program.noexec = IsNoexec(name);
    return program;
  }
  program.chain.push_back(LookAt(found->path));
  if (program.chain[0].type != ImageType::kScript || program.chain[0].interpreter.empty()) return program;
  if (const auto interpreter = FindProgram(program.chain[0].interpreter)) {
    program.chain.push_back(LookAt(interpreter->path));
  } else {
    program.code = interpreter.error().code;
    program.error = fmt::format("{} is a script for {}, which can't be run", found->path, program.chain[0].interpreter);
  }
  return program;
}

}  // namespace weir::cli
