#!/usr/bin/env python3
"""The weights are the same bits for any number of workers, over a table of settings."""

import unittest

import runs

WORKERS = [1, 2, 3, 4, 8]

# What is asked for beside runs.SMALL; later options of one name win.
SETTINGS = {
    "digits_cnn": [],
    "64-true": ["--precision", "64-true"],
    "bf16-mixed": ["--precision", "bf16-mixed"],
    "fp16-mixed": ["--precision", "fp16-mixed", "--gradient-clip", "1"],
    "accumulate": ["--accumulate", "3", "--mini-batch-size", "48"],
    "gradient-clip": ["--gradient-clip", "0.5"],
    "augment": ["--augment", "flip,shift"],
    "turned and sheared": ["--augment", "rotation,shear=5,scale=0.9/1.2"],
    "trivial augment": ["--augment", "trivial-augment-wide"],
    "random crops": ["--augment", "random-crop,flip", "--image-size", "20x20", "--resize-to", "26x24"],
    "random-resized crops of larger images": ["--augment", "random-resized-crop", "--image-size", "20x20",
                                              "--resize-to", "26x24"],
    "LibTorch's kernels": ["--kernels", "engine"],
    "batch norm over each shard": ["--batch-norm-group", "1"],
    "batch norm over the mini-batch": ["--batch-norm-group", "mini-batch", "--mini-batch-size", "27"],
    "avx2": ["--isa", "avx2"],
    "nesterov": ["--nesterov"],
    "adam, piecewise": ["--optimizer", "adam", "--lr-schedule", "piecewise", "--lr-drop-period", "1"],
    "adamw, warm-up": ["--optimizer", "adamw", "--warmup-steps", "3"],
    "rmsprop": ["--optimizer", "rmsprop", "--momentum", "0.5"],
    "class weights": ["--class-weights", "balanced", "--accumulate", "2"],
    "label smoothing": ["--label-smoothing", "0.1"],
    "label smoothing, class weights, pieces": ["--label-smoothing", "0.2", "--class-weights", "balanced", "--accumulate",
                                               "2"],
    "label smoothing, mixup": ["--label-smoothing", "0.1", "--augment", "mixup"],
    "few mini-batches": ["--limit-batches", "3"],
    "mean-std": ["--normalize", "mean-std"],
    "lenet": ["--network", "lenet", "--image-size", "20x20"],
    "mlp": ["--network", "mlp"],
    "resnet18": ["--network", "resnet18", "--image-size", "16x16", "--max-steps", "2", "--mini-batch-size", "16"],
    "squeezenet": ["--network", "squeezenet", "--image-size", "33x33", "--max-steps", "3"],
    "squeezenet, accumulate, bf16": ["--network", "squeezenet", "--image-size", "33x33", "--max-steps", "2",
                                     "--accumulate", "2", "--precision", "bf16-mixed"],
    "patience": ["--max-epochs", "30", "--patience", "2", "--learning-rate", "0.2", "--validate-every", "2"],
    "max-steps in an epoch": ["--max-steps", "9"],
    "validate-every 3": ["--validate-every", "3"],
    "5 shards": ["--shards", "5"],
    "7 shards, constant rate": ["--shards", "7", "--lr-schedule", "constant"],
    "16 shards, last mini-batch of 3": ["--shards", "16", "--mini-batch-size", "40"],
    "no shuffle, all at once": ["--shuffle", "never", "--mini-batch-size", "203", "--max-epochs", "4"],
    "more shards than pairs": ["--shards", "32"],
    "averaged": ["--exchange", "average", "--averaging-frequency", "3", "--shards", "4", "--mini-batch-size", "8",
                 "--gradient-clip", "0.5"],
    "averaged lenet": ["--exchange", "average", "--averaging-frequency", "2", "--shards", "4", "--mini-batch-size", "8",
                       "--network", "lenet", "--image-size", "20x20"],
    "averaged, all else": ["--exchange", "average", "--shards", "5", "--mini-batch-size", "7", "--averaging-frequency",
                           "4", "--average-updaters=false", "--outer-optimizer",
                           "nesterov", "--optimizer", "adamw", "--augment", "flip,shift", "--accumulate", "2",
                           "--precision", "bf16-mixed", "--patience", "1"],
    "averaged, warm-up": ["--exchange", "average", "--shards", "3", "--mini-batch-size", "9", "--averaging-frequency",
                          "3", "--averaging-warmup-steps", "5", "--average-updaters=false", "--optimizer", "adam"],
    "averaged, PyTorch's order": ["--exchange", "average", "--shards", "3", "--mini-batch-size", "9",
                                  "--averaging-frequency", "2", "--sample-order", "distributed-sampler"],
    "everything": ["--augment", "flip,shift=1", "--gradient-clip", "1", "--accumulate", "2", "--normalize", "mean-std",
                   "--optimizer", "adamw", "--weight-decay", "0.1",
                   "--precision", "bf16-mixed", "--validate-every", "5"],
}


# Of batch norm: groups of one worker, of several workers, and of unequal shards. 16 workers have a shard each.
GROUPS = {
    "by default": ["--shards", "0", "--mini-batch-size", "64"],
    "mini-batch": ["--batch-norm-group", "mini-batch", "--shards", "16"],
    "one that does not divide": ["--batch-norm-group", "12", "--shards", "17", "--mini-batch-size", "37"],
    "mini-batch, 64-true": ["--batch-norm-group", "mini-batch", "--precision", "64-true", "--shards", "3"],
}


