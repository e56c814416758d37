#!/usr/bin/env python3
"""The real torchrun starts our ranks; lockstep run starts ranks of torch.distributed.

usage: torchrun_test.py PROGRAM DIGITS CUSTOM_LOOP     with the Python that has PyTorch
"""

import os
import pathlib
import subprocess
import sys
import unittest

os.environ["LOCKSTEP_PROGRAM"], os.environ["LOCKSTEP_DIGITS"], CUSTOM_LOOP = sys.argv[1:4]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "flow"))
import runs

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]

SUM = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.full((3,), float(dist.get_rank() + 1))
dist.all_reduce(value)
print("sum", value.tolist(), flush=True)
dist.destroy_process_group()
"""


class Torchrun(runs.TestFolders, unittest.TestCase):
    def test_torchrun_starts_our_ranks(self):
        runs.train(self.digits, self.folder / "alone", *runs.SMALL)
        done = subprocess.run([*TORCHRUN, "--no-python", "--nproc-per-node", "2", *runs.command("train", self.digits, "--output", self.folder / "torchrun", *runs.SMALL)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(runs.weights(self.folder / "torchrun"), runs.weights(self.folder / "alone"))
        self.assertEqual(done.stdout.count("model saved in"), 1, "only rank 0 speaks")

    def test_torchrun_starts_the_workers_of_a_pool(self):
        def printed(*words):
            done = subprocess.run([*words, CUSTOM_LOOP, str(self.digits), "--epochs", "2"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 0, words)
            return done.stdout

        alone = printed()
        self.assertRegex(alone, r"^Epoch: 1, Loss: [0-9.]+\nEpoch: 2, Loss: [0-9.]+\naccuracy .* weights [0-9a-f]{16}\n$")
        self.assertEqual(printed(*TORCHRUN, "--no-python", "--nproc-per-node", "2"), alone, "only rank 0 speaks, and the weights are the same")

    def test_lockstep_run_starts_python_ranks(self):
        printed = runs.run("run", "-n", 2, sys.executable, "-c", SUM)
        self.assertIn("sum [3.0, 3.0, 3.0]\n", printed)
        self.assertIn("[rank 1] sum [3.0, 3.0, 3.0]\n", printed)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
