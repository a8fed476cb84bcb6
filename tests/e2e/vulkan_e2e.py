# SPDX-License-Identifier: Apache-2.0
"""Unmodified Vulkan programs on lavapipe pass the gate through the layer (docs/vulkan.md): frames of vkcube, batches of
a compute program. A busy host slows them down: what is compared is counted by the kernel or by the daemon, and the time is
that of frames which the host does not delay."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import emulated
import weir_e2e as e2e

COMPUTE = os.path.join(e2e.BUILD, "bin/vulkan_compute")
# For tests that count submits and compare results: a twentieth of the usual work in each.
SHORT = [COMPUTE, "--rounds", "1000"]
MEMORY = os.path.join(e2e.BUILD, "bin/vulkan_memory")
OUT_OF_DEVICE_MEMORY = -2
VALIDATION = {"VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation"}
PROCESSORS = len(os.sched_getaffinity(0))


def lavapipe():
    return {"VK_ICD_FILENAMES": ":".join(glob.glob("/usr/share/vulkan/icd.d/lvp_icd.*.json"))}


class WithVulkan(e2e.WithNode):
    def start(self, command, vgpu, environment=None, **options):
        return self.tenants.start(command, {**self.node.environment(vgpu), **lavapipe(), **(environment or {})}, **options)

    def finish(self, command, vgpu, environment=None):
        """Runs a program to its end. Returns its output."""
        process = self.start(command, vgpu, environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        out, _ = process.communicate(timeout=e2e.PATIENCE)
        self.assertEqual(process.returncode, 0, out)
        return out

    def weir(self, *arguments):
        return subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, *arguments], capture_output=True, text=True,
                              timeout=e2e.PATIENCE, env={**os.environ, **self.display.environment, **lavapipe()})

    def totals(self, vgpu, what="frames"):
        return self.node.vgpu(vgpu)["totals"][what]

    def measure_use(self, program):
        """The part of the processors that the workers of a running program of vGPU `a` use, from a second after its first
        frames on."""
        self.wait_frames("a")
        time.sleep(1)
        # A pause of the host beside a reading of the clock makes the use smaller: it is compared with upper bounds.
        start, before = time.monotonic(), e2e.worker_seconds(program.pid)
        time.sleep(5)
        return (e2e.worker_seconds(program.pid) - before) / (time.monotonic() - start) / PROCESSORS

    def frames_of(self, vgpu, wanted):
        """The number of frames of a program that has ended: its last records are read within a moment. If a busy host delays
        its first present, its first submits are batches and count, too."""
        e2e.wait_for(lambda: not self.node.vgpu(vgpu)["processes"], "the program's end is seen")
        self.assertGreaterEqual(self.totals(vgpu), wanted)
        self.assertLessEqual(self.totals(vgpu), wanted + wanted // 4)


class Layer(WithVulkan):
    """How the layer comes into a program."""

    def test_weir_run_activates_it(self):
        self.node.create("a")
        done = self.weir("run", "--vgpu", "a", "--", "vkcube", "--c", "40")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.frames_of("a", 40)

    def test_each_present_is_a_frame(self):
        self.node.create("a")
        self.finish(["vkcube", "--c", "40"], "a")
        self.frames_of("a", 40)

    def test_it_is_switched_off_by_its_variable(self):
        self.node.create("a")
        self.finish(["vkcube", "--c", "5"], "a", {"WEIR_DISABLE_VULKAN_LAYER": "1"})
        self.frames_of("a", 0)

    def test_without_its_variable_the_loader_does_not_load_it(self):
        environment = {**os.environ, **self.display.environment, **lavapipe(), "VK_LOADER_DEBUG": "all",
                       "XDG_DATA_DIRS": f"{e2e.DATA_DIRS}:{e2e.LAYER}"}
        run = lambda more: subprocess.run(["vkcube", "--c", "2"], env={**environment, **more}, capture_output=True,
                                          text=True, timeout=e2e.PATIENCE)
        self.assertIn("Insert instance layer \"VK_LAYER_WEIR_gate\"", run({"WEIR_VULKAN_LAYER": "1"}).stderr)
        self.assertNotIn("Insert instance layer \"VK_LAYER_WEIR_gate\"", run({}).stderr)

    def test_two_manifests_count_once(self):
        self.node.create("a")
        with tempfile.TemporaryDirectory() as folder:
            layers = os.path.join(folder, "vulkan/implicit_layer.d")
            os.makedirs(layers)
            [manifest] = glob.glob(os.path.join(e2e.LAYER, "vulkan/implicit_layer.d/*.json"))
            with open(manifest) as file:
                text = json.load(file)
            text["layer"]["library_path"] = os.path.join(e2e.BUILD, "lib/weir/libweir-vulkan.so")
            for name in ("VK_LAYER_WEIR_gate", "VK_LAYER_WEIR_gate_again"):  # the loader may drop a second layer of a name
                text["layer"]["name"] = name
                with open(os.path.join(layers, name + ".json"), "w") as file:
                    json.dump(text, file)
            self.finish(["vkcube", "--c", "40"], "a", {"XDG_DATA_DIRS": f"{folder}:{e2e.DATA_DIRS}:{e2e.LAYER}"})
        self.frames_of("a", 40)

    def test_the_users_layers_stay(self):
        if not glob.glob("/usr/share/vulkan/implicit_layer.d/MangoHud*.json"):
            self.skipTest("mangohud is not installed; scripts/install-deps --test brings it")
        self.node.create("a")
        program = self.start(["vkcube"], "a", {"MANGOHUD": "1", **VALIDATION})
        self.wait_frames("a")
        with open(f"/proc/{program.pid}/maps") as maps:
            loaded = maps.read()
        for library in ("libMangoHud.so", "libVkLayer_khronos_validation.so", "libweir-vulkan.so"):
            self.assertIn(library, loaded)

    def test_the_validation_layer_reports_nothing_new(self):
        """With timestamps, too, which are calls of the layer's own; lavapipe's are not used otherwise."""
        self.node.create("a")
        for command in (["vkcube", "--c", "60"], [*SHORT, "--submits", "40", "--timeline"]):
            reports = lambda out: set(re.findall(r"VUID[\w-]+|Validation Error|UNASSIGNED[\w-]+", out))
            alone = reports(self.finish(command, "a", {**VALIDATION, "WEIR_DISABLE_VULKAN_LAYER": "1"}))
            for meter in ("auto", "timer-query"):
                out = self.finish(command, "a", {**VALIDATION, "WEIR_METER": meter})
                self.assertLessEqual(reports(out), alone, out)

    def test_the_validation_layer_is_there_and_reports(self):
        """The test above can fail: a program that leaks is reported."""
        self.node.create("a")
        out = self.finish([COMPUTE, "--submits", "1", "--leak"], "a", VALIDATION)
        self.assertIn("VUID", out)

    def test_a_program_that_is_killed_leaves_nothing_behind(self):
        self.node.create("a")
        descriptors = lambda: len(os.listdir(f"/proc/{self.node.process.pid}/fd"))
        gone = lambda: not self.node.vgpu("a")["processes"]
        before = None
        for _ in range(3):  # a descriptor that each leaves is seen after the second pair
            for command in (["vkcube"], [COMPUTE]):
                program = self.start(command, "a")
                self.wait_frames("a", 5)
                self.tenants.stop(program)
                e2e.wait_for(gone, "the process leaves")
            before = before or descriptors()
        e2e.wait_for(lambda: descriptors() <= before, f"the daemon has {before} descriptors, as after the first pair")
        self.assertEqual(self.totals("a", "records_bad"), 0)

    def test_without_a_daemon_a_program_runs_unthrottled(self):
        self.node.create("a")
        environment = self.node.environment("a")
        self.node.kill()
        done = subprocess.run(["vkcube", "--c", "40"], env={**os.environ, **self.display.environment, **lavapipe(),
                                                            **environment}, timeout=e2e.PATIENCE, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)


class Frames(WithVulkan):
    """Programs that present."""

    def test_it_is_shown_as_held(self):
        self.node.create("a")
        program = self.start(["vkcube"], "a")
        self.wait_frames("a")
        [process] = self.node.vgpu("a")["processes"]
        self.tenants.stop(program)
        self.assertEqual((process["program"], process["api"], process["meter"], process["presents"]),
                         ("vkcube", "vulkan", "worker-cpu-time", True))
        self.assertIn("llvmpipe", process["renderer"])
        _, report = e2e.doctor(self.node, ["vkcube"], lambda vgpu: any(p["meter"] == "worker-cpu-time" for p in vgpu["processes"]),
                               {**os.environ, **self.display.environment, **lavapipe()})
        found = {finding["id"]: finding for finding in report["findings"]}
        self.assertIn("through weir's Vulkan layer", found["hooked"]["what"])
        self.assertIn("worker-cpu-time", found["meter"]["what"])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "frames.csv")
            done = self.weir("record", "--seconds", "2", "--out", path, "--", "vkcube")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path) as csv:
                self.assertIn("Vulkan", csv.read())

    def test_it_is_charged_what_its_workers_used(self):
        self.node.create("a")
        program = self.start(["vkcube", "--width", "800", "--height", "600"], "a")
        self.wait_frames("a")

        first_charged, first_used = self.at_rest(program)

        def charged_and_used():
            """Of at least a fifth of a second of a processor."""
            begun = e2e.worker_seconds(program.pid)
            e2e.wait_for(lambda: e2e.worker_seconds(program.pid) > begun + 0.2, "its workers work")
            charged, used = self.at_rest(program)
            return charged - first_charged, used - first_used

        def check(seconds):
            charged, used = seconds
            print(f"charged {charged:.3f} s, used {used:.3f} s")
            self.assertAlmostEqual(charged / used, 1, delta=0.05)

        emulated.settle(charged_and_used, 0, check)

    def at_rest(self, program):
        """What vGPU `a` was charged and what its program's workers have used, in seconds of the device: while the program is
        held at its gate, and both stand still."""
        self.assertEqual(self.node.call("POST", "/v1/vgpus/a/pause")[0], 200)

        def figures():
            return self.totals("a", "gpu_ns") / 1e9, e2e.worker_seconds(program.pid) / PROCESSORS

        def still():
            before = figures()
            time.sleep(0.5)
            return figures() == before and before

        found = e2e.wait_for(still, "nothing is used or charged any more")
        self.assertEqual(self.node.call("POST", "/v1/vgpus/a/resume")[0], 200)
        return found

    def test_it_keeps_to_its_cap(self):
        cap = 0.01  # less than the program gets on a host that does much other work
        self.node.create("a", cap=cap)
        program = self.start(["vkcube", "--width", "800", "--height", "600"], "a")
        use = self.measure_use(program)
        print(f"cap {cap}: {use:.4f}")
        self.assertLess(use, cap * 1.2)
        e2e.wait_for(lambda: self.totals("a", "wait_ns") > 0, "the program waits at its gate")

    def test_a_paused_program_stops(self):
        self.node.create("a")
        self.start(["vkcube"], "a")
        self.wait_frames("a")
        self.assertEqual(self.node.call("POST", "/v1/vgpus/a/pause")[0], 200)
        e2e.wait_for(lambda: self.node.vgpu("a")["window"]["frames"] == 0, "no frame in a second")
        self.assertEqual(self.node.call("POST", "/v1/vgpus/a/resume")[0], 200)
        self.wait_frames("a")


class Paced(WithVulkan):
    """A frame of vkcube takes a few milliseconds of the processors; promptly it has them beside other work."""

    def setUp(self):
        if emulated.run_promptly(True):
            self.addCleanup(emulated.run_promptly, False)
        super().setUp()

    def test_it_keeps_the_promised_rate(self):
        promised = 20
        self.node.create("a", fps=promised)
        self.node.policy("sla-aware")
        self.start(["vkcube"], "a")
        self.wait_frames("a")

        def last_frames():
            """How long each of the last hundred took, and how long without the time that Weir held it, in seconds."""
            said = self.node.get("/v1/vgpus/a/frames")
            frames = [dict(zip(said["columns"], frame)) for frame in said["frames"][-100:]]
            took = [(frame["end_ns"] - frame["begin_ns"]) / 1e9 for frame in frames]
            return took, [all - (frame["submit_ns"] - frame["present_ns"]) / 1e9 for all, frame in zip(took, frames)]

        def check(frames):
            took, own = frames
            self.assertEqual(len(took), 100)
            # A frame that takes longer than its interval by itself, as on a busy host, is not held; later ones make up for it.
            unheld = sum(max(1 / promised, one) for one in own)
            print(f"promised {promised}: {100 / sum(took):.2f} frames/s, and the host gave time for {100 / unheld:.2f}")
            self.assertLess(100 / sum(took), promised * 1.05)
            self.assertLess(sum(took), unheld * 1.05)

        # The host may wake the program late as well. A wrong rate stays wrong.
        emulated.settle(last_frames, 2, check)


class Computing(WithVulkan):
    """A program that never presents."""

    def test_its_submits_are_tasks(self):
        self.node.create("a")
        self.start([COMPUTE], "a")
        self.wait_frames("a")
        [process] = self.node.vgpu("a")["processes"]
        self.assertEqual((process["api"], process["meter"], process["presents"]), ("vulkan", "worker-cpu-time", False))
        shown = self.weir("vgpu", "show", "a").stdout
        self.assertIn("vulkan, off screen", shown)
        self.assertIn("tasks/s", shown)

    def test_it_keeps_to_its_cap(self):
        cap = 0.2
        self.node.create("a", cap=cap)
        program = self.start([COMPUTE], "a")
        use = self.measure_use(program)
        print(f"cap {cap}: {use:.4f}")
        self.assertGreater(use, 0)
        self.assertLess(use, cap * 1.2)

    def test_three_share_by_weight(self):
        weights = {"half": 50, "third": 30, "fifth": 20}
        for name, weight in weights.items():
            self.node.create(name, weight=weight)
        self.node.policy("proportional-share")
        # Two processes each: one waits at the gate also while a busy host gives the other no processor.
        for name in weights:
            for _ in range(2):
                self.start([COMPUTE], name)
        for name in weights:
            e2e.wait_for(lambda name=name: len(self.node.vgpu(name)["processes"]) == 2, "both are attached")
            self.wait_frames(name)
        before = self.node.gpu_ns()

        def shares():
            used = {name: ns - before[name] for name, ns in self.node.gpu_ns().items()}
            return {name: ns / sum(used.values()) for name, ns in used.items()}

        def check(got):
            print({name: round(share, 3) for name, share in got.items()})
            for name, weight in weights.items():
                self.assertAlmostEqual(got[name], weight / 100, delta=0.05)

        emulated.settle(shares, 5, check)

    def test_a_wait_before_the_signal_ends(self):
        """Each submit waits for a value that is signalled after it: the layer must not wait for the submit's end."""
        self.node.create("a", cap=0.5)
        self.assertIn("ok", self.finish([*SHORT, "--submits", "100", "--timeline"], "a"))

    def test_a_program_may_ask_for_vulkan_1_4(self):
        """Older loaders disable implicit layers that are for an older version than the program's, and newer ones warn."""
        self.node.create("a")
        out = self.finish([COMPUTE, "--submits", "1", "--vulkan-1-4"], "a", {"VK_LOADER_DEBUG": "warn,error"})
        self.assertNotIn("VK_LAYER_WEIR_gate", out)

    def test_instances_follow_each_other(self):
        self.node.create("a")
        self.assertIn("ok", self.finish([*SHORT, "--submits", "20", "--instances", "5"], "a"))


