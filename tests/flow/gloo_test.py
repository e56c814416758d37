#!/usr/bin/env python3
"""Ranks that talk over the network have the weights of one process."""

import unittest

import runs

OPTIONS = [*runs.SMALL, "--gradient-clip", "1", "--augment", "shift"]


class OverGloo(runs.TestFolders, unittest.TestCase):
    def alone(self):
        output = self.folder / "alone"
        if not output.exists():
            runs.train(self.digits, output, *OPTIONS, "--workers", 2)
        return runs.weights(output)

    def test_same_weights(self):
        for ranks, options in [(1, []), (2, []), (3, []), (2, ["--workers", 2])]:
            with self.subTest(ranks=ranks, options=options):
                output = self.folder / f"ranks-{ranks}-{len(options)}"
                runs.run("run", "-n", ranks, runs.PROGRAM, "train", self.digits, "--output", output, *OPTIONS, *options,
                         "--communicator", "gloo")
                self.assertEqual(runs.weights(output), self.alone())
                self.assertIn(f"on each of {ranks} ranks, over gloo at 127.0.0.1", runs.plan_line(output, "workers"))

    def test_ranks_that_ask_for_different_things(self):
        script = (f'[ $RANK = 1 ] && kind=gloo || kind=shared; exec "{runs.PROGRAM}" train "{self.digits}" --output '
                  f'"{self.folder / "mixed"}" --max-steps 3 --communicator $kind')
        self.assertRegex(runs.run("run", "-n", 2, "sh", "-c", script, status=2),
                         r"rank 1 \(process \d+\) on \S+ has --communicator gloo and rank 0 shared")

    def test_an_interface_that_is_not_there(self):
        printed = runs.run("run", "-n", 2, runs.PROGRAM, "train", self.digits, "--output", self.folder / "none",
                           "--communicator", "gloo", status=1, environment={"GLOO_SOCKET_IFNAME": "wire9"})
        self.assertRegex(printed,
                         r'rank 0 \(process \d+\) on \S+ has no address for the others: no network interface "wire9" '
                         r'that is up')


if __name__ == "__main__":
    unittest.main(verbosity=2)
