# SPDX-License-Identifier: Apache-2.0
"""Shared by tests of OpenCL programs as tenants: a node, and programs with its client library."""
import os
import subprocess

import weir_e2e as e2e

LOOP = os.path.join(e2e.BUILD, "bin/opencl_loop")


def loop(seconds, items=1 << 16, rounds=2000, ahead=4, rest_ms=0, mark=False, whole=False):
    return [LOOP, str(seconds), str(items), str(rounds), str(ahead), str(rest_ms), str(int(mark)), str(int(whole))]


def at_work(seconds=600):
    """A program that computes a little and rests: for tests that need a tenant at work, and not all of the processors."""
    return loop(seconds, rounds=200, rest_ms=20)


def executors_of(node, vgpu):
    """The pids of a vGPU's executors."""
    return [p["pid"] for p in node.vgpu(vgpu)["processes"] if p["api"] == "opencl"]


class OpenClTenants(e2e.WithNode):
    def environment(self, name):
        return {**self.node.environment(name), "WEIR_OPENCL": os.path.join(self.node.run_dir, "opencl", name + ".sock"),
                "OCL_ICD_VENDORS": os.path.join(e2e.BUILD, "lib/weir/icd")}

    def start(self, command, vgpu, **options):
        return self.tenants.start(command, self.environment(vgpu), **options)

    def run_to_end(self, command, vgpu, seconds=e2e.PATIENCE):
        done = subprocess.run(command, env={**os.environ, **self.environment(vgpu)}, capture_output=True, text=True,
                              timeout=seconds)
        return done.returncode, done.stdout, done.stderr

    def wait_busy(self, vgpu, seconds=e2e.PATIENCE):
        first = self.node.vgpu(vgpu)["totals"]["gpu_ns"]
        e2e.wait_for(lambda: self.node.vgpu(vgpu)["totals"]["gpu_ns"] > first, f"{vgpu} computes", seconds=seconds)
