# SPDX-License-Identifier: Apache-2.0
"""Random processes of a node under load are killed, one after the other: daemon, executors, their analyzers of kernels,
portal, relays, dashboard, module service and hosts, and the tenants' programs. A kill may cost only the tenant that the
process worked for: no other program may see an error or a wrong byte. A program on another machine that starts while no
portal listens is told so and does not start. Prints how many processes of each kind were killed, and the longest call or
frame of the tenants that they did not work for.

  kills_soak.py [--kills N] [--seed N] [--longest-ms N]      # 200 kills; no limit of the longest call

The daemon is started again, as a service manager does. Exit status: 1 when a tenant was affected, or a call took longer
than allowed."""
import argparse
import collections
import http.client
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../e2e"))
import weir_e2e as e2e  # noqa: E402
from distant import text_of  # noqa: E402

WAITS = os.path.join(e2e.BUILD, "bin/opencl_waits")
PARTS = os.path.join(e2e.BUILD, "bin/opencl_parts")
WINDOWS = os.path.join(e2e.BUILD, "bin/weir_windows")
MODULES = os.path.join(e2e.BUILD, "lib/weir/modules")
QUIET_SECONDS = 20  # without kills, to compare with
PAUSE = (0.3, 1.2)  # seconds between kills
DAEMON_DOWN_MAX = 0.5  # seconds
RUN_SECONDS = (2, 8)
# Small rounds with rests: the processors are not all in use, so that a call that takes long was held up.
ITEMS_LOG2 = (10, 14)
REST_MS = 5
NO_NODE = 8  # exit status of weir
REST = 0.3  # seconds between runs of a module, and of launches in parts
REMOTE, GAME, KERNELS, LARGE = "remote", "game", "kernels", "large"
LOCAL = ("a", "b", "c")
TENANTS = (*LOCAL, REMOTE, GAME, KERNELS, LARGE)
MIB = 1 << 20
# A launch of LARGE takes three times the memory that it may have, and so runs in parts. It takes a second or two, but
# each part is short, and its cap leaves time to others.
MEMORY, LARGE_MEMORY, LARGE_ROUNDS, LARGE_CAP = 1024 * MIB, 64 * MIB, 20, 0.2
# Children that the daemon starts, and whose processes they work for. An absent tenant: for nobody in particular.
CHILDREN = {"weir-executor": None, "weir-portal": REMOTE, "weir-relay": REMOTE, "weir-modules": KERNELS, "weir-module-host": KERNELS,
            "weir-analyzer": None, "weir-dashboard": None, "weir-gpu-account": None}


def parent_of(pid):
    """0: the process has ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


class Program:
    """A tenant's program, from its start to its end."""

    def __init__(self, tenant, command, environment, seconds):
        self.tenant, self.command, self.excused = tenant, command, set()
        self.output = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdout=self.output, stderr=subprocess.STDOUT, env={**os.environ, **environment})
        self.began = time.time()
        self.ends_at = self.began + seconds

    def text(self):
        self.output.seek(0)
        return self.output.read()


