// SPDX-License-Identifier: Apache-2.0
// Namespaces of the kernel that a program shares with its children only: of the network, of System V IPC with POSIX
// message queues, and of the machine's name. In a network namespace of its own a program reaches no network, and no
// abstract Unix socket of others. Unix sockets in folders can be used as before.
//
// Making them needs CAP_SYS_ADMIN. A user namespace would do without, but in one a process does not see which user is
// at the other end of a Unix socket.
#pragma once

#include <string>

namespace weir::platform {

/// Moves this process, which has one thread, into namespaces of its own. False, with errno: it is where it was.
bool EnterOwnNamespaces();

/// Why this process may not do that; empty: it may. Tries it in a child.
std::string WhyNoOwnNamespaces();

}  // namespace weir::platform
