# SPDX-License-Identifier: Apache-2.0
"""OpenCL from real virtual machines, whose programs compute on the host's device. A user-mode Linux is a kernel of its
own with its own processes. It can read the host's files, and has either a serial line to the host or memory that
both map. A QEMU has its files in memory and an ivshmem device."""
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import distant
import weir_e2e as e2e

BUILD = os.path.normpath(e2e.BUILD)  # a guest that has copies of files has no other folders
WEIR, SCENES = os.path.join(BUILD, "bin/weir"), os.path.normpath(distant.SCENES)
KERNEL = shutil.which("linux.uml") or shutil.which("linux")
REGISTERS = os.path.join(BUILD, "lib/uml_registers.so")
QEMU = shutil.which("qemu-system-x86_64")
# A kernel that the machine boots with, or from an unpacked package.
QEMU_KERNEL = os.environ.get("WEIR_QEMU_KERNEL") or max(glob.glob("/boot/vmlinuz-*"), default=None)
# /run belongs to the guest; with user-mode Linux all other files are the host's, read-only.
INIT = """#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run
export PATH HOME
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
[ -c /dev/null ] && [ -c {device} ] || mount -t devtmpfs dev /dev
exec </dev/null
echo "guest: $(uname -sr)"
node={device}
{find}
run() {{ {weir} run --run-dir /run/weir --node $node -- "$@"; }}
{script}
echo "guest: done"
{end}
"""
SWITCH_OFF = "exec python3 -c 'import ctypes; ctypes.CDLL(None).sync(); ctypes.CDLL(None).reboot(0x4321fedc)'"
FIND_IVSHMEM = """
for device in /sys/bus/pci/devices/*; do
  case "$(cat $device/vendor)$(cat $device/device)" in
    0x1af40x1110) echo 1 >$device/enable; node=$device/resource2 ;;
  esac
done"""


def few_reads(seconds):
    """One buffer of 16 MiB, read and compared at the end: this kernel's serial line transfers about 1 MiB/s."""
    return " ".join([SCENES, str(seconds), "16", "16", "1", "8", "0", "1000"])


class Guest:
    """A virtual machine that runs a script and then powers off."""

    def __init__(self, command, inherited=(), environment=None):
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", pass_fds=inherited, start_new_session=True, env={**os.environ, **(environment or {})})

    def said(self, seconds=180):
        return self.process.communicate(timeout=seconds)[0]

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


class VirtualMachine:
    """The tests of every kind of guest. A subclass defines how it boots."""
    device = find = ""
    end = SWITCH_OFF

    def setUp(self):
        self.here = tempfile.mkdtemp(prefix="weir-e2e-")
        self.addCleanup(shutil.rmtree, self.here, ignore_errors=True)
        self.node = e2e.Node()
        self.addCleanup(self.node.close)
        self.node.arguments = self.serve_arguments()
        self.node.start()
        self.node.create("vm1")

    def init(self, script):
        path = os.path.join(self.here, "init")
        with open(path, "w") as file:
            file.write(INIT.format(weir=WEIR, script=script, device=self.device, find=self.find, end=self.end))
        os.chmod(path, 0o755)
        return path

    def boot(self, script):
        guest = self.start(script)
        self.addCleanup(guest.kill)
        return guest

    def test_programs_of_a_guest_compute_on_the_hosts_device(self):
        command = few_reads(2)
        said = self.boot(f"""
run clinfo -l; echo "clinfo: $?"
run {command}; echo "scenes: $?"
run {command} >/run/a & run {command} >/run/b; wait; cat /run/a /run/b; echo "both: $?"
""").said()
        for word in ("Platform #0: Weir", "clinfo: 0", "scenes: 0", "both: 0", "guest: done"):
            self.assertIn(word, said, self.node.log_text())
        self.assertEqual(said.count("wrong 0"), 3, said)
        self.assertGreater(self.node.vgpu("vm1")["totals"]["gpu_ns"], 0, "they passed the host's gate")
        e2e.wait_for(lambda: self.node.log_text().count("has left 'vm1'") >= 4, "they have left")

    def test_a_guest_that_powers_off_leaves_nothing_and_the_next_one_is_served(self):
        first = self.boot(f"run {few_reads(60)}")
        e2e.wait_for(lambda: self.node.vgpu("vm1")["totals"]["gpu_ns"] > 0, "it computes")
        first.kill()
        self.before_the_next()
        said = self.boot(f"run {few_reads(1)}").said()
        self.assertIn("wrong 0", said, self.node.log_text())

    def before_the_next(self):
        e2e.wait_for(lambda: "has left 'vm1'" in self.node.log_text(), "the host has noticed")


