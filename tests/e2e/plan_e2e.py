# SPDX-License-Identifier: Apache-2.0
"""weir plan on traces of real programs, and on files that are not traces. The test does not compare the incomes of ways
of selling, because frames take longer on a busy machine."""
import json
import os
import subprocess

import weir_e2e as e2e
from traces import Traces


class Plan(Traces):
    def test_a_plan_shows_the_income_of_each_way_of_selling(self):
        self.run_all()
        self.node.policy("sla-aware")
        traces = [word for trace in self.record(6) for word in ("--trace", trace)]
        arguments = [e2e.WEIR, "plan", *traces, "--fps", "8", "--seconds", "60", "--customers", "6", "--ratios", "1.5,3"]
        done = subprocess.run([*arguments, "--json"], capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual([trace["name"] for trace in plan["traces"]], list(self.PROGRAMS))
        ways = plan["ways"]
        self.assertEqual([(way["mode"], way.get("ratio")) for way in ways],
                         [("strict", None), ("static", 1.5), ("static", 3), ("adaptive", None)])
        self.assertEqual([way["sold"] for way in ways[:3]], [2, 3, 6])
        self.assertGreaterEqual(ways[3]["sold"], 2)
        for way in ways:
            print(way)
            self.assertAlmostEqual(way["sold_ratio"], way["sold"] / 2)
            self.assertAlmostEqual(way["net"], way["revenue"] - way["penalty"] - 0.4, places=6)
            self.assertTrue(0 <= way["broken"] <= 1 and 0 < way["device_use"] <= 1)
        self.assertEqual(plan["best"], max(ways, key=lambda way: way["net"]))
        again = subprocess.run([*arguments, "--json"], capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(again.stdout, done.stdout, "the same seed, the same plan")
        table = subprocess.run(arguments, capture_output=True, text=True, timeout=e2e.PATIENCE)
        self.assertEqual(table.returncode, 0, table.stderr)
        for text in ("NET/h", "static 1.5", "adaptive", "Best: " + plan["verdict"]):
            self.assertIn(text, table.stdout)

    def test_other_files_than_traces_are_refused(self):
        path = os.path.join(self.node.folder, "junk")
        with open(path, "wb") as file:
            file.write(b"\0" * 100)
        done = subprocess.run([e2e.WEIR, "sim", "replay", path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 9)
        self.assertIn(path, done.stderr)
        done = subprocess.run([e2e.WEIR, "plan", "--trace", path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 9)
        self.assertIn(path, done.stderr)
        done = subprocess.run([e2e.WEIR, "sim", "replay", path + "-absent"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    e2e.main()
