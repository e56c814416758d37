#!/usr/bin/env python3
"""Recurrent networks on sequences of unequal length: the same bits for any number of workers and after a resume;
evaluate and predict."""

import json
import pathlib
import unittest

import runs
import sequences

# 83 sequences: three mini-batches of 24, and one of 11.
SMALL = ["--mini-batch-size", "24", "--shards", "5", "--max-epochs", "2", "--patience", "0", "--optimizer", "adam",
         "--learning-rate", "0.01"]
GRU = [{"type": "gru", "hidden": 9, "layers": 2, "output": "sequence"}, {"type": "dropout"},
       {"type": "lstm", "hidden": 8}, {"type": "linear", "features": "classes"}]

SETTINGS = {
    "the recipe": [],
    "lstm_classifier": ["--network", "lstm_classifier"],
    "gru, padded left, accumulate": ["--network", "GRU", "--sequence-padding", "left", "--accumulate", "2",
                                     "--normalize", "mean-std"],
    "64-true": ["--precision", "64-true"],
    "bf16-mixed": ["--precision", "bf16-mixed", "--sequence-length", "30"],
    "sorted": ["--sort-by-length", "--shuffle", "never"],
    "averaging": ["--exchange", "average", "--shards", "3", "--mini-batch-size", "9"],
    "pieces": ["--tbptt-length", "4"],
    "pieces of a deep network": ["--tbptt-length", "7", "--network", "GRU", "--mini-batch-size", "10", "--accumulate",
                                 "2", "--gradient-clip", "0.5"],
}


class Sequences(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = runs.temporary_folder()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.train, cls.held_out = cls.folder / "train.ts", cls.folder / "held_out.ts"
        sequences.write_ts(cls.train, 83, seed=1)
        sequences.write_ts(cls.held_out, 31, seed=2)
        cls.network = cls.folder / "gru.json"
        cls.network.write_text(json.dumps(GRU))

    def run_once(self, output, *options, status=0):
        options = [self.network if option == "GRU" else option for option in options]
        return runs.train(self.train, output, "--validation", self.held_out, *SMALL, *options, status=status)

    def outcome(self, output):
        return runs.weights(output), [(event["step"], event["values"]["loss"], event["values"]["accuracy"])
                                      for event in runs.of_kind(output, "validation")]

    def test_a_run_of_the_current_folder_has_its_name(self):
        data = self.folder / "gestures"
        sequences.write_csv(data, 30, seed=4)
        runs.run("train", ".", "--max-steps", 1, folder=data)
        self.assertTrue((data / "runs/gestures-001/result.json").exists())

    def test_same_weights(self):
        seen = set()
        for setting, options in SETTINGS.items():
            for workers in runs.some([1, 3], [2, 4] if setting in ("the recipe", "lstm_classifier", "pieces") else []):
                with self.subTest(setting, workers=workers):
                    output = self.folder / f"{setting} {workers}"
                    self.run_once(output, *options, "--workers", workers)
                    found = self.outcome(output)
                    if workers == 1:
                        expected = found
                    self.assertEqual(found, expected)
            seen.add(expected[0])
        self.assertEqual(len(seen), len(SETTINGS), "every setting changes the weights")

    def test_defaults_learn(self):
        output = self.folder / "defaults"
        train = self.folder / "more.ts"
        sequences.write_ts(train, 240, seed=3, channels=6, shortest=15)
        runs.train(train, output)
        best = max(event["values"]["accuracy"] for event in runs.of_kind(output, "validation"))
        self.assertGreater(best, 0.75)

    def test_resume(self):
        for setting in ("lstm_classifier", "pieces of a deep network"):
            with self.subTest(setting):
                whole, parts = self.folder / f"whole {setting}", self.folder / f"parts {setting}"
                self.run_once(whole, *SETTINGS[setting], "--workers", "2")
                self.run_once(parts, *SETTINGS[setting], "--workers", "1", "--max-time", "0.001")
                self.assertEqual(runs.of_kind(parts, "end")[-1]["step"], 1)
                runs.train(self.train, parts, "--resume", "--workers", "3", "--max-time", "0.001")
                runs.train(self.train, parts, "--resume", "--workers", "3")
                self.assertEqual(runs.weights(parts), runs.weights(whole))

    def test_evaluate_and_predict(self):
        output = self.folder / "trained"
        self.assertIn("2 channels, up to 23 time steps", runs.run("plan", self.train))
        self.run_once(output, "--test", self.held_out, "--max-epochs", "20")
        end = runs.of_kind(output, "end")[0]["values"]
        self.assertGreater(end["test_accuracy"], 0.7)
        evaluation = json.loads(runs.run("evaluate", output, self.held_out, "--json"))
        self.assertEqual((evaluation["samples"], evaluation["accuracy"]), (31, end["test_accuracy"]))
        self.assertIn("31 sequences, loss", runs.run("evaluate", output, self.held_out))
        predicted = [json.loads(runs.run("predict", output, self.held_out, "--format", "json", "--workers", workers))
                     for workers in (1, 3)]
        self.assertEqual(predicted[0], predicted[1])
        self.assertEqual(sum(one["label"] == one["target"] for one in predicted[0]) / 31, evaluation["accuracy"])
        unlabelled = self.folder / "one.csv"
        unlabelled.write_text("a,b\n1,2\n3,4\n")
        self.assertEqual(len(runs.run("predict", output, unlabelled).splitlines()), 2)

    def test_split(self):
        for name, options in {"whole": [], "sorted": ["--sort-by-length", "--shuffle", "never"],
                              "pieces": ["--tbptt-length", "4"]}.items():
            with self.subTest(name):
                output = self.folder / f"split {name}"
                runs.train(self.train, output, *SMALL, *options)
                self.assertEqual(len(runs.of_kind(output, "validation")), 2)

    def test_no_cache_is_what_sequences_have(self):
        outputs = [self.folder / "no cache", self.folder / "cache not named"]
        runs.train(self.train, outputs[0], *SMALL, "--cache", "off")
        runs.train(self.train, outputs[1], *SMALL)
        self.assertEqual(runs.weights(outputs[0]), runs.weights(outputs[1]))

    def test_refusals(self):
        output = self.folder / "refused"
        for options, said in ((["--augment", "flip"], "--augment flip is for images"),
                              (["--image-size", "8x8"], "--image-size 8x8 is for images"),
                              (["--resize", "crop"], "--resize crop is for images"),
                              (["--decode", "fast"], "--decode fast is for images"),
                              (["--cache-size", "1"], "--cache-size 1 is for images"),
                              (["--sort-by-length"], "add --shuffle never"),
                              (["--network", "lenet"],
                               'needs images [channels,height,width], but "input" returns [2,23]'),
                              (["--tbptt-length", "4", "--scale-with-workers", "batch"],
                               "slots must not depend on the number of workers"),
                              (["--tbptt-length", "4", "--exchange", "average"],
                               "replicas do not carry recurrent state from piece to piece")):
            with self.subTest(said):
                self.assertIn(said, self.run_once(output, *options, status=2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
