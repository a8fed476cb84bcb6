# SPDX-License-Identifier: Apache-2.0
"""What `weir` says of promised rates: whether the policy keeps them, what they need, and whether that fits. On an emulated
GPU, where a frame of glxgears takes 4 ms."""
import json
import re
import subprocess

import emulated
import weir_e2e as e2e

IGNORED = "proportional-share, ignores promised rates and latencies; 'weir policy sla-aware --device"


class Promises(emulated.WithEmulatedNode):
    def weir(self, *arguments, status=0):
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, *arguments], capture_output=True, text=True,
                              timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, status, f"{arguments}: {done.stderr}")
        return done

    def texts(self, kind):
        return [event["text"] for event in self.node.get("/v1/events")["events"] if event["kind"] == kind]

    def promise(self, name):
        return self.node.vgpu(name)["promise"]

    def draw(self, name, **settings):
        """A vGPU with glxgears in it, whose cost is known."""
        self.node.create(name, **settings)
        self.start(["glxgears"], name)
        e2e.wait_for(lambda: self.promise(name)["need"], f"the cost of {name} is known")

    def test_a_promise_that_the_policy_ignores_gets_a_warning(self):
        for arguments in (("vgpu", "create", "game", "--fps", "60"), ("vgpu", "set", "game", "--latency-ms", "20"),
                          ("vgpu", "create", "job", "--tasks", "5"), ("run", "--fps", "60", "--", "true"),
                          ("run", "--latency-ms", "20", "--", "true"), ("run", "--vgpu", "game", "--", "true")):
            self.assertIn(IGNORED, self.weir(*arguments).stderr, arguments)
        self.assertEqual(self.weir("vgpu", "create", "plain", "--weight", "50").stderr, "", "nothing is promised")
        self.assertEqual(self.weir("run", "--weight", "50", "--", "true").stderr, "")
        self.assertIn(IGNORED, self.weir("vgpu", "show", "game").stdout)

    def test_a_warning_does_not_disturb_json(self):
        done = self.weir("--json", "vgpu", "create", "game", "--fps", "60")
        self.assertIn(IGNORED, done.stderr)
        promise = json.loads(done.stdout)["promise"]
        self.assertFalse(promise["kept_by_policy"])
        self.assertIn(IGNORED, promise["warnings"][0])
        self.assertIsNone(self.node.create("plain")["promise"])

    def test_what_the_warning_says_helps(self):
        warning = self.weir("vgpu", "create", "game", "--fps", "60").stderr
        command = warning.split("'weir ")[1].split("'")[0].split()
        self.assertEqual(self.weir(*command).stderr, "")
        self.assertEqual(self.weir("vgpu", "set", "game", "--fps", "30").stderr, "")
        self.assertTrue(self.node.vgpu("game")["promise"]["kept_by_policy"])
        self.assertIn("promised to: game", self.weir("policy", "none").stderr, "the other way round")

    def test_a_promise_says_whether_it_fits_once_the_cost_is_known(self):
        self.node.policy("sla-aware")
        said = self.weir("vgpu", "create", "game", "--fps", "60").stdout
        self.assertIn("\npromise: 60 frames/s; 0 % of emulated0 is promised to others; its cost is not known yet: "
                      "'weir vgpu show game'", said)
        self.assertIn("its cost is not known yet", self.weir("run", "--fps", "60", "--", "true").stderr)
        self.assertIsNone(self.promise("game")["need"])
        self.start(["glxgears"], "game")

        def shown():
            said = re.search(r"promise +60 frames/s need (\d+) % of emulated0; 0 % of emulated0 is promised to others: it fits",
                             self.weir("vgpu", "show", "game").stdout)
            return said and int(said[1])

        e2e.wait_for(lambda: 22 <= (shown() or 0) <= 26, "60 frames of 4 ms need 24 %; its first frames cost more")
        self.assertRegex(self.weir("vgpu", "create", "next", "--fps", "30").stdout, r"\d\d % of emulated0 is promised to others")

    def test_an_event_names_who_gives_way_and_another_says_that_all_fits_again(self):
        self.node.policy("sla-aware")
        self.draw("heavy", fps=100, weight=200)
        self.draw("light", fps=50, weight=50)
        self.assertEqual(self.texts("overpromised"), [])
        said = self.weir("vgpu", "set", "light", "--fps", "400")
        self.assertIn("it does not fit", said.stdout)
        self.assertIn("weir: warning: the promises on emulated0 need", said.stderr)
        e2e.wait_for(lambda: self.texts("overpromised"), "the event")
        self.assertRegex(self.texts("overpromised")[0], r"its promises need \d{3} % of it; .* those of: light$")
        self.assertEqual(self.texts("fits"), [])
        self.weir("vgpu", "set", "light", "--fps", "20")
        e2e.wait_for(lambda: self.texts("fits"), "the event")
        self.assertEqual(len(self.texts("overpromised")), 1)

    def test_a_promise_that_does_not_fit_is_refused_where_the_device_is_sold_so(self):
        self.node.policy("sla-aware")
        self.draw("game", fps=50)
        self.weir("oversell", "off", "--param", "refuse_rates=1")
        refused = self.weir("vgpu", "set", "game", "--fps", "400", status=7)
        self.assertIn("the promise does not fit: 400 frames/s need", refused.stderr)
        self.assertEqual(self.node.vgpu("game")["settings"]["fps"], 50)
        command = refused.stderr.split("'weir ")[1].split("'")[0].split()
        self.weir(*command)
        self.weir("vgpu", "set", "game", "--fps", "400")

    def test_a_promise_implies_a_cap_beside_another_one(self):
        self.node.policy("sla-aware", cap_rates=1)
        self.draw("game", fps=50)
        self.assertEqual(self.node.vgpu("game")["cap_now"], 1, "no other promise runs")
        self.draw("other", fps=25)
        e2e.wait_for(lambda: 0.2 <= self.node.vgpu("game")["cap_now"] <= 0.45, "50 frames of 4 ms need 20 %, and a quarter more")
        e2e.wait_for(lambda: self.node.vgpu("other")["cap_now"] < 0.3, "its first frames cost more than 4 ms")
        self.assertRegex(self.weir("vgpu", "show", "game").stdout, r"cap +100 % \(now \d\d(\.\d)? %, which its promise implies\)")
        e2e.wait_for(lambda: self.node.vgpu("game")["window"]["fps"] > 48, "its promise is kept")
        self.node.policy("sla-aware")
        e2e.wait_for(lambda: self.node.vgpu("game")["cap_now"] == 1, "without the parameter there is no cap")


if __name__ == "__main__":
    e2e.main()
