#!/usr/bin/env python3
"""Gradients in fewer bits: ranks keep equal weights and learn, and the plan says that their number counts."""

import unittest

import runs

OPTIONS = ["--image-size", "12x12", "--mini-batch-size", "32", "--shards", "8", "--max-epochs", "8", "--patience", "0", "--hash-every", "1"]


class Compression(runs.TestFolders, unittest.TestCase):
    def train(self, exchange, communicator):
        output = self.folder / f"{exchange}-{communicator}"
        runs.run("run", "-n", 2, runs.PROGRAM, "train", self.digits, "--validation", self.held_out, "--output", output, *OPTIONS, "--exchange", exchange, "--communicator", communicator)
        return output

    def accuracy(self, output):
        return max(event["values"]["accuracy"] for event in runs.of_kind(output, "validation"))

    def test_learns_as_well(self):
        whole = self.train("tree", "shared")
        for exchange in ("bf16", "powersgd"):
            with self.subTest(exchange=exchange):
                output = self.train(exchange, "shared")
                self.assertTrue(runs.plan_line(output, "same weights").startswith("no "))
                self.assertNotEqual(runs.weights(output), runs.weights(whole))
                self.assertGreater(self.accuracy(output), self.accuracy(whole) - 0.1)
                self.assertEqual(runs.weights(self.train(exchange, "gloo")), runs.weights(output), "over any wire")


if __name__ == "__main__":
    unittest.main(verbosity=2)