def user_mode_linux(init, *more, inherited=()):
    return Guest([KERNEL, "mem=512M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}",
                  "con0=null,fd:1", "con=null", "ssl=null", "quiet", *more],
                 inherited, {"LD_PRELOAD": REGISTERS})


class ByItsSerialLine(VirtualMachine, unittest.TestCase):
    device = "/dev/ttyS0"

    def serve_arguments(self):
        self.at = os.path.join(self.node.folder, "vm1.sock")
        return ("--guest", f"{self.at}=vm1")

    def start(self, script):
        line = socket.socket(socket.AF_UNIX)
        self.addCleanup(line.close)
        e2e.wait_for(lambda: line.connect_ex(self.at) == 0, "the portal listens")
        guest = user_mode_linux(self.init(script), f"ssl0=fd:{line.fileno()}", inherited=[line.fileno()])
        line.close()
        return guest


class WithMemory(VirtualMachine):
    def serve_arguments(self):
        self.memory = os.path.join(self.node.folder, "vm1.mem")
        return ("--guest-memory", f"{self.memory}=vm1")

    def is_set_up(self):
        try:
            with open(self.memory, "rb") as file:
                return file.read(4) == b"WPM1"
        except FileNotFoundError:
            return False

    def wait_set_up(self):
        e2e.wait_for(self.is_set_up, "the portal has made the memory")


class ByMemory(WithMemory, unittest.TestCase):
    device = "/dev/mmapper"

    def start(self, script):
        self.wait_set_up()
        return user_mode_linux(self.init(script), f"iomem=mmapper,{self.memory}")


@unittest.skipUnless(QEMU and QEMU_KERNEL and os.access(QEMU_KERNEL, os.R_OK),
                     "needs qemu-system-x86_64 and a kernel: /boot/vmlinuz-*, or WEIR_QEMU_KERNEL in the environment")
class ByQemusMemory(WithMemory, unittest.TestCase):
    device, find = "/nowhere", FIND_IVSHMEM
    end = "exit"  # the kernel's panic ends QEMU

    def start(self, script):
        self.wait_set_up()
        root = os.path.join(self.here, "root.cpio")
        with open(root, "wb") as archive:
            write_root(archive, self.init(script))
        return Guest([QEMU, "-accel", "tcg", "-cpu", "max", "-m", "1G", "-display", "none", "-no-reboot", "-nic", "none",
                      "-monitor", "none", "-serial", "stdio", "-kernel", QEMU_KERNEL, "-initrd", root,
                      "-append", "console=ttyS0 quiet panic=-1 rdinit=/init",
                      "-object", f"memory-backend-file,id=weir,share=on,mem-path={self.memory},size=4M",
                      "-device", "ivshmem-plain,memdev=weir"])


def libraries_of(program):
    """The libraries that the loader would load."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout.split()
    return [word for word in listed if word.startswith("/")]


def write_root(archive, init):
    """A root file system in a cpio archive (the kernel's Documentation/driver-api/early-userspace/buffer-format.rst):
    the files that the script and its programs need, at their paths on this machine."""
    place = os.path.join(BUILD, "lib/weir")
    programs = [shutil.which(name) for name in ("sh", "mount", "uname", "cat", "clinfo")]
    programs += [WEIR, SCENES, os.path.join(place, "weir-relay"), os.path.join(place, "weir-port")]
    libraries = glob.glob(os.path.join(place, "libweir-opencl.so*"))
    files = {*programs, *libraries, *(lib for file in programs + libraries for lib in libraries_of(file))}
    files.update(glob.glob(os.path.join(place, "icd/*")))
    folders = {"/proc", "/sys", "/run", "/dev", "/tmp", "/bin"}
    for path in files:
        while len(path := os.path.dirname(path)) > 1:
            folders.add(path)

    def add(name, mode, content=b""):
        name = name.lstrip("/").encode() + b"\0"
        fields = [0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0]
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        for part in (head, content):
            archive.write(part + bytes(-len(part) % 4))

    for folder in sorted(folders):
        add(folder, 0o040755)
    for name, path in [("/init", init), ("/bin/sh", programs[0]), *((path, path) for path in sorted(files))]:
        with open(path, "rb") as file:
            add(name, 0o100755, file.read())
    add("TRAILER!!!", 0)


if __name__ == "__main__":
    if KERNEL is None:
        sys.exit("linux.uml is missing; scripts/install-deps --long brings it")
    unittest.main(verbosity=2)
