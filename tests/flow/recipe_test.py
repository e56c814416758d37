#!/usr/bin/env python3
"""The recipe: the same weights for any number of workers and after stops, also where a run starts again; runs of before
there were recipes; what is said about a loss that explodes or stands still."""

import json
import random
import shutil
import unittest

import runs

# Inputs a hundred times too large for a network without batch norms, and a rate that nobody gave.
EXPLODES = ["--network", "lenet", "--optimizer", "sgdm", "--normalize", "0,0.01", "--image-size", "16x16",
            "--max-epochs", "8", "--validate-every", "4", "--checkpoint-every", "4"]


def values(output):
    recipe = json.loads((output / "options.json").read_text())["plan"]["recipe"]
    return {value["option"]: value["value"] for value in recipe["recipe_values"]}


def said(output, words):
    return [event for event in runs.of_kind(output, "message") if words in event["values"]["text"]]


def stopped_and_resumed(digits, output, *options):
    """A run that ends by the clock whenever a step is done, until it has ended for good."""
    runs.train(digits, output, *options, "--max-time", "0.000001", "--workers", 1)
    for attempt in range(4):
        runs.run("train", digits, "--output", output, "--resume", "--max-time", "0.05" if attempt < 3 else "0",
                 "--workers", 1 + attempt % 3)


class Recipe(runs.TestFolders, unittest.TestCase):
    def test_plain_command_has_the_same_weights_everywhere(self):
        options = ["--max-epochs", "3"]
        found = set()
        for workers in (1, 2, 5):
            output = self.folder / f"plain command {workers}"
            runs.train(self.digits, output, *options, "--workers", workers)
            found.add(runs.weights(output))
        self.assertEqual(values(output)["augment"], "shift=2")
        self.assertEqual(values(output)["mini-batch-size"], "32")
        self.assertNotIn("max-epochs", values(output))
        ranks = self.folder / "plain command of ranks"
        runs.run("run", "-n", 2, runs.PROGRAM, "train", self.digits, "--output", ranks, *options)
        found.add(runs.weights(ranks))
        self.assertEqual(len(found), 1)

    def test_a_resume_keeps_the_recipe_that_the_run_began_with(self):
        whole, output = self.folder / "whole", self.folder / "parts"
        runs.train(self.digits, whole, "--max-epochs", 3)
        runs.train(self.digits, output, "--max-epochs", 3, "--max-time", "0.000001")
        runs.run("train", self.digits, "--output", output, "--resume", "--max-time", 0)
        self.assertEqual(runs.weights(output)[0], runs.weights(whole)[0])

    def test_a_run_of_before_recipes_goes_on_as_plain(self):
        whole, output = self.folder / "plain whole", self.folder / "plain parts"
        runs.train(self.digits, whole, "--max-epochs", 3, "--recipe", "plain")
        runs.train(self.digits, output, "--max-epochs", 3, "--recipe", "plain", "--max-time", "0.000001")
        manifest = json.loads((output / "options.json").read_text())
        for name in ("recipe", "budget", "batch-norm-start"):
            del manifest["options"][name]
        del manifest["plan"]["recipe"]
        (output / "options.json").write_text(json.dumps(manifest))
        runs.run("train", self.digits, "--output", output, "--resume", "--max-time", 0)
        self.assertEqual(runs.weights(output)[0], runs.weights(whole)[0])

    def test_a_run_that_starts_again_has_the_same_weights_everywhere(self):
        found = set()
        for workers in (1, 2, 5):
            output = self.folder / f"exploded {workers}"
            runs.train(self.digits, output, *EXPLODES, "--workers", workers)
            found.add(runs.weights(output)[0])
            self.assertEqual(len(said(output, "starts again once")), 1)
        ranks = self.folder / "exploded ranks"
        runs.run("run", "-n", 2, runs.PROGRAM, "train", self.digits, "--output", ranks, *EXPLODES)
        found.add(runs.weights(ranks)[0])
        parts = self.folder / "exploded parts"
        stopped_and_resumed(self.digits, parts, *EXPLODES)
        found.add(runs.weights(parts)[0])
        self.assertEqual(len(found), 1)

    def test_a_given_rate_is_not_changed(self):
        output = self.folder / "given rate"
        printed = runs.train(self.digits, output, *EXPLODES, "--learning-rate", "10", status=1)
        self.assertIn("the loss became", printed)
        self.assertEqual(said(output, "starts again"), [])

    def test_grey_images_may_have_three_channels(self):
        draw, small = random.Random(4), ["--max-epochs", "2"]
        one, three, parts = self.folder / "one", self.folder / "three", self.folder / "parts of a set"
        for i in range(20):
            name, pixels = f"{('cat', 'dog')[i % 2]}/{i:02}.ppm", draw.randbytes(12 * 12)
            same = bytes(level for level in pixels for _ in range(3))
            for path, file in ((one / name, b"P5 12 12 255\n" + pixels), (three / name, b"P6 12 12 255\n" + same),
                               (parts / "train" / name, b"P5 12 12 255\n" + pixels),
                               (parts / "val" / name, b"P5 12 12 255\n" + pixels)):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file)
        for folder in (one, three):
            runs.train(folder, self.folder / f"grey {folder.name}", *small)
        self.assertEqual(runs.weights(self.folder / "grey one")[0], runs.weights(self.folder / "grey three")[0])
        self.assertIn("are used as one dataset", runs.run("plan", parts))

    def test_shuffled_labels_are_seen_within_an_epoch(self):
        shuffled = self.folder / "shuffled"
        files = sorted(self.digits.glob("*/*.png"))
        labels = [file.parent.name for file in files]
        random.Random(0).shuffle(labels)
        for file, label in zip(files, labels):
            (shuffled / label).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, shuffled / label / file.name)
        output = self.folder / "of shuffled"
        runs.train(shuffled, output, "--network", "lenet", "--learning-rate", "0.00001", "--mini-batch-size", "4",
                   "--max-epochs", "1", "--image-size", "16x16")
        self.assertEqual(len(said(output, "stands still")), 1)
        self.assertEqual(len(said(output, "labels belong to the samples")), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
