# SPDX-License-Identifier: Apache-2.0
"""Executors that run as another user than the daemon's."""
import os
import pwd
import stat
import subprocess

import hostile
from hostile import STRANGER, TENANT, e2e, executors_of

ROOT = pwd.getpwuid(0)
UNIT = os.path.join(hostile.HERE, "../../units/weir.service.in")


class Users(hostile.Hostile):
    def test_an_executor_runs_as_the_owner_of_its_vgpu_and_what_it_compiles_is_closed_to_others(self):
        for name, user in (("mine", TENANT), ("other", STRANGER)):
            self.node.create(name, owner_uid=user.pw_uid)
            program = self.start([hostile.LOOP, "600", "65536", "200", "4"], name, user=user)
            self.wait_busy(name)
            with open(f"/proc/{executors_of(self.node, name)[0]}/status") as status:
                ids = next(line.split()[1:] for line in status if line.startswith("Uid:"))
            self.assertEqual(set(ids), {str(user.pw_uid)})
            self.assertIsNone(program.poll())
            home = os.path.join(self.node.run_dir, "home", f"{name}.{user.pw_uid}")
            if os.path.exists(home):  # the user has no home folder
                found = os.stat(home)
                self.assertEqual((found.st_uid, stat.S_IMODE(found.st_mode)), (user.pw_uid, 0o700))
        homes = os.stat(os.path.join(self.node.run_dir, "home"))
        self.assertEqual((homes.st_uid, stat.S_IMODE(homes.st_mode)), (0, 0o711), "tenants make no folders there")

    def test_executors_have_no_capabilities_no_new_privileges_and_a_filter_of_system_calls(self):
        for name, uid in (("roots", 0), ("tenants", TENANT.pw_uid)):
            self.node.create(name, owner_uid=uid)
            self.start([hostile.LOOP, "600", "65536", "200", "4"], name, user=TENANT if uid else ROOT)
            self.wait_busy(name)
            with open(f"/proc/{executors_of(self.node, name)[0]}/status") as status:
                fields = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
            self.assertEqual((fields["NoNewPrivs"], fields["Seccomp"]), ("1", "2"), name)
            for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
                self.assertEqual(int(fields[kind], 16), 0, f"{name}: {kind}")

    def test_the_executor_of_another_users_vgpu_refuses_a_stranger(self):
        self.node.create("mine", owner_uid=TENANT.pw_uid)
        program = self.start([hostile.LOOP, "600", "65536", "200", "4"], "mine", user=TENANT)
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


class NodeOfTheUnit(e2e.Node):
    """Starts the daemon with only the capabilities of the systemd unit."""

    def start(self):
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
        status, body = self.node.call("PUT", "/v1/devices/embedded/memory", {"size_bytes": 1 << 30})
        self.assertEqual(status, 200, body)
        self.node.create("mine", owner_uid=TENANT.pw_uid, memory_min_bytes=64 << 20, memory_max_bytes=512 << 20)
        program = self.start([hostile.LOOP, "600", "65536", "200", "4"], "mine", user=TENANT)
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
