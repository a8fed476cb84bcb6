# SPDX-License-Identifier: Apache-2.0
"""Random bytes into every socket and every port."""
import os
import random
import subprocess

import hostile
from hostile import STRANGER, e2e

import emulated

ROUNDS = 250


class Noise(hostile.Hostile):
    def make_node(self):
        node = emulated.EmulatedNode(emulated.CARD, "--device", "embedded", "--listen", "127.0.0.1:0",
                                     "--listen-plain", "127.0.0.1:0")
        self.guest = os.path.join(node.folder, "guest.sock")
        node.arguments += ("--guest", self.guest + "=victim")
        subprocess.run([e2e.WEIR, "keys", "init", "--dir", os.path.join(node.state_dir, "keys")], check=True, capture_output=True)
        return node

    def port(self, path):
        def read():
            try:
                with open(path) as file:
                    return file.read().strip()
            except FileNotFoundError:
                return ""

        return int(e2e.wait_for(read, f"{path} has a port"))

    def manager(self):
        """A manager without a token, and its port."""
        folder = os.path.join(self.node.folder, "manager")
        os.mkdir(folder)
        manager = subprocess.Popen(
            [e2e.WEIR, "manager", "--quiet", "--listen", "127.0.0.1:0", "--plain", "--port-file", os.path.join(folder, "port"),
             "--state", os.path.join(folder, "journal"), "--store", os.path.join(folder, "blobs")])
        self.addCleanup(e2e.end_all, [manager])
        return manager, self.port(os.path.join(folder, "port"))

    def manager_answers(self, port):
        done = subprocess.run([e2e.WEIR, "cluster", "status", "--manager", f"127.0.0.1:{port}"], capture_output=True, text=True,
                              timeout=e2e.PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_random_bytes_into_every_socket_and_port_end_no_process(self):
        self.node.create("victim", device="embedded")
        self.node.create("other", device="emulated0")
        self.finds_its_device("victim")
        manager, manager_port = self.manager()
        ports = [manager_port] + [self.port(os.path.join(self.node.run_dir, name)) for name in ("portal.port", "portal-plain.port")]
        e2e.wait_for(lambda: os.path.exists(self.guest), "the guest's portal listens")
        places = self.sockets() + [self.guest] + [f"tcp:{port}" for port in ports]
        victim = self.start(hostile.at_work(), "victim")
        self.wait_busy("victim")
        before = hostile.children_of(self.node.process.pid)
        self.assertGreaterEqual(len(before), 5, before)
        seed = random.randrange(1 << 32)
        print(f"seed {seed}; {len(places)} places: {' '.join(os.path.basename(place) for place in places)}; processes: {before}")
        for user in (STRANGER, None):  # None: the owner of the sockets
            attacker = self.attack(user, "noise", seed, ROUNDS, *places)
            sent = int(attacker.says())
            print(f"{sent} messages from {user.pw_name if user else 'their owner'}")
            self.assertGreater(sent, ROUNDS)
        self.daemon_is_well()
        # A connection may have started an executor.
        self.assertLessEqual(before.items(), hostile.children_of(self.node.process.pid).items(), self.node.log_text())
        self.assertIsNone(manager.poll())
        self.manager_answers(manager_port)
        self.assertIsNone(victim.poll(), "the victim's program goes on")
        self.wait_busy("victim")
        self.finds_its_device("victim")


if __name__ == "__main__":
    hostile.main()
