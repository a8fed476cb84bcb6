# SPDX-License-Identifier: Apache-2.0
"""Executors that run as another user than the daemon's."""
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import threading
import types

import hostile
from distant import text_of
from hostile import STRANGER, TENANT, e2e, executors_of

ROOT = pwd.getpwuid(0)
PARTS = os.path.join(e2e.BUILD, "bin/opencl_parts")
UNIT = os.path.join(hostile.HERE, "../../units/weir.service.in")


class Users(hostile.Hostile):
    def users_of(self, name):
        """The real, effective, saved and file system user of the vGPU's executor."""
        with open(f"/proc/{executors_of(self.node, name)[0]}/status") as status:
            return {int(uid) for line in status if line.startswith("Uid:") for uid in line.split()[1:]}

    def test_the_executor_of_each_vgpu_has_a_user_of_its_own_and_what_it_compiles_is_closed_to_others(self):
        isolation = self.node.get("/v1/status")["isolation"]
        self.assertEqual(isolation["executor_users"], "own")
        if not hostile.why_no_groups():
            self.assertEqual(isolation["missing"], [])
        seen = set()
        for name, user in (("roots", ROOT), ("mine", TENANT), ("mine2", TENANT)):
            self.node.create(name, owner_uid=user.pw_uid)
            program = self.start(hostile.at_work(), name, user=user)
            self.wait_busy(name)
            uids = self.users_of(name)
            self.assertEqual(len(uids), 1)
            self.assertGreaterEqual(min(uids), hostile.FIRST_OWN, f"{name}: neither root, the daemon's user nor the owner")
            self.assertFalse(uids & seen, f"{name}: also vGPUs of one owner have different users")
            killer = self.attack(TENANT, "kill")
            killer.order(str(executors_of(self.node, name)[0]))
            self.assertIn("not permitted", killer.says(), "an owner may not signal its executor")
            seen |= uids
            self.assertIsNone(program.poll())
            home = os.stat(os.path.join(self.node.run_dir, "homes", name))
            self.assertEqual((home.st_uid, stat.S_IMODE(home.st_mode)), (*uids, 0o700))
        homes = os.stat(os.path.join(self.node.run_dir, "homes"))
        self.assertEqual((homes.st_uid, stat.S_IMODE(homes.st_mode)), (0, 0o711), "tenants make no folders there")

    def test_what_a_kernel_left_running_ends_with_its_vgpu(self):
        self.node.create("mine", owner_uid=TENANT.pw_uid)
        self.node.create("other", owner_uid=TENANT.pw_uid)
        users = {}
        for name in ("mine", "other"):
            self.start(hostile.at_work(), name, user=TENANT)
            self.wait_busy(name)
            users[name] = self.users_of(name).pop()
        # As a kernel that has taken over the executor would start it.
        left = {name: subprocess.Popen(["sleep", "600"], user=uid, group=uid, extra_groups=[], cwd="/")
                for name, uid in users.items()}
        self.addCleanup(e2e.end_all, list(left.values()))
        status, body = self.node.call("DELETE", "/v1/vgpus/mine?force=true")
        self.assertEqual(status, 200, body)
        self.assertEqual(left["mine"].wait(e2e.PATIENCE), -signal.SIGKILL)
        e2e.wait_for(lambda: os.listdir(os.path.join(self.node.run_dir, "homes")) == ["other"], "its files are gone")
        self.assertIsNone(left["other"].poll())
        self.wait_busy("other")

    def test_weir_run_asks_no_daemon_in_a_folder_of_another_user(self):
        """Without XDG_RUNTIME_DIR the run folder of a user is in /tmp, where another user may have made it first."""
        folder = f"/tmp/weir-{TENANT.pw_uid}"
        if os.path.exists(folder):
            self.skipTest(f"{folder} is there already")
        os.mkdir(folder, 0o755)
        self.addCleanup(shutil.rmtree, folder)
        asked = []
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(os.path.join(folder, "control.sock"))
            listener.listen()
            os.chmod(os.path.join(folder, "control.sock"), 0o666)
            os.chown(folder, STRANGER.pw_uid, STRANGER.pw_gid)

            def answer():
                while True:
                    try:
                        there, _ = listener.accept()
                    except OSError:
                        return
                    asked.append(there.recv(4096))
                    there.close()
            thread = threading.Thread(target=answer)
            thread.start()
            done = subprocess.run([e2e.WEIR, "run", "--", "true"], user=TENANT.pw_uid, group=TENANT.pw_gid, extra_groups=[], cwd="/",
                                  env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=e2e.PATIENCE)
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"{folder} belongs to user {STRANGER.pw_uid}", done.stderr)
        self.assertEqual(asked, [])

    def test_executors_run_as_owners_if_asked_and_the_status_says_so(self):
        self.node.kill()
        self.node.arguments = (*self.node.arguments, "--executor-users", "owners")
        self.node.start()
        self.node.create("mine", owner_uid=TENANT.pw_uid)
        self.start(hostile.at_work(), "mine", user=TENANT)
        self.wait_busy("mine")
        self.assertEqual(self.users_of("mine"), {TENANT.pw_uid})
        self.assertEqual(self.node.get("/v1/status")["isolation"], {
            "executor_users": "owners",
            "missing": ["executors have no users of their own: '--executor-users owners' was given"]})

    def test_required_isolation_is_refused_where_users_can_not_reach_the_run_folder(self):
        self.node.kill()
        os.chmod(self.node.folder, 0o700)
        done = subprocess.run([e2e.WEIR, "serve", "--run-dir", self.node.run_dir, "--state-dir", self.node.state_dir,
                               "--require-isolation"], stderr=subprocess.PIPE, text=True, timeout=e2e.PATIENCE, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"executors have no users of their own: {self.node.folder} is closed to other users", done.stderr)

    def test_executors_have_no_capabilities_no_new_privileges_and_a_filter_of_system_calls(self):
        for name, uid in (("roots", 0), ("tenants", TENANT.pw_uid)):
            self.node.create(name, owner_uid=uid)
            self.start(hostile.at_work(), name, user=TENANT if uid else ROOT)
            self.wait_busy(name)
            fields = hostile.status_of(executors_of(self.node, name)[0])
            self.assertEqual((fields["NoNewPrivs"], fields["Seccomp"]), ("1", "2"), name)
            for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
                self.assertEqual(int(fields[kind], 16), 0, f"{name}: {kind}")
            with open(f"/proc/{executors_of(self.node, name)[0]}/oom_score_adj") as figure:
                self.assertGreaterEqual(int(figure.read()), 500, "the kernel ends it before others when no memory is left")

    def test_the_analyzer_of_kernels_has_the_user_and_the_confinement_of_its_executor(self):
        status, body = self.node.call("PUT", "/v1/devices/embedded/memory", {"size_bytes": 256 << 20})
        self.assertEqual(status, 200, body)
        self.node.create("mine", owner_uid=TENANT.pw_uid, memory_max_bytes=64 << 20)
        launches = self.start([PARTS, "64"], "mine", user=TENANT, stdout=subprocess.PIPE, text=True)
        executor = e2e.wait_for(lambda: executors_of(self.node, "mine"), "its executor runs")[0]

        def analyzers():
            return [pid for pid, name in hostile.children_of(executor).items() if name == "weir-analyzer"]
        analyzer, = e2e.wait_for(analyzers, "its analyzer runs")
        of_executor, fields = hostile.status_of(executor), hostile.status_of(analyzer)
        for ids in ("Uid", "Gid"):
            self.assertEqual(len(set(fields[ids].split())), 1, ids)
            self.assertEqual(fields[ids], of_executor[ids], ids)
        self.assertGreaterEqual(int(fields["Uid"].split()[0]), hostile.FIRST_OWN)
        self.assertEqual((fields["NoNewPrivs"], fields["Seccomp"]), ("1", "2"))
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(int(fields[kind], 16), 0, kind)
        self.assertEqual(hostile.groups_of(analyzer), hostile.groups_of(executor))
        for kind in ("net", "ipc", "uts"):
            spaces = {os.readlink(f"/proc/{pid}/ns/{kind}") for pid in (analyzer, executor)}
            self.assertEqual(len(spaces), 1, kind)
        self.assertEqual(launches.communicate(timeout=e2e.PATIENCE)[0], "wrong 0\n")
        self.assertEqual(self.node.vgpu("mine")["memory"]["launches_in_parts"], 1, "it was asked")
        self.assertEqual(analyzers(), [analyzer])

    def test_each_executor_has_namespaces_of_its_own(self):
        if hostile.why_no_namespaces():
            self.skipTest(hostile.why_no_namespaces())
        for name in ("mine", "other"):
            self.node.create(name, owner_uid=TENANT.pw_uid)
            self.start(hostile.at_work(), name, user=TENANT)
            self.wait_busy(name)
        processes = [self.node.process.pid, *(executors_of(self.node, name)[0] for name in ("mine", "other"))]
        for kind in ("net", "ipc", "uts"):
            with self.subTest(kind):
                self.assertEqual(len({os.readlink(f"/proc/{pid}/ns/{kind}") for pid in processes}), len(processes))
        with open(f"/proc/{processes[1]}/net/route") as routes:
            self.assertEqual(list(routes)[1:], [], "no network is reached; the first line is the head")

    def test_each_executor_is_in_a_group_with_limits_that_goes_with_its_vgpu(self):
        if hostile.why_no_groups():
            self.skipTest(hostile.why_no_groups())
        groups = {}
        for name in ("mine", "other"):
            self.node.create(name, owner_uid=TENANT.pw_uid)
            self.start(hostile.at_work(), name, user=TENANT)
            self.wait_busy(name)
            user = self.users_of(name).pop()
            groups[name] = [group for group in hostile.groups_of(executors_of(self.node, name)[0]) if group != "/"]
            self.assertTrue(groups[name])
            for group in groups[name]:
                self.assertRegex(group, f"^/weir-{hostile.FIRST_OWN // 10**9}[0-9]*/{user}$")

        def folders(name):
            places = {root + group for root in hostile.cgroup_folders().values() for group in groups[name]}
            return {place for place in places if os.path.exists(place)}
        self.assertEqual(len(folders("mine")), len(set(hostile.cgroup_folders().values())))
        self.assertNotIn("/weir-", "".join(hostile.groups_of(self.node.process.pid)), "the daemon is in none of them")
        # The next daemon finds the executors in their groups.
        self.node.kill()
        self.node.start()
        self.wait_busy("mine")
        self.assertTrue(folders("mine") and folders("other"))
        status, body = self.node.call("DELETE", "/v1/vgpus/mine?force=true")
        self.assertEqual(status, 200, body)
        e2e.wait_for(lambda: not folders("mine"), "its groups are removed")
        self.assertTrue(folders("other"))

    def test_the_executor_of_another_users_vgpu_refuses_a_stranger(self):
        self.node.create("mine", owner_uid=TENANT.pw_uid)
        program = self.start(hostile.at_work(), "mine", user=TENANT)
        self.wait_busy("mine")
        for kind in ("opencl", "vgpu"):
            place = os.path.join(self.node.run_dir, kind, "mine.sock")
            hello = {"opencl": b"\x16\0\0\0\1\0\0\0WOC1\1\0\3\0\0\0old\0",
                     "vgpu": b"WAT1\1\0\1\0\1\0\0\0\4\0\3old"}[kind]
            attacker = self.attack(STRANGER, "hello", place, "packet", hello.hex())
            answer = attacker.says()
            self.assertNotIn(answer, ("closed", "silence", "refused"), kind)
            self.assertRegex(bytes.fromhex(answer).decode(errors="replace"), f"(uid|user) {TENANT.pw_uid}\\b", kind)
        self.assertIsNone(program.poll())
        self.wait_busy("mine")


