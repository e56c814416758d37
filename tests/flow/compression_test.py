#!/usr/bin/env python3
"""Gradients in fewer bits: ranks keep equal weights and learn, and the plan says that their number counts; the number
of their workers does not."""

import unittest

import runs

OPTIONS = ["--image-size", "12x12", "--mini-batch-size", "32", "--shards", "8", "--max-epochs", "8", "--patience", "0",
           "--hash-every", "1"]


class Compression(runs.TestFolders, unittest.TestCase):
    def train(self, exchange, communicator):
        output = self.folder / f"{exchange}-{communicator}"
        runs.run("run", "-n", 2, runs.PROGRAM, "train", self.digits, "--validation", self.held_out, "--output", output,
                 *OPTIONS, "--exchange", exchange, "--communicator", communicator)
        return output

    def accuracy(self, output):
        return max(event["values"]["accuracy"] for event in runs.of_kind(output, "validation"))

    def test_learns_as_well(self):
        whole = self.train("tree", "shared")
        for exchange in ("bf16", "fp16", "powersgd"):
            with self.subTest(exchange=exchange):
                output = self.train(exchange, "shared")
                self.assertTrue(runs.plan_line(output, "same weights").startswith("no "))
                self.assertNotEqual(runs.weights(output), runs.weights(whole))
                self.assertGreater(self.accuracy(output), self.accuracy(whole) - 0.1)
                self.assertEqual(runs.weights(self.train(exchange, "gloo")), runs.weights(output), "over any wire")

    def test_the_workers_of_a_rank_change_no_bit(self):
        options = [*OPTIONS, "--max-epochs", "1", "--max-steps", "3", "--normalize", "mean-std", "--gradient-clip", "1"]
        for exchange in ("bf16", "fp16", "powersgd"):
            expected = {}
            # 8 shards over 3 ranks: 3, 3 and 2
            for ranks, workers in runs.some([(1, 1), (1, 3), (3, 1), (3, 2)], [(1, 2), (1, 5)]):
                with self.subTest(exchange=exchange, ranks=ranks, workers=workers):
                    output = self.folder / f"{exchange}-{ranks}-{workers}"
                    launcher = ("run", "-n", ranks, runs.PROGRAM) if ranks > 1 else ()
                    runs.run(*launcher, "train", self.digits, "--validation", self.held_out, "--output", output,
                             *options, "--exchange", exchange, "--workers", workers)
                    self.assertEqual(runs.weights(output), expected.setdefault(ranks, runs.weights(output)))
                    self.assertIn("for any number of workers of a rank", runs.plan_line(output, "same weights"))
            self.assertNotEqual(expected[1], expected[3], "a rank rounds its own sum")

    def test_other_ranks_do_not_go_on(self):
        output = self.folder / "two ranks"
        options = ["--mini-batch-size", "32", "--shards", "4", "--max-steps", "6"]
        runs.run("run", "-n", 2, runs.PROGRAM, "train", self.digits, "--output", output, *options, "--exchange", "bf16",
                 "--max-time", "0.001")
        said = runs.run("train", self.digits, "--output", output, "--resume", status=2)
        self.assertIn("the checkpoint is of another run: its number of ranks was 2 and is now 1", said)
        self.assertIn("hint: start 2 ranks again (lockstep run -n 2)", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
