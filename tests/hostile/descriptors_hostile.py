# SPDX-License-Identifier: Apache-2.0
"""A tenant that uses up the daemon's file descriptors."""
import pwd
import resource
import subprocess
import time

import hostile
from hostile import TENANT, e2e

FILES = 160  # of the daemon
ATTACHES = 200  # a part of them finds a place


class NodeWithFewFiles(e2e.Node):
    def start(self):
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))

        self.process = subprocess.Popen(
            [e2e.WEIR, "serve", "--run-dir", self.run_dir, "--state-dir", self.state_dir, *self.arguments],
            stderr=self.log, stdout=self.log, preexec_fn=few)
        e2e.wait_for(self.answers, "the daemon answers")
        return self


class Descriptors(hostile.Hostile):
    def make_node(self):
        return NodeWithFewFiles()

    def test_a_daemon_without_descriptors_serves_attached_programs_and_accepts_others_later(self):
        self.node.create("victim")
        self.node.create("hog", owner_uid=TENANT.pw_uid)
        victim = self.start(hostile.at_work(), "victim")
        self.wait_busy("victim")
        hog = self.node.environment("hog")["WEIR_ATTACH"]
        hello = (b"WAT1" + bytes((1, 0, 1, 0, 1, 0, 5, 0, 1, 0)) + b"\x03hog").hex()
        attackers = [self.attack(TENANT, "attach", ATTACHES, hog, hello)]
        attached = int(attackers[0].says())
        self.assertGreater(attached, 10)
        self.assertLess(attached, ATTACHES, "not all could attach")
        self.assertEqual(attached, len(self.node.vgpu("hog")["processes"]))
        self.assertNotIn("can't attach for now", self.node.log_text(), "they leave descriptors for others")
        # Connections without data take the last descriptors. One user may have 64 of them, and root may attach, too.
        for user in (TENANT, pwd.getpwuid(0)):
            attackers.append(self.attack(user, "silent", 64, hog))
            attackers[-1].says()
        e2e.wait_for(lambda: "can't attach for now" in self.node.log_text(), "the daemon says that it has no descriptors")
        # A listener that stays readable must not keep the daemon busy.
        busy, start = hostile.cpu_seconds(self.node.process.pid), time.monotonic()
        time.sleep(3)
        busy, span = hostile.cpu_seconds(self.node.process.pid) - busy, time.monotonic() - start
        print(f"{attached} attached; the daemon used {busy / span:.1%} of a processor without descriptors")
        self.assertLess(busy / span, 0.5)
        self.assertIsNone(victim.poll())
        self.wait_busy("victim")  # it is charged and passes the gate as before
        for attacker in attackers:
            attacker.close()
        e2e.wait_for(lambda: not self.node.vgpu("hog")["processes"], "those who left are forgotten")
        self.finds_its_device("victim")
        self.daemon_is_well()


if __name__ == "__main__":
    hostile.main()
