#!/usr/bin/env python3
"""A rank that is killed or stopped in the middle of training is named, and the others end."""

import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "flow"))
import runs

SECONDS_TO_END = 5
RANKS = 3


class HarmedRank(runs.TestFolders, unittest.TestCase):
    def ranks_of(self, launcher):
        """The processes of the ranks, by rank."""
        found = {}
        for process in pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
            variables = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            found.update({int(variable[5:]): int(process) for variable in variables if variable.startswith(b"RANK=")})
        return found

    def start(self, name, communicator, *options):
        """A launcher of ranks that train, and the ranks' processes."""
        output = self.folder / name
        launcher = subprocess.Popen(runs.command("run", "-n", RANKS, runs.PROGRAM, "train", self.digits, "--output",
                                                 output, *runs.SMALL, *options, "--max-epochs", "100000",
                                                 "--communicator", communicator),
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True)
        while not runs.of_kind(output, "step") and launcher.poll() is None:
            time.sleep(0.02)
        ranks = self.ranks_of(launcher.pid)
        self.assertEqual(len(ranks), RANKS)
        return launcher, ranks

    def kill(self, rank, trial, communicator, *options):
        launcher, ranks = self.start(f"killed-{rank}-{trial}-{communicator}-{len(options)}", communicator, *options)
        time.sleep(0.03 * trial)
        start = time.monotonic()
        os.kill(ranks[rank], signal.SIGKILL)
        printed = launcher.communicate(timeout=60)[0]
        self.assertLess(time.monotonic() - start, SECONDS_TO_END)
        self.assertEqual(launcher.returncode, 128 + signal.SIGKILL, printed)
        self.assertRegex(printed, rf"rank {rank} on \S+ \(process {ranks[rank]}\) was killed by signal 9")
        # By themselves, before the launcher asked them to.
        self.assertEqual(len(re.findall(rf"lockstep: rank {rank} \(process {ranks[rank]}\) on \S+ died", printed)),
                         RANKS - 1, printed)
        for process in ranks.values():
            self.assertFalse(os.path.exists(f"/proc/{process}"))

    def stop(self, rank, communicator, *options):
        launcher, ranks = self.start(f"stopped-{rank}-{communicator}-{len(options)}", communicator, *options)
        start = time.monotonic()
        os.kill(ranks[rank], signal.SIGSTOP)
        noted = []
        for line in launcher.stdout:
            noted += [time.monotonic() - start] if re.search(
                rf"rank {rank} \(process {ranks[rank]}\) on \S+ has given no sign of life for 4 s", line) else []
        self.assertEqual(launcher.wait(timeout=60), 1, "130 means interrupted")
        launcher.stdout.close()
        self.assertGreaterEqual(len(noted), RANKS - 1)
        self.assertLess(noted[0], SECONDS_TO_END)
        for process in ranks.values():
            self.assertFalse(os.path.exists(f"/proc/{process}"))

    def test_each_rank_killed(self):
        kills = [("shared", 0, 0), ("shared", 1, 1), ("shared", 2, 0), ("gloo", 0, 1), ("gloo", 2, 0)]
        every = itertools.product(("shared", "gloo"), range(RANKS), range(2))
        for communicator, rank, trial in runs.some(kills, [kill for kill in every if kill not in kills]):
            with self.subTest(rank=rank, trial=trial, communicator=communicator):
                self.kill(rank, trial, communicator)

    def test_while_replicas_train_by_themselves(self):
        averaging = ["--exchange", "average", "--averaging-frequency", "3"]
        self.kill(1, 1, "shared", *averaging)
        self.stop(1, "shared", *averaging)

    def two_ranks(self, communicator):
        """That train without a launcher."""
        output = self.folder / f"left-{communicator}"
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        ranks = [subprocess.Popen(runs.command("train", self.digits, "--output", output, *runs.SMALL,
                                               "--max-epochs", "100000", "--communicator", communicator),
                                  stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2",
                                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
                 for rank in range(2)]
        for rank in ranks:
            self.addCleanup(rank.kill)
        while not runs.of_kind(output, "step") and ranks[0].poll() is None:
            time.sleep(0.02)
        return ranks

    def test_ranks_that_are_left_end_with_status_1(self):
        # Without a launcher that ends them all. Both pairs wait at the same time.
        pairs = {communicator: self.two_ranks(communicator) for communicator in ("shared", "gloo")}
        for _, stopped in pairs.values():
            stopped.send_signal(signal.SIGSTOP)
        for communicator, (left, stopped) in pairs.items():
            with self.subTest(communicator=communicator):
                printed = left.communicate(timeout=60)[0]
                self.assertEqual(left.returncode, 1, printed)
                self.assertRegex(printed,
                                 rf"lockstep: rank 1 \(process {stopped.pid}\) on \S+ has given no sign of life for 4 "
                                 r"s")
                stopped.kill()
                stopped.communicate()

    def test_a_killed_launcher_leaves_nothing_of_ranks_that_are_shells(self):
        output = self.folder / "shells"
        output.mkdir()
        launcher = subprocess.Popen(runs.command("run", "-n", RANKS, "sh", "-c", f"sleep 600 & echo $! >{output}/$RANK; wait"),
                                    stdin=subprocess.DEVNULL)
        files = [output / str(rank) for rank in range(RANKS)]
        runs.wait_for(lambda: all(file.exists() and file.read_text().endswith("\n") for file in files))
        launcher.kill()
        launcher.wait()
        for file in files:
            stat = pathlib.Path("/proc", file.read_text().strip(), "stat")
            # Whoever adopts it may leave it a zombie.
            runs.wait_for(lambda: not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z")

    def test_a_stopped_rank(self):
        for rank, communicator in runs.some([(2, "shared"), (0, "gloo")], [(0, "shared"), (1, "gloo")]):
            with self.subTest(rank=rank, communicator=communicator):
                self.stop(rank, communicator)

    def test_while_gradients_travel_beside_backward(self):
        network = self.folder / "wide.json"
        network.write_text(json.dumps(runs.WIDE))
        for rank in runs.some([1], [0, 2]):
            with self.subTest(rank=rank):
                self.kill(rank, 1, "shared", "--network", network)


if __name__ == "__main__":
    unittest.main(verbosity=2)
