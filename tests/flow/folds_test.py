#!/usr/bin/env python3
"""Cross-validation: every sample is held out once, the weights are the same for any number of workers and after kills, a
part trained alone is the same run, and mean and deviation are those of the runs."""

import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import unittest

import runs

FOLDS = 3
OPTIONS = [*runs.SMALL, "--validation-folds", FOLDS]


def parts(output):
    return [output / f"fold-{fold}" for fold in range(1, FOLDS + 1)]


def weights(output):
    return [runs.weights(part) for part in parts(output)]


class Folds(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = cls.folder / "whole"
        cls.printed = runs.train(cls.digits, cls.whole, *OPTIONS, "--workers", 1)

    def test_each_part_is_a_run_and_the_scores_are_theirs(self):
        accuracies = [json.loads((part / "result.json").read_text())["accuracy"] for part in parts(self.whole)]
        found = json.loads((self.whole / "folds.json").read_text())
        self.assertAlmostEqual(found["accuracy"]["mean"], statistics.mean(accuracies), 12)
        self.assertAlmostEqual(found["accuracy"]["standard_deviation"], statistics.pstdev(accuracies), 12)
        self.assertIn(f"held-out accuracy {statistics.mean(accuracies):.4f}, standard deviation "
                      f"{statistics.pstdev(accuracies):.4f} ({', '.join(f'{one:.4f}' for one in accuracies)})",
                      self.printed)
        listed = runs.run("runs", self.whole)
        for part in parts(self.whole):
            self.assertIn(part.name, listed)
        self.assertIn("name one of its runs: ", runs.run("report", self.whole, status=1))

    def test_every_sample_is_held_out_once(self):
        held_out = [int(re.match("[0-9,]+", runs.plan_line(part, "held out"))[0].replace(",", ""))
                    for part in parts(self.whole)]
        self.assertEqual(sum(held_out), 203)
        self.assertLessEqual(max(held_out) - min(held_out), 1)
        judged = runs.run("report", parts(self.whole)[1], "--output", self.folder / "report.html")
        self.assertIn("report", judged)

    def test_same_weights_for_any_workers_and_alone(self):
        other = self.folder / "five workers"
        runs.train(self.digits, other, *OPTIONS, "--workers", 5)
        self.assertEqual(weights(other), weights(self.whole))
        ranks = self.folder / "ranks"
        runs.run("run", "-n", 2, runs.PROGRAM, "train", self.digits, "--output", ranks, *OPTIONS)
        self.assertEqual(weights(ranks), weights(self.whole))
        alone = self.folder / "alone"
        runs.train(self.digits, alone, *OPTIONS, "--fold", 2, "--workers", 2)
        self.assertEqual(runs.weights(alone), weights(self.whole)[1])
        self.assertEqual(len(set(weights(self.whole))), FOLDS)

    def test_it_is_continued_after_a_kill_and_a_stop(self):
        killed = self.folder / "killed"
        with subprocess.Popen(runs.command("train", self.digits, "--output", killed, *OPTIONS, "--checkpoint-every", 1),
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as one:
            runs.wait_for(lambda: runs.checkpoints(killed / "fold-2"))
            one.send_signal(signal.SIGKILL)
        with subprocess.Popen(runs.command("train", self.digits, "--output", killed, "--resume"),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as one:
            runs.wait_for(lambda: (killed / "fold-3" / "options.json").exists())
            one.send_signal(signal.SIGINT)
            printed = one.communicate(timeout=runs.SECONDS_PER_RUN)[0].decode()
        self.assertIn(one.returncode, (0, 130), printed)
        runs.run("train", self.digits, "--output", killed, "--resume", "--workers", 1)
        self.assertEqual(weights(killed), weights(self.whole))
        self.assertIn("mean", json.loads((killed / "folds.json").read_text())["accuracy"])

    def test_it_is_continued_when_a_rank_was_killed(self):
        output = self.folder / "restarted"
        words = runs.command("run", "-n", 2, "--max-restarts", 1, runs.PROGRAM, "train", self.digits,
                             "--output", output, *OPTIONS, "--checkpoint-every", 1)
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as launcher:
            runs.wait_for(lambda: runs.checkpoints(output / "fold-2") or launcher.poll() is not None)
            ranks = [int(rank) for tasks in pathlib.Path(f"/proc/{launcher.pid}/task").glob("*/children")
                     for rank in tasks.read_text().split()]
            os.kill(ranks[0], signal.SIGKILL)
            printed = launcher.communicate(timeout=runs.SECONDS_PER_RUN)[0].decode()
        self.assertEqual(launcher.returncode, 0, printed)
        self.assertIn("all are started again (1 of 1)", printed)
        self.assertEqual(weights(output), weights(self.whole))

    def test_what_max_time_ends_has_a_score_and_goes_on_only_with_more_time(self):
        output, limited = self.folder / "limited", ["--max-time", "0.001"]
        runs.train(self.digits, output, *OPTIONS, *limited)
        first = json.loads((output / "folds.json").read_text())
        self.assertEqual([run["reason"] for run in first["folds"]], ["max-time"] * FOLDS)
        self.assertIsNotNone(first["accuracy"]["mean"])
        kept = [runs.sha256(part / "model.safetensors") for part in parts(output)]
        for launcher in ((), ("run", "-n", 2, runs.PROGRAM)):
            runs.run(*launcher, "train", self.digits, "--output", output, "--resume", *limited)
            self.assertEqual(json.loads((output / "folds.json").read_text())["folds"], first["folds"])
        self.assertEqual([runs.sha256(part / "model.safetensors") for part in parts(output)], kept)
        runs.run("train", self.digits, "--output", output, "--resume")
        self.assertEqual(weights(output), weights(self.whole))

    def test_what_cannot_be_is_refused(self):
        for words, reason in ((["--validation-folds", 1], "two or more"), (["--fold", 2], "two or more"),
                              (["--validation-folds", 3, "--fold", 4], "from 1 to K"),
                              (["--validation-folds", 3, "--validation-count-per-class", 2], "both say what is held out"),
                              (["--validation-folds", 3, "--validation", self.held_out], "leave out one of them"),
                              (["--validation-folds", 500], "as many as there are samples")):
            output = self.folder / "refused"
            self.assertIn(reason, runs.train(self.digits, output, *words, status=2))
            self.assertFalse(output.exists(), words)
        self.assertIn("differs from the run's",
                      runs.run("train", self.digits, "--output", self.whole, "--resume", "--seed", 7, status=2))
        self.assertIn("is several runs", runs.run("plan", self.digits, "--validation-folds", 4, status=2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
