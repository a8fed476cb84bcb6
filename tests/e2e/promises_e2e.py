# SPDX-License-Identifier: Apache-2.0
"""What `weir` says of promised rates: on stderr, in JSON and in the control API's replies. On an emulated GPU."""
import json
import subprocess

import emulated
import weir_e2e as e2e

IGNORED = "proportional-share, ignores promised rates and latencies; 'weir policy sla-aware --device"


class Promises(emulated.WithEmulatedNode):
    def weir(self, *arguments):
        done = subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, *arguments], capture_output=True, text=True,
                              timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
        return done

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


if __name__ == "__main__":
    e2e.main()
