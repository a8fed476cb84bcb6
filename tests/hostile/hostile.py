# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of hostile tenants: a node, processes of another user, raw connections, and processes' use.

An attack is attacker.py, run as a user that owns nothing here. Tests that need a second user are skipped without
root."""
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../e2e"))
import weir_e2e as e2e  # noqa: E402
from opencl_tenants import OpenClTenants, at_work, executors_of  # noqa: E402,F401

LOOP = os.path.join(e2e.BUILD, "bin/opencl_loop")
EXECUTOR = os.path.join(e2e.BUILD, "lib/weir/weir-executor")
# an interpreter in a home folder is inaccessible to other users
PYTHON = next((each for each in ("/usr/bin/python3", sys.executable) if os.path.exists(each)))
TICK = os.sysconf("SC_CLK_TCK")
FIRST_OWN = 2_000_000_000  # the first number of executors' own users


def user_named(*names):
    """The first of these users that exists."""
    for name in names:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


def why_no_second_user():
    """The reason why no process can run as another user; empty: it is possible."""
    if os.geteuid() != 0:
        return "only root can start processes of another user"
    if STRANGER is None or TENANT is None:
        return "this system has no users 'nobody' and 'games' or 'daemon'"
    # TENANT runs programs of the build.
    for program in (LOOP, EXECUTOR, PYTHON):
        if subprocess.run(["test", "-x", program], user=TENANT.pw_uid, group=TENANT.pw_gid, extra_groups=[],
                          check=False).returncode != 0:
            return f"user '{TENANT.pw_name}' can't run {program}"
    return ""


def cgroup_folders():
    """The folders where the kernel's control groups that limit memory and processes are made, by controller."""
    found = {}
    with open("/proc/self/mountinfo") as mounts:
        for line in mounts:
            before, after = line.rstrip("\n").split(" - ", 1)
            folder, kind, options = before.split()[4], after.split()[0], after.split()[2].split(",")
            if kind == "cgroup2":
                with open(os.path.join(folder, "cgroup.controllers")) as controllers:
                    options = controllers.read().split()
            if kind in ("cgroup", "cgroup2"):
                for controller in {"memory", "pids"} & set(options):
                    found[controller] = folder
    return found


def why_no_namespaces():
    """The reason why this user can't make namespaces; empty: it can."""
    if shutil.which("unshare") is None:
        return "unshare, which tries it, is missing"
    done = subprocess.run(["unshare", "--net", "--ipc", "--uts", "true"], capture_output=True, text=True, check=False)
    return done.stderr.strip()


def landlock_version():
    """Of the kernel; at most 0: it has no Landlock. From 6 on it keeps confined processes from abstract sockets."""
    return ctypes.CDLL(None).syscall(444, None, 0, 1)


def why_no_groups():
    """The reason why no control groups can be made here; empty: they can."""
    folders = cgroup_folders()
    if set(folders) != {"memory", "pids"}:
        return "no control groups that limit memory and processes are mounted here"
    for folder in set(folders.values()):
        try:
            os.mkdir(os.path.join(folder, f"weir-try-{os.getpid()}"))
            os.rmdir(os.path.join(folder, f"weir-try-{os.getpid()}"))
        except OSError as error:
            return f"no control group can be made in {folder}: {error.strerror}"
    return ""


def groups_of(pid):
    """The control groups of a process that limit memory and processes, as paths in their hierarchies."""
    with open(f"/proc/{pid}/cgroup") as lines:
        all_groups = [line.rstrip("\n").split(":", 2) for line in lines]
    return {path for _, controllers, path in all_groups if not controllers or {"memory", "pids"} & set(controllers.split(","))}


STRANGER = user_named("nobody")
TENANT = user_named("games", "daemon")


class Attacker:
    """attacker.py with a role, as a user. It prints its actions as lines; it ends when its input does."""

    def __init__(self, user, role, *arguments):
        with open(os.path.join(HERE, "attacker.py")) as source:
            program = source.read()  # the user may have no access to this folder
        self.process = subprocess.Popen(
            [PYTHON, "-c", program, role, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd="/", user=user.pw_uid if user else None, group=user.pw_gid if user else None,
            extra_groups=[] if user else None)

    def says(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise AssertionError(f"the attacker ended with {self.process.wait(e2e.PATIENCE)}")
        return line

    def order(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def close(self):
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()
            except BrokenPipeError:
                pass
        try:
            self.process.wait(e2e.PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Hostile(OpenClTenants):
    """A node whose folder other users may read, like /run/weir. No display: tenants compute."""
    needs_second_user = True

    def setUp(self):
        if self.needs_second_user and why_no_second_user():
            self.skipTest(why_no_second_user())
        self.node = self.make_node()
        self.addCleanup(self.node.close)
        os.chmod(self.node.folder, 0o755)
        self.node.start()
        self.programs = []
        self.addCleanup(e2e.end_all, self.programs)

    def start(self, command, vgpu, user=None, **options):
        given = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        streams = {name: options.pop(name, subprocess.DEVNULL) for name in ("stdout", "stderr")}
        program = subprocess.Popen(command, env={**os.environ, **self.environment(vgpu)}, cwd="/", **streams, **given,
                                   **options)
        self.programs.append(program)
        return program

    def attack(self, user, role, *arguments):
        attacker = Attacker(user, role, *arguments)
        self.addCleanup(attacker.close)
        return attacker

    def sockets(self):
        """The sockets of the run folder and its subfolders."""
        found = []
        for folder, _, names in os.walk(self.node.run_dir):
            found += [os.path.join(folder, name) for name in names if name.endswith(".sock") or ".sock." in name]
        return sorted(found)

    def finds_its_device(self, vgpu):
        code, out, err = self.run_to_end(["clinfo", "-l"], vgpu)
        self.assertEqual((code, "Platform #0: Weir" in out), (0, True), out + err)

    def daemon_is_well(self):
        self.assertIsNone(self.node.process.poll(), self.node.log_text())
        self.assertTrue(self.node.answers())


def children_of(pid):
    """The names of its child processes, by pid."""
    found = {}
    for each in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{each}/stat") as stat:
                name, rest = stat.read().split("(", 1)[1].rsplit(")", 1)
            if int(rest.split()[1]) == pid:
                found[int(each)] = name
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def status_of(pid):
    """The fields of /proc/PID/status."""
    with open(f"/proc/{pid}/status") as status:
        return dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def kill_if_there(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def main():
    unittest.main(verbosity=2)