class Memory(WithVulkan):
    """What Vulkan programs get of the card's memory, by their own answers and by the daemon's."""
    LIMIT_MIB, BLOCK_MIB = 64, 4
    BLOCKS = LIMIT_MIB // BLOCK_MIB

    def program(self, vgpu="a", environment=None):
        program = self.start([MEMORY, str(self.BLOCK_MIB)], vgpu, environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stdin.close)
        return program

    def limited(self, name="a"):
        self.node.create(name, memory_max_bytes=self.LIMIT_MIB << 20)
        return self.program(name)

    def ask(self, program, line):
        program.stdin.write(line + "\n")
        program.stdin.flush()
        answer = program.stdout.readline()
        self.assertTrue(answer, "\n".join([f"{line}: the program has ended", *self.tenants.report()]))
        return [int(one) for one in answer.split()]

    def shown(self, vgpu="a"):
        return self.node.vgpu(vgpu)["use"]["program_memory_bytes"] >> 20

    def test_programs_get_exactly_the_limit_together(self):
        program = self.limited()
        self.assertEqual(self.ask(program, "fill"), [self.BLOCKS])
        self.assertEqual(self.shown(), self.LIMIT_MIB)
        self.assertEqual(self.ask(program, "take"), [OUT_OF_DEVICE_MEMORY])
        other = self.program()
        self.assertEqual(self.ask(other, "take"), [OUT_OF_DEVICE_MEMORY])
        self.assertEqual(self.ask(program, "free"), [0])
        self.assertEqual(self.ask(other, "take"), [0])
        self.assertEqual(self.ask(program, "fill"), [self.BLOCKS - 1])
        self.assertIn("programs hold 64M", self.weir("vgpu", "show", "a").stdout)
        other.kill()
        e2e.wait_for(lambda: self.shown() == self.LIMIT_MIB - self.BLOCK_MIB, "the end of the other one is seen")
        self.assertEqual(self.ask(program, "fill"), [1], "a killed program gives back what it held")

    def test_a_device_that_is_destroyed_gives_back_what_it_held(self):
        program = self.limited()
        for _ in range(2):
            self.assertEqual(self.ask(program, "fill"), [self.BLOCKS])
            self.assertEqual(self.ask(program, "new"), [0])
            self.assertEqual(self.shown(), 0)

    def test_memory_that_is_imported_counts_once(self):
        program = self.limited()
        self.assertEqual(self.ask(program, "shared"), [0])
        self.assertEqual(self.shown(), self.BLOCK_MIB)
        self.assertEqual(self.ask(program, "fill"), [self.BLOCKS - 1])

    def test_programs_are_shown_the_vgpus_memory(self):
        """Debian 12's lavapipe has no budget, so only the fake driver's is compared. Others count the use of the whole
        machine."""
        self.node.create("free")
        whole, has_budget, _ = self.ask(self.program("free"), "info")
        self.assertGreater(whole, self.LIMIT_MIB << 20)
        heap, budget, _ = self.ask(self.limited(), "info")
        self.assertEqual((heap, budget != 0), (self.LIMIT_MIB << 20, has_budget != 0))
        self.assertLessEqual(budget, heap)

    def test_a_program_that_only_allocates_presents_nothing(self):
        self.assertEqual(self.ask(self.limited(), "take"), [0])
        [process] = self.node.vgpu("a")["processes"]
        self.assertEqual((process["api"], process["presents"]), ("vulkan", False))

    def test_the_limit_changes_live(self):
        program = self.limited()
        self.assertEqual(self.ask(program, "fill"), [self.BLOCKS])
        for mib in (2 * self.LIMIT_MIB, self.LIMIT_MIB):
            status, body = self.node.call("PATCH", "/v1/vgpus/a", {"memory_max_bytes": mib << 20})
            self.assertEqual(status, 200, body)
            self.assertEqual(self.ask(program, "info")[0], mib << 20)
            self.assertEqual(self.ask(program, "fill"), [max(0, mib - self.LIMIT_MIB) // self.BLOCK_MIB])
        self.assertEqual(self.shown(), 2 * self.LIMIT_MIB, "nothing is taken away")

    def test_without_a_limit_or_a_gate_the_driver_decides(self):
        self.node.create("a")
        self.assertEqual(self.ask(self.program(), "take"), [0])
        e2e.wait_for(lambda: self.shown() == self.BLOCK_MIB, "it is counted")
        self.assertEqual(self.ask(self.program(environment={"WEIR_DISABLE_VULKAN_LAYER": "1"}), "take"), [0])
        self.assertEqual(self.shown(), self.BLOCK_MIB)

    def test_the_validation_layer_accepts_what_is_passed_on(self):
        self.node.create("a", memory_max_bytes=self.LIMIT_MIB << 20)
        program = self.start([MEMORY, str(self.BLOCK_MIB)], "a", VALIDATION, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        out, _ = program.communicate("fill\ninfo\nfree\ntake\n", timeout=e2e.PATIENCE)
        self.assertEqual((program.returncode, "VUID" in out), (0, False), out)


def main():
    for program in ("Xvfb", "vkcube"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is missing; scripts/install-deps --test brings it")
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
