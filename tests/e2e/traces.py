# SPDX-License-Identifier: Apache-2.0
"""Shared by tests of recorded programs: three programs, and their traces."""
import os
import subprocess

import emulated
import weir_e2e as e2e


class Traces(emulated.WithEmulatedNode):
    PROGRAMS = {"phong": (e2e.PHONG, 50, 30), "bump": (e2e.BUMP, 30, 60), "texture": (e2e.TEXTURE, 20, 60)}

    def run_all(self):
        for name, (command, weight, fps) in self.PROGRAMS.items():
            self.node.create(name, weight=weight, fps=fps)
            self.start(command, name)
        for name in self.PROGRAMS:
            self.wait_frames(name)

    def record(self, seconds):
        traces = {name: os.path.join(self.node.folder, name + ".wtrace") for name in self.PROGRAMS}
        recorders = [subprocess.Popen([e2e.WEIR, "record", name, "--seconds", str(seconds), "--trace", trace, "--socket", self.node.socket],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for name, trace in traces.items()]
        for recorder in recorders:
            _, errors = recorder.communicate(timeout=seconds + 30)
            self.assertEqual(recorder.returncode, 0, errors.decode())
        return list(traces.values())
