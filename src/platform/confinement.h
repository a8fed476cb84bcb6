// SPDX-License-Identifier: Apache-2.0
// Rights that a process gives up for good before it executes code of a tenant. The program that it executes next does
// not have them either, nor do that program's children.
#pragma once

#include <string>
#include <vector>

namespace weir::platform {

/// The files that a confined process may use, if the kernel has Landlock, whatever their owner and mode allow. Abstract
/// Unix sockets of others are then out of reach, too, where the kernel can do that.
struct FileRights {
  /// The only folder in which files may be made, changed or removed; files of /proc may be written. Empty: only
  /// /dev/null is written.
  std::string writes_below{};
  /// Absolute paths. Only these files, and those below these folders and below `writes_below`, are read or executed.
  /// Empty: no rule about reading.
  std::vector<std::string> reads{};
  /// Files and folders of /dev. Only these are opened; the names in /dev can be listed. Empty: all of /dev.
  std::vector<std::string> devices{};
};

struct Confinement {
  const FileRights* files = nullptr;  // null: what the user may do
  bool network = false;               // sockets of the internet are allowed
};

/// No new privileges, no capabilities, and a filter that refuses system calls which no driver needs: those that reach
/// into other processes or the network, type into a terminal, use System V IPC or message queues, mount, open
/// namespaces, load code into the kernel, or set the clock. It is a deny list, because it holds for every driver; the
/// list is in confinement.cc.
/// False, with errno: this process is not confined.
bool Confine(const Confinement& confinement = {});

/// Builds the filter of system calls. After this, `Confine` without `network` allocates nothing, so that a forked child
/// may call it.
void PrepareConfinement();

}  // namespace weir::platform
