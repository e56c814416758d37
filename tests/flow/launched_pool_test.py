#!/usr/bin/env python3
"""A program that opens pools, started by launchers: rank 0 is the client, the ranks are its workers. All begin, fail
and end together.

usage: launched_pool_test.py CUSTOM_LOOP FIT_ON_POOL [CLASS...]
"""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

import runs

CUSTOM_LOOP, FIT_ON_POOL = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
SECONDS_TO_END = 10


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def as_mpirun(rank, size):
    return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_SIZE": str(size),
            "PMIX_NAMESPACE": str(os.getpid())}


def as_srun(rank, size):
    return {"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": str(size), "SLURM_LOCALID": str(rank),
            "SLURM_STEP_TASKS_PER_NODE": str(size), "SLURM_JOB_ID": str(os.getpid())}


class Launched(runs.TestFolders):
    def start(self, words, environment=None):
        process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **(environment or {})})
        self.addCleanup(process.kill)
        return process

    def end(self, process, status=0):
        printed, said = process.communicate(timeout=runs.SECONDS_PER_RUN)
        self.assertEqual(process.returncode, status, said)
        return printed, said


class LaunchedPool(Launched, unittest.TestCase):
    def launch(self, count, *words, status=0):
        return self.end(self.start([runs.PROGRAM, "run", "-n", count, CUSTOM_LOOP, *words]), status)

    def alone(self):
        return self.end(self.start([CUSTOM_LOOP, self.digits, "--workers", 2, "--epochs", 1]))[0]

    def test_any_number_of_ranks(self):
        expected = self.alone()
        for count in (1, 3):
            self.assertEqual(self.launch(count, self.digits, "--epochs", 1)[0], expected)

    def test_fit_predict_evaluate_and_layer_outputs(self):
        """The table of on_pool/every_place_test.cpp, whose pools are the ranks here."""
        for count in (2, 3):
            words = [runs.PROGRAM, "run", "-n", count, FIT_ON_POOL,
                     "--gtest_filter=FitOnPool.EveryPlaceGivesWhatOneProcessGives"]
            self.assertIn("[  PASSED  ] 1 test", self.end(self.start(words))[0])

    def test_mpirun_and_srun(self):
        expected = self.alone()
        for variables in (as_mpirun, as_srun):
            with self.subTest(variables.__name__):
                port = {"MASTER_PORT": free_port()}
                ranks = [self.start([CUSTOM_LOOP, self.digits, "--epochs", 1], {**variables(rank, 2), **port})
                         for rank in (1, 0)]
                self.assertEqual([self.end(rank)[0] for rank in ranks], ["", expected])

    def test_another_number_of_workers_is_refused(self):
        said = self.launch(2, self.digits, "--workers", 3, status=2)[1]
        self.assertIn(
            "a pool of 3 cannot be opened: the launcher started 2 ranks, which are its workers\n  hint: start 3 ranks",
            said)

    def test_an_error_of_the_client_ends_all(self):
        said = self.launch(2, status=2)[1]
        self.assertIn("the arguments are not a folder of images and pairs", said)
        self.assertNotIn("[rank 1]", said)

    def test_an_error_of_a_rank_is_told_once(self):
        said = self.launch(2, self.folder / "nowhere", status=1)[1]
        self.assertEqual(said.count("nowhere"), 2, said)  # by rank 0, and among the launcher's last words of it


class LostRank(Launched, unittest.TestCase):
    """Whose seconds count."""

    def begin(self, count):
        """A training that would go on for long, its launcher and its ranks' processes."""
        launcher = self.start([runs.PROGRAM, "run", "-n", count, CUSTOM_LOOP, self.digits, "--epochs", 100000])
        self.assertIn("Epoch: 1,", launcher.stdout.readline())
        ranks = {}
        for process in pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split():
            variables = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            ranks.update({int(variable[5:]): int(process) for variable in variables if variable.startswith(b"RANK=")})
        self.assertEqual(sorted(ranks), list(range(count)))
        return launcher, ranks

    def lose(self, sent, rank, names):
        launcher, ranks = self.begin(3)
        own = pathlib.Path(f"/proc/{ranks[0]}/task/{ranks[0]}/children").read_text().split()
        started = time.monotonic()
        os.kill(ranks[rank], sent)
        printed, said = launcher.communicate(timeout=60)
        self.assertLess(time.monotonic() - started, SECONDS_TO_END)
        self.assertNotEqual(launcher.returncode, 0)
        for name in names:
            self.assertRegex(said, name.format(process=ranks[rank]))
        for process in [*ranks.values(), *own]:
            self.assertFalse(os.path.exists(f"/proc/{process}/exe"), said)

    def test_a_killed_rank_is_named(self):
        self.lose(signal.SIGKILL, 1,
                  [r"custom_loop: rank 1 \(process {process}\) on \S+ died", r"in train_by_hand, rank 1 of 3"])

    def test_a_stopped_rank_is_named(self):
        self.lose(signal.SIGSTOP, 2,
                  [r"custom_loop: rank 2 \(process {process}\) on \S+ said nothing for 3 s and was ended"])

    def test_a_killed_client_ends_all(self):
        self.lose(signal.SIGKILL, 0,
                  [r"\[rank 1\] rank 0 \(process {process}\) on \S+ died",
                   r"rank 0 on \S+ \(process {process}\) was killed by signal 9"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
