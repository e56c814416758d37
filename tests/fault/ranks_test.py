#!/usr/bin/env python3
"""A rank that is killed in the middle of training is named, and the others end."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "flow"))
import runs

SECONDS_TO_END = 5
RANKS = 3


class KilledRank(runs.TestFolders, unittest.TestCase):
    def ranks_of(self, launcher):
        """The processes of the ranks, by rank."""
        found = {}
        for process in pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
            variables = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            found.update({int(variable[5:]): int(process) for variable in variables if variable.startswith(b"RANK=")})
        return found

    def kill(self, rank, trial, *options):
        output = self.folder / f"killed-{rank}-{trial}-{len(options)}"
        launcher = subprocess.Popen(runs.command("run", "-n", RANKS, runs.PROGRAM, "train", self.digits, "--output", output, *runs.SMALL, *options, "--max-epochs", "100000"),
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while not runs.of_kind(output, "step") and launcher.poll() is None:
            time.sleep(0.02)
        time.sleep(0.03 * trial)
        ranks = self.ranks_of(launcher.pid)
        self.assertEqual(len(ranks), RANKS)
        start = time.monotonic()
        os.kill(ranks[rank], signal.SIGKILL)
        printed = launcher.communicate(timeout=60)[0]
        self.assertLess(time.monotonic() - start, SECONDS_TO_END)
        self.assertEqual(launcher.returncode, 128 + signal.SIGKILL, printed)
        self.assertRegex(printed, rf"rank {rank} on \S+ \(process {ranks[rank]}\) was killed by signal 9")
        # By themselves, before the launcher asked them to.
        self.assertEqual(len(re.findall(rf"lockstep: rank {rank} \(process {ranks[rank]}\) on \S+ died", printed)), RANKS - 1, printed)
        for process in ranks.values():
            self.assertFalse(os.path.exists(f"/proc/{process}"))

    def test_each_rank(self):
        for rank in range(RANKS):
            for trial in range(2):
                with self.subTest(rank=rank, trial=trial):
                    self.kill(rank, trial)

    def test_while_gradients_travel_beside_backward(self):
        network = self.folder / "wide.json"
        network.write_text(json.dumps(runs.WIDE))
        for rank in range(RANKS):
            with self.subTest(rank=rank):
                self.kill(rank, 1, "--network", network)


if __name__ == "__main__":
    unittest.main(verbosity=2)
