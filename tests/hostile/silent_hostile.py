# SPDX-License-Identifier: Apache-2.0
"""Connections that send nothing."""
import time

import hostile
from hostile import STRANGER, e2e

CONNECTIONS = 600
ANSWERS_IN = 1.0  # seconds, of a victim's fastest clinfo: a connection that blocks others does so for several seconds


class Silent(hostile.Hostile):
    def make_node(self):
        return e2e.Node("--listen-plain", "127.0.0.1:0")

    def seconds_of_clinfo(self):
        start = time.monotonic()
        self.finds_its_device("victim")
        return time.monotonic() - start

    def test_silent_connections_of_another_user_to_every_socket_do_not_slow_a_victim(self):
        self.node.create("victim")
        self.finds_its_device("victim")  # its executor runs from now on
        alone = max(self.seconds_of_clinfo() for _ in range(5))
        sockets = self.sockets()
        self.assertGreaterEqual(len(sockets), 3, sockets)
        attacker = self.attack(STRANGER, "silent", CONNECTIONS, *sockets)
        made, tried = map(int, attacker.says().split())
        self.assertEqual(tried, CONNECTIONS * len(sockets))
        self.assertGreater(made, CONNECTIONS, "the sockets that others may reach took them")
        # A silent connection that blocks others delays each run of clinfo. A pause of the host delays one or two of them.
        beside = min(self.seconds_of_clinfo() for _ in range(5))
        print(f"{made} silent connections to {len(sockets)} sockets; clinfo alone at most {alone:.3f} s, beside them at least {beside:.3f} s")
        self.assertLess(beside, max(ANSWERS_IN, 3 * alone))
        self.daemon_is_well()

    def test_silent_connections_do_not_block_a_new_programs_first_executor(self):
        self.node.create("victim")
        attacker = self.attack(STRANGER, "silent", CONNECTIONS, *self.sockets())
        attacker.says()
        self.finds_its_device("victim")
        program = self.start(hostile.at_work(2), "victim")
        self.assertEqual(program.wait(e2e.PATIENCE), 0)
        self.assertGreater(self.node.vgpu("victim")["totals"]["gpu_ns"], 0, "it passed its gate")


if __name__ == "__main__":
    hostile.main()
