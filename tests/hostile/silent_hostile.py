# SPDX-License-Identifier: Apache-2.0
"""Connections that send nothing."""
import os
import re
import subprocess
import time

import hostile
from distant import text_of
from hostile import STRANGER, e2e

CONNECTIONS = 600  # to each socket
ANSWERS_IN = 1.0  # seconds, of a victim's fastest clinfo: a connection that blocks others does so for several seconds
OPEN_TO_ALL = ("opencl/victim.sock", "vgpu/victim.sock", "portal", "portal-plain", "dashboard")


class Silent(hostile.Hostile):
    def make_node(self):
        anywhere = "127.0.0.1:0"
        node = e2e.Node("--listen", anywhere, "--listen-plain", anywhere, "--http", anywhere, "--modules", "kernels")
        self.guest = os.path.join(node.folder, "guest.sock")
        node.arguments += ("--guest", self.guest + "=victim")
        keys = os.path.join(node.state_dir, "keys")
        subprocess.run([e2e.WEIR, "keys", "init", "--dir", keys], check=True, capture_output=True, timeout=e2e.PATIENCE)
        return node

    def places(self):
        """By name: every socket and port of the node, as the attacker takes them."""
        self.node.create("victim")
        self.node.create("kernels")
        sockets = {os.path.relpath(path, self.node.run_dir): path for path in self.sockets()}
        e2e.wait_for(lambda: os.path.exists(self.guest), "the guest's portal listens")
        modules = os.path.join(self.node.run_dir, "modules.sock")
        e2e.wait_for(lambda: os.path.exists(modules), "the module service listens")
        ports = {}
        for name in ("portal", "portal-plain"):
            file = os.path.join(self.node.run_dir, name + ".port")
            ports[name] = e2e.wait_for(lambda: text_of(file), f"the {name} listens")
        page = r"weir-dashboard: http://127\.0\.0\.1:(\d+)/"
        ports["dashboard"] = e2e.wait_for(lambda: re.search(page, self.node.log_text()), "the dashboard listens")[1]
        return {**sockets, "modules.sock": modules, "guest": self.guest,
                **{name: f"tcp:{port}" for name, port in ports.items()}}

    def seconds_of_clinfo(self):
        start = time.monotonic()
        code, out, err = self.run_to_end(["clinfo"], "victim")
        seconds = time.monotonic() - start
        self.assertEqual(code, 0, out + err)
        self.assertRegex(out, r"(?m)^ *Platform Name +Weir$")
        return seconds

    def test_silent_connections_of_another_user_to_every_socket_do_not_slow_a_victim(self):
        places = self.places()
        self.finds_its_device("victim")  # its executor runs from now on
        alone = min(self.seconds_of_clinfo() for _ in range(5))
        attacker = self.attack(STRANGER, "silent", CONNECTIONS, *places.values())
        made = dict(zip(places, map(int, attacker.says().split())))
        print(f"{sum(made.values())} silent connections:", ", ".join(f"{name} {count}" for name, count in made.items()))
        self.assertEqual(made.keys(), places.keys())
        self.assertGreater(sum(made.values()), CONNECTIONS, "the sockets that others may reach took them")
        for name in OPEN_TO_ALL:
            self.assertGreater(made[name], 0, name)
        # A silent connection that blocks others delays each run of clinfo. A pause of the host delays one or two.
        beside = min(self.seconds_of_clinfo() for _ in range(5))
        print(f"the fastest of 5 runs of clinfo: {alone:.3f} s alone, {beside:.3f} s beside them")
        self.assertLess(beside, ANSWERS_IN)
        self.daemon_is_well()

    def test_silent_connections_do_not_block_a_new_programs_first_executor(self):
        attacker = self.attack(STRANGER, "silent", CONNECTIONS, *self.places().values())
        attacker.says()
        self.finds_its_device("victim")
        program = self.start(hostile.at_work(2), "victim")
        self.assertEqual(program.wait(e2e.PATIENCE), 0)
        self.assertGreater(self.node.vgpu("victim")["totals"]["gpu_ns"], 0, "it passed its gate")


if __name__ == "__main__":
    hostile.main()
