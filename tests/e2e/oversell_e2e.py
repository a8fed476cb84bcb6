# SPDX-License-Identifier: Apache-2.0
"""Selling a device, with programs that draw and daemons that die: nothing is sold twice under strict, more is sold
under adaptive while the device is calm, and all changes are reported. The device is emulated, so its speed does not
depend on the host's load. Shares are compared with its ground truth."""
import json
import os
import signal
import subprocess
import unittest

import emulated
import weir_e2e as e2e

GAME = ["glmark2", "-b", "shading:shading=phong:duration=600", "-s", "400x300"]


class Overselling(emulated.WithEmulatedNode):
    prompt_if_permitted = True
    description = emulated.CARD + emulated.LONG_FRAMES

    def weir(self, *arguments):
        return subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, *arguments], capture_output=True, text=True,
                              timeout=e2e.PATIENCE)

    def ok(self, *arguments):
        done = self.weir(*arguments)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
        return done.stdout

    def events(self):
        return [json.loads(line) for line in self.ok("events", "-n", "10000", "--json").splitlines()]

    def told(self, kind, vgpu=None):
        return [e for e in self.events() if e["kind"] == kind and vgpu in (None, e["vgpu"])]

    def selling(self):
        return self.node.get("/v1/devices")["devices"][0]["oversell"]

    def follow(self, *arguments):
        """`weir events --follow`, and its output so far."""
        path = os.path.join(self.node.folder, "followed")
        out = open(path, "w+")
        self.addCleanup(out.close)
        process = subprocess.Popen([e2e.WEIR, "--run-dir", self.node.run_dir, "events", "--follow", *arguments],
                                   stdout=out, stderr=out)
        self.addCleanup(lambda: process.poll() is None and (process.kill(), process.wait()))

        def said():
            with open(path) as text:
                return text.read()

        return process, said

    def has_at_most(self, share, **programs):
        """Expects that these programs use at most that fraction of the device."""
        def check(use):
            print({name: f"{part:.4f}" for name, part in use.items()})
            self.assertLessEqual(sum(use.values()), share + 0.01, use)

        self.settled(programs, 8, check)

    def test_strict_sells_nothing_twice_and_reports_what_it_can_sell(self):
        self.ok("oversell", "strict")
        self.assertIn("sold as guaranteed, now 60 %", self.ok("vgpu", "create", "a", "--cap", "60%"))
        refused = self.weir("vgpu", "create", "b", "--cap", "50%")
        self.assertEqual(refused.returncode, 7, refused.stderr)
        self.assertIn("at most 40 % can", refused.stderr)
        self.assertIn("40 %, guaranteed", self.ok("oversell", "status"))
        self.assertIn("best-effort", self.ok("vgpu", "create", "scraps", "--best-effort"))
        self.assertIn("sold as guaranteed", self.ok("vgpu", "create", "b", "--cap", "40%"))
        listed = self.ok("vgpu", "list")
        self.assertIn("CAP NOW", listed)
        self.assertRegex(listed, r"scraps .* 0 % +best-effort")
        self.assertEqual([e["vgpu"] for e in self.told("refused")], ["b"])
        self.assertIn("at most 40 % can", self.told("refused")[0]["text"])
        self.assertEqual(self.weir("vgpu", "set", "a", "--cap", "0.7").returncode, 7)
        self.assertEqual(self.node.vgpu("a")["settings"]["cap"], 0.6)
        for arguments, status, says in ((("oversell", "magic"), 2, "known: on (adaptive), off, strict, static"),
                                        (("oversell", "on", "--device", "x"), 3, "no device named 'x'"),
                                        (("oversell", "status", "--device", "x"), 3, "no device named 'x'"),
                                        (("oversell", "static", "--ratio", "0.5"), 2, "ratio"),
                                        (("oversell", "on", "--param", "speed=3"), 2, "speed")):
            done = self.weir(*arguments)
            self.assertEqual(done.returncode, status, f"{arguments}: {done.stderr}")
            self.assertIn(says, done.stderr)
        self.assertEqual(self.selling()["mode"], "strict")

    def test_more_is_sold_while_a_game_is_calm_and_stays_sold_over_a_kill(self):
        self.ok("oversell", "on", "--param", "low_line=0.8")
        self.ok("vgpu", "create", "game", "--cap", "50%")
        self.ok("vgpu", "create", "idle", "--cap", "50%")
        early = self.weir("vgpu", "create", "more", "--cap", "30%")
        self.assertEqual(early.returncode, 7, early.stderr)
        self.assertIn("of 3 reports in succession were calm", early.stderr)
        game = self.start(GAME, "game")
        self.wait_frames("game")
        follower, said = self.follow("-n", "0")

        e2e.wait_for(lambda: self.selling()["offer"]["oversold"] >= 0.3, "more can be sold")
        self.assertTrue(self.told("sellable"), self.events())
        self.assertIn("sold as oversold", self.ok("vgpu", "create", "more", "--cap", "30%"))
        self.assertIn("sold as best-effort", self.ok("vgpu", "create", "scraps", "--best-effort"))
        e2e.wait_for(lambda: "best-effort; cap now" in said(), "it is told while it happens")
        self.assertRegex(said(), r"\d\d:\d\d:\d\d\.\d\d\d +sold +more +a ceiling of 30 %, oversold")
        self.assertIn("130 %", self.ok("oversell", "status"))
        self.has_at_most(0.5, game=game)

        self.node.kill()
        e2e.wait_for(lambda: "waiting for it to return" in said(), "the one that follows notices")
        self.node.start()
        e2e.wait_for(lambda: "4 of 4 vGPUs are back" in said(), "and goes on")
        self.assertIn("was restarted", said())
        sales = {v["name"]: v["sale"] for v in self.node.get("/v1/vgpus")["vgpus"]}
        self.assertEqual(sales, {"game": "guaranteed", "idle": "guaranteed", "more": "oversold", "scraps": "best-effort"})
        after = self.selling()
        self.assertEqual((after["mode"], after["params"]["low_line"]), ("adaptive", 0.8))
        self.assertAlmostEqual(after["sold"], 1.3, delta=0.001)
        self.assertFalse(self.told("refused") + self.told("sold"), "nothing was judged again")
        e2e.wait_for(lambda: self.node.vgpu("game")["processes"], "the game is attached again")
        self.wait_frames("game", 5)
        caps = [v["cap_now"] for v in self.node.get("/v1/vgpus")["vgpus"]]
        self.assertLessEqual(sum(caps), 1.001, caps)
        self.has_at_most(0.5, game=game)

        follower.send_signal(signal.SIGINT)
        self.assertEqual(follower.wait(e2e.PATIENCE), 0)

    def test_lent_time_returns_when_it_is_needed(self):
        self.ok("oversell", "on")
        self.ok("vgpu", "create", "lender")
        e2e.wait_for(lambda: self.selling()["offer"]["oversold"] > 0.99, "all of it can be sold again")
        self.ok("vgpu", "create", "guest")
        self.assertLess(self.node.vgpu("lender")["cap_now"], 0.05, "it leaves all idle")
        programs = {"guest": self.start(GAME, "guest")}
        self.wait_frames("guest")
        # Several programs, so that one of them wants the device even while a busy host does not schedule the others.
        programs.update({f"lender{i}": self.start(GAME, "lender") for i in range(4)})
        e2e.wait_for(lambda: self.node.vgpu("lender")["cap_now"] > 0.5, "it takes its cap back")
        back = e2e.wait_for(lambda: self.told("regained", "lender"), "and that is told")
        self.assertIn("from guest", back[0]["text"])
        self.wait_frames("lender", 5)

        def check(use):
            print({name: f"{part:.4f}" for name, part in use.items()})
            mine = sum(part for name, part in use.items() if name != "guest")
            self.assertGreater(mine, 0.95, "all of the device was sold to it, and it wants all")

        self.settled(programs, 8, check, afresh=True)


if __name__ == "__main__":
    e2e.main()