class Soak:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.folder = tempfile.mkdtemp(prefix="weir-kills-")
        self.display = e2e.Display()
        self.port = 0
        self.node = e2e.Node(*self.arguments(0))
        os.chmod(self.node.folder, 0o755)
        self.programs = {}
        self.kills = collections.Counter()
        self.ended = collections.Counter()
        self.longest = {}  # by tenant: (milliseconds, when it began)
        self.quiet_ms = 0  # the longest without kills
        self.wrong = []
        self.killed = []  # (when, what)
        self.next_run = {KERNELS: 0, LARGE: 0}
        self.not_started = 0

    @staticmethod
    def arguments(port):
        return ("--quiet", "--listen", f"127.0.0.1:{port}", "--modules", KERNELS, "--http", "127.0.0.1:0")

    def weir(self, *arguments):
        done = subprocess.run([e2e.WEIR, *arguments], capture_output=True, text=True, timeout=e2e.PATIENCE, check=False)
        if done.returncode != 0:
            raise AssertionError(f"weir {' '.join(arguments)}: {done.stdout}{done.stderr}")

    def set_up(self):
        keys = os.path.join(self.node.state_dir, "keys")
        self.token = os.path.join(self.folder, "token")
        self.weir("keys", "init", "--dir", keys)
        self.node.start()
        status, body = self.node.call("PUT", "/v1/devices/embedded/memory", {"size_bytes": MEMORY})
        if status != 200:
            raise AssertionError(f"elastic memory: {status} {body}")
        for name in TENANTS:
            self.node.create(name, **({"memory_max_bytes": LARGE_MEMORY, "cap": LARGE_CAP} if name == LARGE else {}))
        self.weir("keys", "token", REMOTE, "--dir", keys, "--out", self.token)
        self.port = int(e2e.wait_for(lambda: text_of(os.path.join(self.node.run_dir, "portal.port")), "the portal listens"))
        # The port stays the same when the daemon starts again.
        self.node.arguments = self.arguments(self.port)
        self.modules_socket = os.path.join(self.node.run_dir, "modules.sock")
        e2e.wait_for(lambda: os.path.exists(self.modules_socket), "the module service listens")
        self.weir("module", "register", "--modules-socket", self.modules_socket, "black_scholes",
                  os.path.join(MODULES, "black_scholes.so"))

    def start(self, tenant):
        seconds = self.random.uniform(*RUN_SECONDS)
        compute = [WAITS, f"{seconds:.1f}", str(1 << self.random.randint(*ITEMS_LOG2)),
                   str(self.random.randint(1, 1 << 30)), str(REST_MS)]
        on_vgpu = [e2e.WEIR, "run", "--run-dir", self.node.run_dir, "--vgpu", tenant, "--"]
        environment = {}
        if tenant == GAME:
            command = [*on_vgpu, WINDOWS, "--frames", "0", "--interval-ms", "10", "--longest"]
            environment = self.display.environment
        elif tenant == REMOTE:
            command = [e2e.WEIR, "run", "--run-dir", os.path.join(self.folder, "run"), "--node", f"127.0.0.1:{self.port}", "--token",
                       self.token, "--", *compute]
        elif tenant == KERNELS:
            command = [e2e.WEIR, "module", "run", "--modules-socket", self.modules_socket, "black_scholes", "black-scholes", "--args",
                       "n=4096"]
        elif tenant == LARGE:
            command = [*on_vgpu, PARTS, str(LARGE_MEMORY // MIB), "rounds", str(LARGE_ROUNDS)]
        else:
            command = [*on_vgpu, *compute]
        self.programs[tenant] = Program(tenant, command, environment, seconds)

    def reap(self):
        for tenant, program in list(self.programs.items()):
            if tenant == GAME and time.time() > program.ends_at and program.process.poll() is None:
                program.process.terminate()
            status = program.process.poll()
            if status is None:
                continue
            del self.programs[tenant]
            if tenant in self.next_run:
                self.next_run[tenant] = time.monotonic() + REST
            self.check(program, status)

    def check(self, program, status):
        text = program.text()
        program.output.close()
        found = re.search(r"longest (?:frame )?([\d.]+) ms at ([\d.]+)", text)
        wrong = re.search(r"wrong ([1-9]\d*)", text)
        if program.tenant == REMOTE and status == NO_NODE and "the program was not started" in text:
            self.not_started += 1  # no portal listened: the portal or the daemon was killed at that moment
            return
        if wrong or (status != 0 and not program.excused):
            self.wrong.append(f"{program.tenant}, from {program.began:.3f} to {time.time():.3f}: status {status}: {text.strip()}")
        elif not program.excused:
            self.ended[program.tenant] += 1
            if found:
                self.longest[program.tenant] = max(self.longest.get(program.tenant, (0, 0)), (float(found[1]), float(found[2])))

    def can_start(self, tenant):
        """A portal and a module service that were killed are started again by the daemon; until then their tenants wait."""
        if time.monotonic() < self.next_run.get(tenant, 0):
            return False
        try:
            if tenant == REMOTE:
                socket.create_connection(("127.0.0.1", self.port)).close()
            elif tenant == KERNELS:
                service = e2e.UnixHttp(self.modules_socket)
                service.request("GET", "/v1/devices")
                return bool(json.loads(service.getresponse().read())["devices"])
            return True
        except (OSError, http.client.HTTPException):
            return False

    def keep_running(self, seconds):
        until = time.monotonic() + seconds
        while True:
            self.reap()
            for tenant in TENANTS:
                if tenant not in self.programs and self.can_start(tenant):
                    self.start(tenant)
            if time.monotonic() >= until or self.wrong:
                return
            time.sleep(0.02)

    def processes(self):
        """By kind: (pid, the tenant that it works for, or None) of each process here that may be killed."""
        found = collections.defaultdict(list)
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().decode(errors="replace").split("\0")
                with open(f"/proc/{pid}/environ", "rb") as file:
                    environment = file.read().decode(errors="replace")
            except OSError:
                continue
            name = os.path.basename(words[0])
            mine = any(self.node.folder in word or self.folder in word for word in (*words, environment))
            if not mine or pid == os.getpid():
                continue
            if name == "weir" and words[1:2] == ["serve"]:
                found["daemon"].append((pid, None))
            elif name in CHILDREN:
                tenant = CHILDREN[name]
                if name in ("weir-executor", "weir-analyzer"):
                    tenant = self.tenant_of_executor(pid)
                found[name].append((pid, tenant))
            else:
                tenant = next((t for t, p in self.programs.items() if pid == p.process.pid or self.descends(pid, p.process.pid)), None)
                if tenant:
                    found["program"].append((pid, tenant))
        return found

    @staticmethod
    def tenant_of_executor(pid):
        """Of an executor, or of a process that it has started."""
        while pid > 1:
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    words = file.read().split("\0")
            except OSError:
                break
            if os.path.basename(words[0]) == "weir-executor":
                return next((t for t in TENANTS if any(f"/{t}.sock" in w or w == t for w in words)), "?")
            pid = parent_of(pid)
        return "?"

    @staticmethod
    def descends(pid, ancestor):
        while pid > 1:
            pid = parent_of(pid)
            if pid == ancestor:
                return True
        return False

    def kill_one(self):
        found = self.processes()
        kind = self.random.choice(sorted(found))
        pid, tenant = self.random.choice(sorted(found[kind], key=lambda each: each[0]))
        if tenant == "?":
            if kind == "weir-analyzer":  # it or its executor has ended meanwhile
                return
            raise AssertionError(f"executor {pid} is nobody's")
        if tenant in self.programs:
            self.programs[tenant].excused.add(kind)
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [])  # its sockets are closed
        os.close(process)
        self.kills[kind] += 1
        self.killed.append((time.time(), f"{kind} of {tenant}" if tenant else kind))
        if kind == "daemon":
            self.node.process.wait()
            self.keep_running(self.random.uniform(0, DAEMON_DOWN_MAX))
            self.node.start()

    def table(self, what):
        print(f"{what}; the longest call or frame of a tenant whose processes were not killed:")
        for tenant, (longest, at) in sorted(self.longest.items()):
            before = [f"{at + longest / 1e3 - when:.2f} s after '{who}'" for when, who in self.killed if when < at + longest / 1e3][-1:]
            print(f"  {tenant:<8} {longest:8.1f} ms in {self.ended[tenant]} runs" + (f"; it ended {before[0]}" if before else ""))
        for tenant in sorted(set(self.ended) - set(self.longest)):
            print(f"  {tenant:<8} {self.ended[tenant]} runs")
        print(f"  {self.not_started} programs of '{REMOTE}' were told that no portal listens, and were not started")
        sys.stdout.flush()

    def run(self, kills):
        self.set_up()
        self.keep_running(QUIET_SECONDS)
        self.table("without kills")
        self.quiet_ms = max((longest for longest, _ in self.longest.values()), default=0)
        self.longest.clear()
        self.ended.clear()
        while sum(self.kills.values()) < kills and not self.wrong:
            self.kill_one()
            self.keep_running(self.random.uniform(*PAUSE))
        deadline = time.monotonic() + e2e.PATIENCE
        while self.programs and time.monotonic() < deadline:
            self.reap()
            time.sleep(0.05)
        self.wrong += [f"still running: {' '.join(p.command)}: {p.text()}" for p in self.programs.values()]
        self.table(f"{sum(self.kills.values())} kills ({', '.join(f'{kind} {n}' for kind, n in sorted(self.kills.items()))})")

    def close(self):
        for program in self.programs.values():
            program.process.kill()
            program.process.wait()
        self.display.close()
        self.node.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, metavar="N", help="how many processes are killed (default: 200)")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="choose the same kinds and pauses again")
    parser.add_argument("--longest-ms", type=float, default=None, metavar="N",
                        help="fail when a call or frame takes longer, and longer than any before the first kill")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().getrandbits(32)
    print(f"kills_soak.py --kills {options.kills} --seed {seed}", flush=True)
    soak = Soak(seed)
    try:
        soak.run(options.kills)
    except AssertionError as why:
        soak.wrong.append(str(why))
    finally:
        if soak.wrong:
            print(*soak.wrong, "-- the last kills:", *(f"{when:.3f} {what}" for when, what in soak.killed[-8:]), "-- the daemon:",
                  *soak.node.log_text().splitlines()[-15:], sep="\n", file=sys.stderr)
        soak.close()
    if options.longest_ms is not None:
        # What takes as long on this machine without a kill is not because of one.
        bar = max(options.longest_ms, soak.quiet_ms)
        late = [f"{tenant}: {longest:.1f} ms" for tenant, (longest, _) in soak.longest.items() if longest > bar]
        print(f"the bar is {bar:.0f} ms" + (f", and is missed: {', '.join(late)}" if late else ""), flush=True)
        soak.wrong += late
    sys.exit(1 if soak.wrong else 0)


if __name__ == "__main__":
    main()
