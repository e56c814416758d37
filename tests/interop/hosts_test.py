#!/usr/bin/env python3
"""The real torchrun starts our ranks on two machines.

usage: hosts_test.py PROGRAM DIGITS     with the Python that has PyTorch
"""

import os
import pathlib
import sys
import unittest

os.environ["LOCKSTEP_PROGRAM"], os.environ["LOCKSTEP_DIGITS"] = sys.argv[1:3]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "flow"))
import machines
import runs

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


class TorchrunOnTwoMachines(runs.TestFolders, unittest.TestCase):
    def test_same_weights(self):
        runs.train(self.digits, self.folder / "alone", *runs.SMALL)
        command = runs.command("train", self.digits, "--output", self.folder / "two", *runs.SMALL)
        with machines.TwoMachines() as pair:
            nodes = [pair.start(node, *TORCHRUN, "--no-python", "--nnodes", "2", "--nproc-per-node", "2", "--node-rank",
                                str(node), "--master-addr", pair.address(0), "--master-port", "29512", *command)
                     for node in range(2)]
            printed = [node.communicate(timeout=180)[0] for node in nodes]
        self.assertEqual([node.returncode for node in nodes], [0, 0], printed)
        self.assertIn("on each of 4 ranks, over gloo at 10.77.0.1", runs.plan_line(self.folder / "two", "workers"))
        self.assertEqual(runs.weights(self.folder / "two"), runs.weights(self.folder / "alone"))


if __name__ == "__main__":
    machines.require_two_machines()
    unittest.main(argv=sys.argv[:1], verbosity=2)
