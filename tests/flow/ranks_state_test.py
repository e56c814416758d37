#!/usr/bin/env python3
"""What is kept for a replica or a stream belongs to one rank: averaging mode and carried states give the weights of one
process, also when a run goes on with other ranks."""

import json
import unittest

import runs
import sequences

AVERAGE = [*runs.SMALL, "--exchange", "average", "--shards", "4", "--mini-batch-size", "8", "--averaging-frequency",
           "3"]
OUTER = ["--average-updaters=false", "--optimizer", "adam", "--outer-optimizer", "nesterov", "--gradient-clip", "0.5"]
LAYERS = [{"type": "gru", "hidden": 5, "layers": 2, "output": "sequence"}, {"type": "lstm", "hidden": 4},
          {"type": "linear", "features": "classes"}]
PIECES = ["--mini-batch-size", "10", "--shards", "4", "--max-epochs", "1", "--tbptt-length", "5", "--accumulate", "2"]


class RanksState(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.streams, cls.network = cls.folder / "streams.ts", cls.folder / "network.json"
        sequences.write_ts(cls.streams, 50, seed=1)
        cls.network.write_text(json.dumps(LAYERS))
        cls.settings = {"averages": (cls.digits, ["--validation", cls.held_out, *AVERAGE]),
                        "outer steps, states kept": (cls.digits,
                                                     ["--validation", cls.held_out, *AVERAGE, *OUTER,
                                                      "--checkpoint-every", "1"]),
                        "warm-up, PyTorch's order": (cls.digits,
                                                     ["--validation", cls.held_out, *AVERAGE, *OUTER,
                                                      "--averaging-warmup-steps", "4", "--sample-order",
                                                      "distributed-sampler"]),
                        "carried states": (cls.streams, ["--network", cls.network, *PIECES])}

    def over(self, ranks, folder, output, *options):
        return runs.run("run", "-n", ranks, runs.PROGRAM, "train", folder, "--output", output, *options)

    def alone(self, name):
        folder, options = self.settings[name]
        output = self.folder / f"{name} alone"
        if not output.exists():
            runs.train(folder, output, *options, "--workers", "2")
        return runs.weights(output)

    def test_same_weights(self):
        for name, (folder, options) in self.settings.items():
            for ranks, more in ((2, ["--communicator", "gloo"]),
                                (5, [])) if name == "averages" else ((3, ["--workers", "2"]),):
                with self.subTest(name, ranks=ranks):
                    output = self.folder / f"{name} {ranks}"
                    self.over(ranks, folder, output, *options, *more)
                    self.assertEqual(runs.weights(output), self.alone(name))

    def test_resume_with_other_ranks(self):
        for name, (folder, options) in self.settings.items():
            with self.subTest(name):
                output = self.folder / f"{name} in parts"
                self.over(2, folder, output, *options, "--max-time", "0.001")
                for step, ranks in ((2, 3), (3, 1)):
                    self.over(ranks, folder, output, "--resume", "--max-time", "0.001")
                    self.assertEqual(runs.checkpoint_step(runs.checkpoints(output)[-1]), step)
                runs.train(folder, output, "--resume", "--workers", "2")
                self.assertEqual(runs.weights(output), self.alone(name))

    def test_replicas_are_the_workers_of_all_ranks_when_nobody_says(self):
        output = self.folder / "replicas"
        self.over(3, self.digits, output, *runs.SMALL[:4], "--exchange", "average", "--max-steps", "1")
        self.assertRegex(runs.plan_line(output, "replicas"), "^3 one for each worker")


if __name__ == "__main__":
    unittest.main(verbosity=2)
