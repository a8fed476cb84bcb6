# SPDX-License-Identifier: Apache-2.0
"""Programs that multiply matrices (tests/programs/opencl_product.c) as tenants of a node: shared by tests of launches
in parts."""
import os
import re
import subprocess

import weir_e2e as e2e

PRODUCT = os.path.join(e2e.BUILD, "bin/opencl_product")


class Products:
    """A mixin for test cases: `here` is the node, `programs` are ended with the test."""

    def start(self, vgpu, *arguments):
        environment = {**os.environ, "OCL_ICD_VENDORS": os.path.join(e2e.BUILD, "lib/weir/icd"),
                       "WEIR_OPENCL": os.path.join(self.here.run_dir, "opencl", vgpu + ".sock")}
        program = subprocess.Popen([PRODUCT, *arguments], env=environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.programs.append(program)
        return program

    def sum_of(self, program):
        """Waits for the end and returns the checksum of the result."""
        out, err = program.communicate(timeout=e2e.PATIENCE)
        self.assertEqual((program.returncode, "wrong 0" in out), (0, True), out + err + self.here.log_text())
        return re.search(r"sum (\w+)", out).group(1)
