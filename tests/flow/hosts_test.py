#!/usr/bin/env python3
"""Ranks on two machines train as one process does, over the network and without being asked to; one that is lost is
named."""

import contextlib
import os
import pathlib
import signal
import time
import unittest

import machines
import runs

OPTIONS = [*runs.SMALL, "--gradient-clip", "1", "--augment", "shift"]
SECONDS_TO_END = 6  # 5 to notice, and then to end


class OnTwoMachines(runs.TestFolders, unittest.TestCase):
    def variables(self, rank, port):
        return {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": machines.TwoMachines.address(0), "MASTER_PORT": str(port)}

    def start_ranks(self, pair, output, *options, port=29511, **more):
        command = runs.command("train", self.digits, "--output", output, *OPTIONS, *options)
        return [pair.start(rank, *command, environment={**self.variables(rank, port), **more}) for rank in range(2)]

    def test_same_weights(self):
        runs.train(self.digits, self.folder / "alone", *OPTIONS)
        with machines.TwoMachines() as pair:
            ranks = self.start_ranks(pair, self.folder / "two")
            printed = [rank.communicate(timeout=runs.SECONDS_PER_RUN)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], printed)
        self.assertIn("on each of 2 ranks, over gloo at 10.77.0.1", runs.plan_line(self.folder / "two", "workers"))
        self.assertEqual(runs.weights(self.folder / "two"), runs.weights(self.folder / "alone"))

    def test_memory_is_not_shared_between_machines(self):
        with machines.TwoMachines() as pair:
            ranks = self.start_ranks(pair, self.folder / "shared", "--communicator", "shared")
            printed = [rank.communicate(timeout=60)[0] for rank in ranks]
        for rank, text in zip(ranks, printed):
            self.assertEqual(rank.returncode, 2, text)
            self.assertIn("rank 1 is on machine-1 and rank 0 on machine-0, "
                          "and only ranks of one user on one machine share memory", text)

    def test_a_pool_on_both_needs_a_secret(self):
        example = pathlib.Path(runs.PROGRAM).parent / "lockstep_example_custom_loop"
        with machines.TwoMachines() as pair:
            ranks = [pair.start(rank, example, self.digits, environment=self.variables(rank, 29511))
                     for rank in range(2)]
            printed = [rank.communicate(timeout=60)[0] for rank in ranks]
        for rank, text in zip(ranks, printed):
            self.assertNotEqual(rank.returncode, 0)
            self.assertRegex(
                text, r"rank 1 on machine-1 cannot reach rank 0 on machine-0: .*\n +hint: ranks on several machines need "
                      r"a secret: .*LOCKSTEP_SECRET")

    def test_a_loopback_between_machines(self):
        with machines.TwoMachines() as pair:
            ranks = self.start_ranks(pair, self.folder / "loopback", GLOO_SOCKET_IFNAME="lo")
            printed = [rank.communicate(timeout=60)[0] for rank in ranks]
        for text in printed:
            self.assertRegex(
                text, r"rank 0 \(process \d+\) on machine-0 would be reached at 127.0.0.1, which no other machine can")

    def end_of_other(self, pair, ranks, rank, harm):
        """What the other rank says when this one is harmed in training, and after how many seconds it ends."""
        output = self.folder / f"harmed-{rank}-{harm.__name__}"
        ranks[:] = self.start_ranks(pair, output, "--max-epochs", "100000")
        while not runs.of_kind(output, "step") and ranks[0].poll() is None:
            time.sleep(0.02)
        start = time.monotonic()
        harm(pair, rank, ranks[rank])
        return ranks[1 - rank].communicate(timeout=60)[0], time.monotonic() - start

    def harmed(self, rank, harm, says):
        ranks = []
        with contextlib.ExitStack() as stack, machines.TwoMachines() as pair:
            # after the machines' end, which is that of all on them
            stack.callback(lambda: [(process.kill(), process.communicate()) for process in ranks])
            printed, seconds = self.end_of_other(pair, ranks, rank, harm)
            self.assertRegex(printed, rf"rank {rank} \(process \d+\) on machine-{rank} {says}")
            self.assertLess(seconds, SECONDS_TO_END, printed)

    def test_a_killed_rank_is_named(self):
        for rank in range(2):
            with self.subTest(rank=rank):
                self.harmed(rank, kill, "died")

    def test_a_stopped_rank_is_named(self):
        for rank in range(2):
            with self.subTest(rank=rank):
                self.harmed(rank, halt, "has given no sign of life for 4 s")

    def test_a_cut_wire_is_noticed(self):
        self.harmed(1, cut, "has given no sign of life for 4 s")


def processes_of(process):
    """A process and all that it started."""
    children = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [process, *(grandchild for child in children for grandchild in processes_of(int(child)))]


def kill(_pair, _rank, process):
    for one in processes_of(process.pid):
        os.kill(one, signal.SIGKILL)


def halt(_pair, _rank, process):
    for one in processes_of(process.pid):
        os.kill(one, signal.SIGSTOP)


def cut(pair, rank, _process):
    pair.run(rank, "ip", "link", "set", "wire", "down")


if __name__ == "__main__":
    machines.require_two_machines()
    unittest.main(verbosity=2)
