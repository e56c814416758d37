#!/usr/bin/env python3
"""Jobs of a real Slurm with more tasks than GPUs, with stand-ins for these: a task for each GPU trains, the others
decode images for them, and the weights are those of one thread. In a pool only workers that have a GPU train.

usage: gpus_on_slurm_test.py FOLDER-OF-STAND-INS FOLDER-OF-PROGRAMS"""

import pathlib
import re
import shutil
import sys
import unittest

import pools_on_slurm
import runs
import slurm

STAND_IN, PROGRAMS = (pathlib.Path(word).resolve() for word in (sys.argv[1], sys.argv[2]))
del sys.argv[1:3]
OPTIONS = [*runs.SMALL, "--gradient-clip", "1", "--augment", "shift", "--memory-share", "0"]


class GpusOnSlurm(pools_on_slurm.OnSlurm, unittest.TestCase):
    GPUS = 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # A program looks for the plug-in beside itself.
        cls.bin = cls.folder / "bin"
        cls.bin.mkdir()
        for file in (runs.PROGRAM, runs.PROGRAM.with_name("lockstep-engine"), PROGRAMS / "lockstep_example_white_paper",
                     STAND_IN / "liblockstep_cuda.so"):
            shutil.copy(file, cls.bin)
        (cls.folder / "tmp").mkdir()
        cls.on_gpus = {"program": str(cls.bin / "lockstep"),
                       "environment": [f"LD_LIBRARY_PATH={STAND_IN}", f"TMPDIR={cls.folder}/tmp"]}
        runs.train(cls.digits, cls.folder / "alone", *OPTIONS, "--execution", "cpu", "--workers", "1", "--batch-norm-group",
                   "1")

    def check(self, **keys):
        job = self.cluster.submit(self.folder / "jobs", f"gpus-{keys['nodes']}", "train",
                                  self.bin / "lockstep", "train", self.digits, *OPTIONS, **{**self.on_gpus, **keys})
        self.assertEqual(job.wait_until_over()["end"], "ended", job.said())
        self.assertEqual(runs.weights(job.run), runs.weights(self.folder / "alone"))
        self.assertIn("of each of 2 ranks", runs.plan_line(job.run, "workers"))
        self.assertRegex(runs.plan_line(job.run, "data loaders"), "2 no GPU is left for processes .* of the launcher")
        decoded = re.findall(r"(\d): decoded ([\d,]+) images? for rank (\d)", job.said())
        self.assertEqual(sorted(rank for _, _, rank in decoded), ["0", "1"], job.said())
        self.assertGreater(sum(int(count.replace(",", "")) for _, count, _ in decoded), 0)
        return [int(process) for process, _, _ in decoded]

    def test_two_of_four_tasks_load_data(self):
        self.assertEqual(sorted(self.check(nodes=1, workers=4, gpus=2)), [2, 3])

    def test_on_two_machines_one_of_two_tasks_loads_data(self):
        self.assertEqual(sorted(self.check(nodes=2, workers=4, gpus=1)), [1, 3])

    def test_in_a_pool_workers_with_a_gpu_train(self):
        words = [self.digits, "--network", "digits_cnn", "--image-size", "28x28", "--mini-batch-size", 20,
                 "--learning-rate", 0.01, "--max-epochs", 2, "--drop-period", 1, "--workers", 4, "--output"]
        self.write_profile("ours", **{**self.on_gpus, "nodes": 1, "workers": 4, "gpus": 2})
        self.addCleanup(self.write_profile, "ours", **self.PROFILE)
        output, errors = self.finish(self.start(self.bin / "lockstep_example_white_paper", *words, "runs/gpus"))
        self.assertIn("of each of 2 ranks", runs.plan_line(self.folder / "runs/gpus", "workers"), errors)
        self.assertIn("gpu", runs.plan_line(self.folder / "runs/gpus", "device"))
        self.assertRegex(output, "accuracy .* 4 workers, weights")


if __name__ == "__main__":
    slurm.require(*slurm.PROGRAMS)
    unittest.main()
