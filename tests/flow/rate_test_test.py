#!/usr/bin/env python3
"""--learning-rate auto: one rate and one set of weights for any number of workers and ranks, after stops and kills in
the test and after it. --fast-dev-run, and --detect-anomaly in a whole run."""

import json
import signal
import subprocess
import unittest

import runs

# The shortest run that has a test: 288 steps.
TESTED = ["--recipe", "plain", "--learning-rate", "auto", "--network", "lenet", "--image-size", "16x16",
          "--mini-batch-size", "7", "--max-steps", "288", "--label-smoothing", "0.1", "--checkpoint-every", "10",
          "--hash-every", "10"]
WORDS = "found by"


def found_rates(output):
    return [event["values"]["text"] for event in runs.of_kind(output, "message") if WORDS in event["values"]["text"]]


class RateTest(runs.TestFolders, unittest.TestCase):
    def setUp(self):
        self.options = ["--validation", self.held_out, *TESTED]

    def test_same_rate_and_weights_everywhere(self):
        found, said = set(), set()
        for workers in (1, 2, 5):
            output = self.folder / f"tested by {workers}"
            runs.train(self.digits, output, *self.options, "--workers", workers)
            found.add(runs.weights(output))
            said.update(found_rates(output))
            self.assertEqual(runs.of_kind(output, "end")[0]["step"], 288)
            self.assertEqual(len(found_rates(output)), 1)
            self.time_of_the_test_counts(output)
        ranks = self.folder / "tested by ranks"
        runs.run("run", "-n", 2, runs.PROGRAM, "train", self.digits, "--output", ranks, *self.options)
        found.add(runs.weights(ranks))
        said.update(found_rates(ranks))
        self.assertEqual((len(found), len(said)), (1, 1), said)
        self.stopped_and_resumed(found)
        self.killed_and_resumed(found, moment=1)
        self.killed_and_resumed(found, moment=30)

    def time_of_the_test_counts(self, output):
        (test, run), last = runs.of_kind(output, "shards"), runs.of_kind(output, "step")[-1]
        found = next(event for event in runs.of_kind(output, "message") if WORDS in event["values"]["text"])
        seconds = json.loads((output / "result.json").read_text())["seconds"]
        # Half of the test: between a look at the clock and an event this process may have to wait.
        self.assertGreater(seconds, last["time"] - run["time"] + (found["time"] - test["time"]) / 2)

    def stopped_and_resumed(self, expected):
        """The first stop is in the test."""
        output = self.folder / "tested in parts"
        runs.train(self.digits, output, *self.options, "--max-time", "0.000001", "--workers", 1)
        self.assertEqual(found_rates(output), [])
        self.assertTrue(runs.checkpoints(output))
        runs.run("train", self.digits, "--output", output, "--resume", "--max-time", "0.000001", "--workers", 3)
        runs.run("train", self.digits, "--output", output, "--resume", "--max-time", "0", "--workers", 2)
        self.assertEqual({runs.weights(output)}, expected)
        self.assertEqual(len(found_rates(output)), 1)

    def killed_and_resumed(self, expected, moment):
        """moment: the step of the run proper after which it is killed."""
        output = self.folder / f"killed after {moment}"
        process = subprocess.Popen(runs.command("train", self.digits, "--output", output, *self.options, "--workers", 2),
                                   stdout=subprocess.DEVNULL)
        try:
            runs.wait_for(lambda: process.poll() is not None or runs.steps_done(output) >= moment)
        finally:
            process.kill()
        self.assertEqual(process.wait(), -signal.SIGKILL, "the run was over before it could be killed")
        runs.train(self.digits, output, *self.options, "--resume", "--workers", 1)
        self.assertEqual({runs.weights(output)}, expected, f"killed after step {moment}")

    def test_a_short_run_says_that_it_has_no_test(self):
        output = self.folder / "short"
        runs.train(self.digits, output, *self.options, "--max-steps", 20)
        self.assertEqual(found_rates(output), [])
        self.assertIn("learning rate 0.01", runs.plan_line(output, "optimizer"))
        self.assertIn("too short for a test", runs.plan_line(output, "optimizer"))

    def test_frozen_features_are_computed_once(self):
        output = self.folder / "features"
        source = self.folder / "source"
        runs.train(self.digits, source, *runs.SMALL, "--network", "lenet", "--image-size", "16x16", "--max-steps", 2)
        printed = runs.train(self.digits, output, *TESTED, "--weights", source / "model.safetensors", "--head", "new",
                             "--freeze", "0,2", "--keep-features", "always", "--cache", "off")
        self.assertEqual(len(found_rates(output)), 1, printed)
        self.assertEqual(printed.count("frozen layers computed once"), 1, printed)


class Tries(runs.TestFolders, unittest.TestCase):
    def test_fast_dev_run_goes_through_everything_once(self):
        output = self.folder / "tried"
        printed = runs.train(self.digits, output, "--validation", self.held_out, "--test", self.held_out, "--fast-dev-run")
        end = runs.of_kind(output, "end")[0]
        self.assertEqual(end["step"], 1, printed)
        self.assertIsNotNone(end["values"]["test_accuracy"])
        self.assertEqual(len(runs.of_kind(output, "validation")), 1)
        self.assertTrue((output / "model.safetensors").exists())

    def test_a_few_mini_batches_of_data_that_are_split(self):
        for name, few in (("split-tried", ["--fast-dev-run"]), ("split-few", ["--limit-batches", "1", "--max-steps", "2"])):
            output = self.folder / name
            runs.train(self.digits, output, "--mini-batch-size", "16", *few)
            self.assertEqual(len(runs.of_kind(output, "validation")), 1 if few[0] == "--fast-dev-run" else 2)

    def test_a_report_of_folds_is_refused(self):
        printed = runs.train(self.digits, self.folder / "folds", "--validation-folds", "2", "--report", status=2)
        self.assertIn("lockstep report RUN/fold-1", printed)
        self.assertFalse((self.folder / "folds").exists())

    def test_anomalies_are_named_and_looking_for_them_changes_nothing(self):
        usual, watched, broken = (self.folder / name for name in ("usual", "watched", "broken"))
        runs.train(self.digits, usual, *runs.SMALL, "--max-steps", 4)
        runs.train(self.digits, watched, *runs.SMALL, "--max-steps", 4, "--detect-anomaly", "--workers", 2)
        self.assertEqual(runs.weights(watched), runs.weights(usual))
        printed = runs.train(self.digits, broken, *runs.SMALL, "--network", "lenet", "--image-size", "16x16",
                             "--learning-rate", "1e30", "--detect-anomaly", status=1)
        self.assertRegex(printed, r"(forward|backward) of layer \"\d+\" is the first that gave .* in step \d+, in shard \d")


if __name__ == "__main__":
    unittest.main(verbosity=2)
