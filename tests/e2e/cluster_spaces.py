# SPDX-License-Identifier: Apache-2.0
"""Network namespaces for a cluster, so that each member, manager and node has its own network, as on separate machines.
All links end at a bridge, in a namespace that the calling process enters. Taking a link down models a machine that
has vanished."""
import ctypes
import os
import subprocess

CLONE_NEWNET = 0x40000000


class NoSpaces(Exception):
    """Namespaces cannot be created here; the text gives the reason and a remedy."""


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise NoSpaces(f"ip {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")


def enter(space):
    """Moves this thread, and threads and processes that it starts from now on, to the namespace of this descriptor."""
    if ctypes.CDLL(None, use_errno=True).setns(space, CLONE_NEWNET) != 0:
        raise NoSpaces(f"setns: {os.strerror(ctypes.get_errno())}")


class Spaces:
    """The names contain this process's id, so that several instances can exist at once. Call close()."""

    def __init__(self):
        if os.geteuid() != 0:
            raise NoSpaces("network namespaces need root: run it as root, or give --loopback")
        self.prefix, self.names = f"weir-{os.getpid()}-", []
        self.came_from = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            self.add("hub")
            with open("/run/netns/" + self.prefix + "hub") as hub:
                enter(hub.fileno())
            ip("link", "set", "lo", "up")
            ip("link", "add", "bridge", "type", "bridge")
            ip("addr", "add", "10.77.0.1/24", "dev", "bridge")
            ip("link", "set", "bridge", "up")
        except NoSpaces:
            self.close()
            raise

    def add(self, name):
        ip("netns", "add", self.prefix + name)
        self.names.append(name)

    def join(self, name, host):
        """Creates a machine at 10.77.0.HOST and returns its address."""
        self.add(name)
        ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", self.prefix + name)
        ip("link", "set", name, "master", "bridge", "up")
        for command in (["addr", "add", f"10.77.0.{host}/24", "dev", "eth0"], ["link", "set", "eth0", "up"],
                        ["link", "set", "lo", "up"]):
            ip("-n", self.prefix + name, *command)
        return f"10.77.0.{host}"

    def inside(self, name):
        """The command prefix that runs a command there."""
        return ["ip", "netns", "exec", self.prefix + name]

    def cut(self, name):
        ip("link", "set", name, "down")

    def mend(self, name):
        ip("link", "set", name, "up")

    def close(self):
        """Call this after the processes in the namespaces have ended. Links are removed with their namespaces."""
        enter(self.came_from)
        os.close(self.came_from)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", self.prefix + name], capture_output=True)
        self.names = []