class SameWeights(runs.TestFolders, unittest.TestCase):
    def trained(self, setting, workers, again=""):
        """The run with this setting, which is trained if it is not there."""
        output = self.folder / f"{setting}-{workers}{again}"
        if not output.exists():
            runs.train(self.digits, output, "--validation", self.held_out, *runs.SMALL, *SETTINGS[setting], "--workers",
                       workers)
        return output

    def outcome(self, setting, workers, again=""):
        output = self.trained(setting, workers, again)
        ends = [(event["step"], event["values"]["loss"], event["values"]["accuracy"])
                for event in runs.of_kind(output, "validation")]
        self.assertTrue(ends)
        owners = runs.of_kind(output, "shards")[0]["values"]["owners"]
        for step in runs.of_kind(output, "step"):
            computed_by = step["values"]["shard_workers"]
            self.assertLessEqual(len(computed_by), len(owners))
            self.assertLess(max(computed_by), workers)
        return runs.results(output), ends, owners

    def test_settings(self):
        seen = {}
        for number, setting in enumerate(SETTINGS):
            with self.subTest(setting):
                expected, ends, owners = self.outcome(setting, 1)
                self.assertEqual(set(owners), {0})
                seen[setting] = expected[0]
                others = WORKERS[1:] if setting in ("digits_cnn", "squeezenet", "averaged",
                                                    "everything") else WORKERS[2::2]
                few = others if setting in ("digits_cnn", "averaged") else [others[number % len(others)]]
                for workers in runs.some(few, [count for count in others if count not in few]):
                    found, found_ends, owners = self.outcome(setting, workers)
                    self.assertEqual(found, expected, f"{workers} workers")
                    self.assertEqual(found_ends, ends, f"{workers} workers: losses and accuracies")
                    self.assertEqual(set(owners), set(range(min(workers, len(owners)))), "each worker owns shards")
                    self.assertEqual(owners, sorted(owners))
        del seen["avx2"]  # may be what is used anyway
        same = [(a, b) for a in seen for b in seen if a < b and seen[a] == seen[b]]
        # How often the run validates changes nothing; every other setting does.
        self.assertEqual(same, [("digits_cnn", "validate-every 3")])

    def test_groups_of_batch_norm(self):
        for name, options in GROUPS.items():
            short = [*runs.SMALL, *options, "--max-steps", "3"]
            expected = None
            for workers in runs.some([1, 3, 16], [2, 5, 8]):
                output = self.folder / f"{name}-{workers}"
                runs.train(self.digits, output, "--validation", self.held_out, *short, "--workers", workers)
                expected = expected or runs.results(output)
                self.assertEqual(runs.results(output), expected, f"{name}, {workers} workers")
            for ranks, workers in runs.some([(3, 1), (16, 1)], [(2, 1), (2, 2), (5, 1), (8, 1)]):
                output = self.folder / f"{name}-{ranks}-ranks"
                runs.run("run", "-n", ranks, runs.PROGRAM, "train", self.digits, "--output", output, "--validation",
                         self.held_out, *short, "--workers", workers)
                self.assertEqual(runs.results(output), expected, f"{name}, {ranks} ranks of {workers} workers")

    def test_a_group_over_the_mini_batch_has_no_pieces_of_shards(self):
        for option, value in {"--accumulate": "2", "--on-out-of-memory": "split"}.items():
            printed = runs.train(self.digits, self.folder / "refused", *runs.SMALL, "--batch-norm-group", "mini-batch",
                                 option, value, status=2)
            self.assertIn(f"--batch-norm-group mini-batch cannot be combined with {option}", printed)

    def test_the_time_of_each_worker_is_in_the_log_with_timing(self):
        for name, options, counts in (("timed", ["--timing"], {3}), ("untimed", [], {0})):
            output = self.folder / name
            runs.train(self.digits, output, *runs.SMALL, "--max-steps", "3", "--workers", "3", *options)
            seconds = [step["values"].get("worker_seconds", []) for step in runs.of_kind(output, "step")]
            self.assertEqual({len(of_workers) for of_workers in seconds}, counts)
            self.assertGreater(min([0.1, *sum(seconds, [])]), 0)

    def test_run_to_run(self):
        self.assertEqual(self.outcome("everything", 8, " again")[:2], self.outcome("everything", 8)[:2])

    def test_pytorchs_order_is_dealt_to_the_workers_that_began(self):
        options = ["--validation", self.held_out, *runs.SMALL, "--shards", "4", "--sample-order", "distributed-sampler",
                   "--lr-schedule", "constant"]
        threads, ranks, one, parts = (self.folder / f"dealt to {who}" for who in ("threads", "ranks", "one", "parts"))
        runs.train(self.digits, threads, *options, "--workers", 2)
        runs.run("run", "-n", 2, runs.PROGRAM, "train", self.digits, "--output", ranks, *options)
        runs.train(self.digits, one, *options, "--workers", 1)
        runs.train(self.digits, parts, *options, "--workers", 2, "--max-time", "0.001")
        runs.train(self.digits, parts, "--resume", "--workers", 3)
        self.assertEqual(runs.weights(ranks), runs.weights(threads))
        self.assertEqual(runs.weights(parts), runs.weights(threads), "resumed by others")
        self.assertNotEqual(runs.weights(one), runs.weights(threads))
        self.assertTrue(runs.plan_line(threads, "same weights").startswith("no "))

    def test_patience_ends_the_run_early(self):
        end = runs.of_kind(self.trained("patience", 3), "end")[0]
        self.assertEqual(end["values"]["reason"], "patience")
        self.assertEqual(end["step"] % 2, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
