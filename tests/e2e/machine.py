# SPDX-License-Identifier: Apache-2.0
"""A fresh Debian that boots its own systemd beside the system that runs the test: files, processes, mounts and control
groups of its own, and the system's network. Needs root, and a kernel with control groups of version 2."""
import glob
import os
import shutil
import signal
import subprocess
import tempfile

import weir_e2e as e2e

RELEASE = "bookworm"
# What debootstrap made is kept for the next run.
BASE = os.path.normpath(os.path.join(e2e.BUILD, "../fresh-root", RELEASE + ".tar"))
# The package sources of this system and how it reaches them.
OF_THE_SYSTEM = ["/etc/apt/sources.list", "/etc/apt/sources.list.d", "/etc/apt/apt.conf.d", "/etc/resolv.conf",
                 "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt", "/usr/share/keyrings"]

# Arguments of both: the machine's folder, the name of its control group. All of the machine's groups are below that.
ENTER = """set -e
mount -t cgroup2 cgroup2 "$1/mnt"
mkdir "$1/mnt/$2"
echo $$ >"$1/mnt/$2/cgroup.procs"
umount "$1/mnt"
exec unshare --mount --pid --fork --kill-child --uts --ipc --cgroup sh -c "$BOOT" sh "$1"
"""
# The kernel's settings are those of the system, so they are read-only.
BOOT = """set -e
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
for name in null zero full random urandom tty; do cp -a "/dev/$name" "dev/$name"; done
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
pivot_root . mnt
umount -l /mnt
exec env -i container=weir PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --show-status=no
"""
LEAVE = """mount -t cgroup2 cgroup2 "$1/mnt" && find "$1/mnt/$2" -depth -type d -exec rmdir {} +"""


class CannotBoot(Exception):
    """What this system does not allow."""


def try_out():
    """Raises CannotBoot where this system allows no machine."""
    if os.geteuid() != 0:
        raise CannotBoot("a machine needs root")
    with tempfile.TemporaryDirectory() as folder:
        tried = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--cgroup", "--propagation",
                                "private", "mount", "-t", "cgroup2", "cgroup2", folder], capture_output=True, text=True)
    if tried.returncode != 0:
        raise CannotBoot(f"this system lets no machine boot: {tried.stderr.strip()}")


def make_base():
    if os.path.exists(BASE):
        return
    os.makedirs(os.path.dirname(BASE), exist_ok=True)
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages",
                             f"Codename: {RELEASE}"], capture_output=True, text=True, check=True).stdout.split()
    with tempfile.TemporaryDirectory(prefix="weir-base-") as folder:
        said = subprocess.run(["debootstrap", "--variant=minbase", "--include=systemd", RELEASE, folder, *listed[:1]],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if said.returncode != 0:
            raise AssertionError(f"debootstrap of {RELEASE} failed: {said.stdout[-2000:]}")
        subprocess.run(["tar", "-C", folder, "-cf", BASE + ".part", "."], check=True)
    os.rename(BASE + ".part", BASE)


class Machine:
    def __init__(self):
        make_base()
        self.root = tempfile.mkdtemp(prefix="weir-machine-")
        self.group = os.path.basename(self.root)
        self.process = None
        subprocess.run(["tar", "-C", self.root, "-xf", BASE], check=True)
        os.chmod(self.root, 0o755)
        for path in OF_THE_SYSTEM:
            inside = self.path(path)
            if os.path.isdir(path):
                shutil.copytree(path, inside, dirs_exist_ok=True)
            elif os.path.exists(path):
                os.makedirs(os.path.dirname(inside), exist_ok=True)
                shutil.copyfile(path, inside)
            elif path == "/etc/apt/sources.list":
                os.remove(inside)

    def path(self, path):
        """Where a file of the machine is on this system. Its /run, /dev and /proc are inside only."""
        return self.root + path

    def boot(self):
        with open(self.root + ".log", "w") as log:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "sh", self.root, self.group],
                env={**os.environ, "BOOT": BOOT}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        e2e.wait_for(self.is_up, "the machine boots")

    def is_up(self):
        if self.process.poll() is not None:
            with open(self.root + ".log") as log:
                raise AssertionError(f"the machine has ended: {log.read().strip()}")
        said = self.init() and self.run("systemctl", "is-system-running", check=False).stdout.strip()
        return said in ("running", "degraded")

    def init(self):
        """The process that is the machine's first one, or nothing."""
        found = subprocess.run(["pgrep", "-P", str(self.process.pid), "-x", "systemd"], capture_output=True, text=True)
        return found.stdout.strip()

    def run(self, *command, check=True, seconds=1200):
        """Runs a command in the machine, with both outputs in one text."""
        proxies = [f"{name}={value}" for name, value in os.environ.items() if name.lower().endswith("_proxy")]
        done = subprocess.run(
            ["nsenter", "--target", self.init(), "--mount", "--uts", "--ipc", "--pid", "--cgroup", "--wdns=/",
             "env", "-i", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8",
             "DEBIAN_FRONTEND=noninteractive", *proxies, *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout[-4000:]}")
        return done

    def install(self, *packages):
        return self.run("apt-get", "-q", "-y", "-o", "Acquire::Retries=3", "-o", "DPkg::Options::=--force-unsafe-io",
                        "install", "--no-install-recommends", *packages).stdout

    def start(self, unit, environment, *command):
        """Starts a program as a unit of its own; outputs() has what it writes."""
        self.run("systemd-run", "--quiet", "--unit", unit, "--remain-after-exit",
                 f"--property=StandardOutput=file:/srv/{unit}.out", f"--property=StandardError=file:/srv/{unit}.err",
                 *(f"--setenv={entry}" for entry in environment), *command)

    def outputs(self, unit):
        """Standard output and standard error of a program."""
        texts = []
        for name in ("out", "err"):
            with open(self.path(f"/srv/{unit}.{name}"), errors="replace") as file:
                texts.append(file.read())
        return tuple(texts)

    def shown(self, unit, name):
        """A property of a unit, as systemd tells it."""
        return self.run("systemctl", "show", "--value", "--property", name, unit).stdout.strip()

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)  # and with it all processes of the machine
            self.process.wait()
        if self.process:
            e2e.wait_for(self.remove_groups, "the machine's processes end")
        subprocess.run(["rm", "-rf", "--one-file-system", self.root], check=True)
        for path in glob.glob(self.root + "*"):
            os.remove(path)

    def remove_groups(self):
        return subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", LEAVE, "sh", self.root, self.group],
            stderr=subprocess.DEVNULL).returncode == 0
