# SPDX-License-Identifier: Apache-2.0
"""A device whose memory is partly used by other processes, as NVIDIA's driver would report: tests/harness/fake_nvml.c
replaces NVML. That memory is not assigned to vGPUs. A program whose slots are taken away continues, and its bytes
are right."""
import os
import subprocess
import threading
import unittest

import weir_e2e as e2e

WATCH = os.path.join(e2e.BUILD, "lib/weir/weir-gpu-memory")
FAKE = os.path.join(e2e.BUILD, "lib/weir/libweir_fake_nvml.so")
SCENES = os.path.join(e2e.BUILD, "bin/opencl_scenes")
SLOT = 64 << 20
SLOTS = 8


class GpuMemory(unittest.TestCase):
    def setUp(self):
        self.node = e2e.Node("--quiet", "--device", "nvidia:GPU-0f0f0f0f-1111-2222-3333-444444444444", "--nvml-library", FAKE)
        self.addCleanup(self.node.close)
        self.file = os.path.join(self.node.folder, "nvml")
        os.environ["FAKE_NVML"] = self.file
        self.addCleanup(os.environ.pop, "FAKE_NVML")
        self.say(0)

    def start(self):
        self.node.start()
        status, body = self.node.call("PUT", "/v1/devices/gpu0/memory", {"size_bytes": SLOTS * SLOT, "params": {}})
        self.assertEqual(status, 200, body)

    def say(self, used):
        with open(self.file + ".new", "w") as file:
            file.write(f"{SLOTS * SLOT} {used}\n")
        os.replace(self.file + ".new", self.file)

    def slots(self):
        memory = self.node.get("/v1/devices/gpu0/memory")
        return memory["slots"], memory["others_slots"]

    def weir(self, *arguments):
        return subprocess.run([e2e.WEIR, "--run-dir", self.node.run_dir, *arguments], capture_output=True, text=True,
                              timeout=e2e.PATIENCE)

    def test_memory_of_others_is_not_assigned_and_returns(self):
        self.start()
        self.assertEqual(self.slots(), (8, 0))
        self.say(3 * SLOT - 1)
        e2e.wait_for(lambda: self.slots() == (5, 3), "three slots are others'")
        self.assertIn("3 (192M), of the device's 8 (512M)", self.weir("memory").stdout)
        texts = [event["text"] for event in self.node.get("/v1/events")["events"] if event["kind"] == "memory-others"]
        self.assertEqual(texts, ["other programs hold 3 of its 8 slots: 5 are shared out"])
        self.say(0)
        e2e.wait_for(lambda: self.slots() == (8, 0), "they are shared out again")

    def test_the_driver_may_be_lost_and_the_watch_killed(self):
        self.start()
        with open(self.file, "w") as file:
            file.write("lost\n")
        e2e.wait_for(lambda: "GPU is lost" in self.node.log_text(), "it is said")
        self.assertEqual(self.slots(), (8, 0))
        pid = subprocess.run(["pgrep", "-P", str(self.node.process.pid), "weir-gpu-memory"], capture_output=True, text=True).stdout
        os.kill(int(pid), 9)
        self.say(2 * SLOT)
        e2e.wait_for(lambda: self.slots() == (6, 2), "another watch says it")

    def test_a_program_goes_on_with_fewer_slots_and_its_bytes_are_right(self):
        self.start()
        for name in ("a", "b"):
            self.node.create(name, memory_min_bytes=SLOT, memory_max_bytes=4 * SLOT)
        others, ended = [0], threading.Event()

        def device():  # a driver's report: the memory of our programs, and of other processes
            while not ended.wait(0.05):
                self.say((others[0] + self.on_device()) * SLOT)

        thread = threading.Thread(target=device)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(ended.set)
        programs = []
        self.addCleanup(e2e.end_all, programs)
        for i, name in enumerate(("a", "b")):
            environment = {**os.environ, "OCL_ICD_VENDORS": os.path.join(e2e.BUILD, "lib/weir/icd"),
                           "WEIR_OPENCL": os.path.join(self.node.run_dir, "opencl", name + ".sock")}
            programs.append(subprocess.Popen([SCENES, "600", "192", "256", "450", "1", str(i), "4"], env=environment,
                                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        e2e.wait_for(lambda: self.on_device() > 4, "both have more than four slots")
        others[0] = 5
        e2e.wait_for(lambda: self.slots() == (3, 5), "five are others'")
        e2e.wait_for(lambda: self.on_device() <= 3, "what does not fit beside them is evicted")
        before = self.node.gpu_ns()
        for name in ("a", "b"):
            e2e.wait_for(lambda name=name: self.node.gpu_ns()[name] > before[name], f"{name} goes on")
        for program in programs:
            program.terminate()  # it checks everything, and ends
        for program in programs:
            out, err = program.communicate(timeout=180)
            self.assertEqual((program.returncode, "wrong 0" in out), (0, True), out + err + self.node.log_text())

    def on_device(self):
        return sum(v["memory"]["resident_slots"] for v in self.node.get("/v1/vgpus")["vgpus"])

    def test_an_unreadable_gpu_is_reported_with_a_reason(self):
        def ask(*arguments, **environment):
            return subprocess.run([WATCH, *arguments], capture_output=True, text=True, timeout=e2e.PATIENCE,
                                  env={**os.environ, **environment})

        for gpu in ("0", "00000000:65:00.0"):
            said = ask("--gpu", gpu, "--library", FAKE)
            self.assertEqual((said.returncode, said.stdout), (0, f"used 0 of {SLOTS * SLOT} bytes\n"), said.stderr)
        for arguments, environment, code, words in (
                (["--gpu", "1", "--library", FAKE], {}, 3, "no GPU '1'"),
                (["--gpu", "GPU-no", "--library", FAKE], {}, 3, "nvidia-smi -L"),
                (["--gpu", "0", "--library", "/none.so"], {}, 3, "driver is not installed"),
                (["--gpu", "0", "--library", "libm.so.6"], {}, 3, "lacks functions of NVML"),
                (["--gpu", "0", "--library", FAKE], {"FAKE_NVML": "/none"}, 8, "Driver Not Loaded"),
                (["--library", FAKE], {}, 2, "--gpu is needed"),
                (["--gpu", "0", "--control", "/x"], {}, 2, "go together")):
            said = ask(*arguments, **environment)
            self.assertEqual((said.returncode, said.stdout), (code, ""), said)
            self.assertIn(words, said.stderr)
        said = self.weir("serve", "--nvml-library", FAKE)
        self.assertEqual(said.returncode, 2, said)


if __name__ == "__main__":
    unittest.main()