class Modules(hostile.Hostile):
    MODULE = os.path.join(e2e.BUILD, "lib/weir/modules/sorting_network.so")

    def make_node(self):
        return e2e.Node("--modules", "kernels")

    def weir(self, *arguments):
        return subprocess.run([e2e.WEIR, "module", *arguments, "--modules-socket", os.path.join(self.node.run_dir, "modules.sock")],
                              capture_output=True, text=True, timeout=e2e.PATIENCE)

    def run_once(self):
        done = self.weir("run", "sort", "sorting-network", "--args", "n=1024")
        self.assertEqual(done.returncode, 0, done.stderr)

    def host(self):
        """The fields of /proc/PID/status of the only module host."""
        service = next(h["pid"] for h in self.node.get("/v1/status")["helpers"] if h["name"] == "service for modules")
        found = subprocess.run(["pgrep", "-P", str(service), "-f", "module-host"], capture_output=True, text=True, check=True)
        [pid] = found.stdout.split()
        return hostile.status_of(pid)

    def test_a_module_host_runs_as_the_user_of_its_vgpus_executor_and_reads_no_blob_of_others(self):
        e2e.wait_for(lambda: os.path.exists(os.path.join(self.node.run_dir, "modules.sock")), "the service listens")
        self.assertIn("weir vgpu create kernels", self.weir("register", "sort", self.MODULE).stderr, "and not as root before")
        self.node.create("kernels")
        done = self.weir("register", "sort", self.MODULE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.run_once()
        host = self.host()
        user = os.stat(os.path.join(self.node.run_dir, "homes", "kernels")).st_uid
        self.assertGreaterEqual(user, hostile.FIRST_OWN)
        self.assertEqual({int(uid) for uid in host["Uid"].split()}, {user})
        self.assertEqual({int(gid) for gid in host["Gid"].split()}, {user})
        self.assertEqual((host["NoNewPrivs"], host["Seccomp"]), ("1", "2"))
        self.assertEqual(int(host["CapEff"], 16), 0)
        if not hostile.why_no_groups():
            groups = hostile.groups_of(host["Pid"]) - {"/"}
            self.assertTrue(groups)
            self.assertEqual({os.path.basename(group) for group in groups}, {str(user)}, "the group of its user")
        store = os.path.join(self.node.state_dir, "modules")
        blobs = [os.path.join(store, blob) for blob in os.listdir(store)]
        self.assertTrue(blobs)
        read = subprocess.run(["cat", *blobs], user=user, group=user, extra_groups=[], cwd="/", capture_output=True, check=False)
        self.assertEqual(read.stdout, b"")
        self.assertEqual(read.stderr.count(b"ermission denied"), len(blobs), read.stderr)
        # The next daemon gives executors no users of their own, and finds the folder of this one.
        self.node.kill()
        self.node.arguments = (*self.node.arguments, "--executor-users", "owners")
        self.node.start()
        self.run_once()
        self.assertEqual({int(uid) for uid in self.host()["Uid"].split()}, {0})


class Services(hostile.Hostile):
    """Portals and a relay: each reads what strangers, guests or other nodes send."""

    def make_node(self):
        self.peer = e2e.Node("--listen-plain", "127.0.0.1:0").start()
        self.addCleanup(self.peer.close)
        self.peer.create("parts")
        port = e2e.wait_for(lambda: text_of(os.path.join(self.peer.run_dir, "portal-plain.port")), "the peer's portal listens")
        node = e2e.Node()
        subprocess.run([e2e.WEIR, "keys", "init", "--dir", os.path.join(node.state_dir, "keys")], check=True,
                       stdout=subprocess.DEVNULL, timeout=e2e.PATIENCE)
        self.at = {vgpu: os.path.join(node.folder, vgpu) for vgpu in ("vm1", "vm2", "vm3")}
        self.hypervisor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(self.hypervisor.close)
        self.hypervisor.settimeout(e2e.PATIENCE)
        self.hypervisor.bind(self.at["vm3"])
        os.chmod(self.at["vm3"], 0o600)
        self.hypervisor.listen()
        self.relay = f"relay to 127.0.0.1:{port}"
        node.arguments = ("--listen", "127.0.0.1:0", "--guest", self.at["vm1"] + "=vm1", "--guest-memory", self.at["vm2"] + "=vm2",
                          "--guest-at", self.at["vm3"] + "=vm3", "--peer-plain", f"127.0.0.1:{port}=parts")
        return node

    def fields_of(self, helper):
        """Of /proc/PID/status of the process with this name in `weir status`, once it is confined."""
        def confined():
            pid = next(h["pid"] for h in self.node.get("/v1/status")["helpers"] if h["name"] == helper)
            try:
                fields = hostile.status_of(pid)
            except FileNotFoundError:  # it does not run now
                return None
            return fields if fields["Seccomp"] == "2" else None
        return e2e.wait_for(confined, f"{helper} is confined")

    def answer(self, uid, vgpu):
        """What the vGPU's executor answers to this user."""
        user = types.SimpleNamespace(pw_uid=uid, pw_gid=uid)
        place = os.path.join(self.node.run_dir, "opencl", vgpu + ".sock")
        attacker = self.attack(user, "hello", place, "packet", b"\x16\0\0\0\1\0\0\0WOC1\1\0\3\0\0\0old\0".hex())
        return bytes.fromhex(attacker.says()).decode(errors="replace")

    def test_portals_and_relays_have_users_of_their_own_and_have_given_up_their_rights(self):
        helpers = {"portal": "", self.relay: "", **{f"portal of the guest at {at}": vgpu for vgpu, at in self.at.items()}}
        users = {}
        for helper in helpers:
            fields = self.fields_of(helper)
            for ids in ("Uid", "Gid"):
                self.assertEqual(len(set(fields[ids].split())), 1, f"{helper}: {ids}")
            users[helper] = int(fields["Uid"].split()[0])
            self.assertGreaterEqual(users[helper], hostile.FIRST_OWN, helper)
            self.assertEqual(int(fields["Gid"].split()[0]), users[helper], helper)
            self.assertEqual((fields["NoNewPrivs"], fields["Groups"].strip()), ("1", ""), helper)
            for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
                self.assertEqual(int(fields[kind], 16), 0, f"{helper}: {kind}")
        self.assertEqual(len(set(users.values())), len(helpers), "no two of them share a user")
        # An executor serves the portal of the network, and of guests' portals that of its own vGPU.
        for name in ("vm1", "vm2"):
            self.node.create(name)
        for helper, vgpu in helpers.items():
            answer = self.answer(users[helper], "vm1")
            if helper == "portal" or vgpu == "vm1":
                self.assertNotIn("belongs to", answer, helper)
            else:
                self.assertIn("belongs to uid 0", answer, helper)

    def test_the_daemon_opens_what_a_portal_may_not(self):
        self.fields_of("portal of the guest at " + self.at["vm3"])
        for _ in range(2):  # the portal, which has another user, connects again when the hypervisor has closed the port
            connection, _ = self.hypervisor.accept()
            connection.close()
        e2e.wait_for(lambda: os.path.exists(self.at["vm2"]), "the daemon has made the guest's memory")
        memory = os.stat(self.at["vm2"])
        self.assertEqual((memory.st_uid, stat.S_IMODE(memory.st_mode)), (0, 0o600))
        self.fields_of("portal of the guest at " + self.at["vm2"])
        e2e.wait_for(lambda: os.stat(self.at["vm2"]).st_size > 0, "the guest's memory is made")
        # The list of revoked tokens is read for each connection.
        self.node.create("vm1")
        keys = os.path.join(self.node.state_dir, "keys")
        token = os.path.join(self.node.folder, "vm1.token")

        def weir(*arguments, code=0):
            done = subprocess.run([e2e.WEIR, *arguments], capture_output=True, text=True, timeout=e2e.PATIENCE)
            self.assertEqual(done.returncode == 0, code == 0, done.stdout + done.stderr)
            return done.stderr
        weir("keys", "token", "vm1", "--dir", keys, "--out", token)
        port = text_of(os.path.join(self.node.run_dir, "portal.port"))
        use = ("run", "--node", f"127.0.0.1:{port}", "--token", token, "--", "clinfo", "-l")
        weir(*use)
        weir("keys", "revoke", "vm1", "--dir", keys)
        self.assertIn("revoked", weir(*use, code=1))
        os.rename(os.path.join(keys, "revoked"), os.path.join(keys, "lost"))
        weir(*use, code=1)
        self.assertIn("without that list no tenant is accepted", self.node.log_text())


class NodeOfTheUnit(e2e.Node):
    """Starts the daemon with only the capabilities of the systemd unit."""

    def start(self):
        # As after a boot: the roots of control groups are closed to their owner, and no former daemon's folder is there.
        for root in set(hostile.cgroup_folders().values()):
            for name in os.listdir(root):
                if name.startswith("weir-2"):
                    try:
                        os.rmdir(os.path.join(root, name))
                    except OSError:
                        pass  # of a daemon that runs
            if not hostile.why_no_groups():
                os.chmod(root, 0o555)
        with open(UNIT) as unit:
            names = next(line.split("=", 1)[1].split() for line in unit if line.startswith("CapabilityBoundingSet="))
        bounds = ",".join(["-all"] + ["+" + name.removeprefix("CAP_").lower() for name in names])
        self.process = subprocess.Popen(
            ["setpriv", "--bounding-set", bounds, "--no-new-privs", e2e.WEIR, "serve", "--run-dir", self.run_dir, "--state-dir",
             self.state_dir, *self.arguments], stderr=self.log, stdout=self.log)
        e2e.wait_for(self.answers, "the daemon answers")
        return self


class Unit(hostile.Hostile):
    def make_node(self):
        return NodeOfTheUnit()

    def test_the_capabilities_of_the_systemd_unit_are_enough_for_executors_of_other_users(self):
        with open(f"/proc/{self.node.process.pid}/status") as status:
            effective = int(next(line.split()[1] for line in status if line.startswith("CapEff:")), 16)
        self.assertEqual(bin(effective).count("1"), 6)
        if not hostile.why_no_groups():
            missing = self.node.get("/v1/status")["isolation"]["missing"]
            if hostile.landlock_version() >= 6:
                self.assertEqual(missing, [])
            else:  # the unit's service may make no namespaces
                self.assertIn("abstract Unix sockets", " ".join(missing))
        status, body = self.node.call("PUT", "/v1/devices/embedded/memory", {"size_bytes": 1 << 30})
        self.assertEqual(status, 200, body)
        self.node.create("mine", owner_uid=TENANT.pw_uid, memory_min_bytes=64 << 20, memory_max_bytes=512 << 20)
        program = self.start(hostile.at_work(), "mine", user=TENANT)
        self.wait_busy("mine")
        executor = executors_of(self.node, "mine")[0]
        # The daemon accepts the executor's memory statistics, and so does the next daemon, which finds the executor's
        # pid and start time in the run folder.
        e2e.wait_for(lambda: self.node.vgpu("mine")["memory"]["made_bytes"] > 0, "its books are read")
        self.node.kill()
        self.node.start()  # this daemon did not start the executor
        e2e.wait_for(lambda: executor in executors_of(self.node, "mine"), "the executor is back")
        e2e.wait_for(lambda: self.node.vgpu("mine")["memory"]["made_bytes"] > 0, "its books are read by the next daemon")
        self.wait_busy("mine")
        self.assertIsNone(program.poll())
        status, body = self.node.call("DELETE", "/v1/vgpus/mine?force=true")
        self.assertEqual(status, 200, body)


if __name__ == "__main__":
    hostile.main()
