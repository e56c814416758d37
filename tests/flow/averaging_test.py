#!/usr/bin/env python3
"""--exchange average: what it is equal to, resumes between averages, what it says. Equal bits for any number of
workers: same_weights_test.py."""

import array
import json
import unittest

import runs

AVERAGE = ["--exchange", "average", "--shards", "4", "--mini-batch-size", "8"]
STEPS_PER_EPOCH = 7  # of 203 images, 32 a step; the last has 8 and 3 for two of the four replicas


def tensors(path):
    """The float64 tensors of a safetensors file, by name."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    found = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if entry.get("dtype") == "F64":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            found[name] = array.array("d", data[begin:end])
    return found


class Averaging(runs.TestFolders, unittest.TestCase):
    def train_run(self, name, *options):
        output = self.folder / name
        printed = runs.train(self.digits, output, "--validation", self.held_out, *runs.SMALL, *options)
        return output, printed

    def test_one_replica_averaged_at_every_step_is_plain_training(self):
        for name, options in {"batch norm": ["--gradient-clip", "0.5"],
                              "lenet": ["--network", "lenet", "--image-size", "20x20", "--optimizer", "adam"],
                              "dropout": ["--network", "squeezenet", "--image-size", "33x33", "--max-steps", "3"],
                              "bf16": ["--precision", "bf16-mixed", "--accumulate", "2"]}.items():
            with self.subTest(name):
                plain, _ = self.train_run(f"{name} plain", *options, "--shards", "1")
                averaged, _ = self.train_run(f"{name} averaged", *options, "--shards", "1", "--exchange", "average",
                                             "--averaging-frequency", "1")
                self.assertEqual(runs.weights(averaged), runs.weights(plain))

    def test_replicas_averaged_at_every_step_of_plain_sgd_are_the_mean_gradient(self):
        options = ["--network", "lenet", "--image-size", "20x20", "--momentum", "0", "--precision", "64-true"]
        plain = tensors(self.train_run("gradients", *options, "--shards", "4")[0] / "model.safetensors")
        averaged = tensors(self.train_run("averages", *options, *AVERAGE)[0] / "model.safetensors")
        self.assertEqual(plain.keys(), averaged.keys())
        largest = max(abs(a - b) for name in plain for a, b in zip(plain[name], averaged[name], strict=True))
        self.assertLess(largest, 1e-14)

    def test_resume_between_averages(self):
        for name, options in {"momentum averaged": [],
                              "outer optimizer, states kept": ["--average-updaters=false", "--optimizer", "adam",
                                                               "--outer-optimizer", "nesterov"]}.items():
            with self.subTest(name):
                options = [*AVERAGE, "--averaging-frequency", "3", *options]
                whole, _ = self.train_run(f"{name} whole", *options, "--workers", "4")
                parts, _ = self.train_run(f"{name} parts", *options, "--workers", "1", "--max-time", "0.001")
                for step in range(2, 6):
                    runs.train(self.digits, parts, "--resume", "--max-time", "0.001", "--workers", step % 4 + 1)
                    self.assertEqual([runs.checkpoint_step(path) for path in runs.checkpoints(parts)], [step])
                runs.train(self.digits, parts, "--resume", "--workers", "3")
                self.assertEqual(runs.weights(parts), runs.weights(whole))

    def test_what_is_due_waits_for_the_next_average(self):
        output, printed = self.train_run("due", *AVERAGE, "--averaging-frequency", "3", "--checkpoint-every", "5",
                                         "--report-score-after-averaging", "--workers", "2")
        averages = runs.of_kind(output, "average")
        self.assertEqual([event["step"] for event in averages], [3, 6, 9, 12, 14])
        self.assertEqual([event["step"] for event in runs.of_kind(output, "validation")], [9, 14])
        self.assertEqual([event["step"] for event in runs.of_kind(output, "hash")], [9, 14])
        losses = {event["step"]: event["values"]["loss"] for event in runs.of_kind(output, "step")}
        for event in averages:
            self.assertEqual(event["values"]["score"], losses[event["step"]])
            self.assertGreaterEqual(event["values"]["seconds"], 0)
            self.assertIn(f"averaged score {event['values']['score']:.4f} after step {event['step']}, averaging time ",
                          printed)
        self.assertEqual(runs.checkpoint_step(runs.checkpoints(output)[0]), 2 * STEPS_PER_EPOCH)

    def test_replicas_are_the_workers_when_nobody_says(self):
        plan = runs.run("plan", self.digits, "--exchange", "average", "--workers", "3")
        self.assertRegex(plan, r"(?m)^replicas +3 +one for each worker")
        self.assertRegex(plan, r"(?m)^mini-batch +128 per replica +")
        self.assertRegex(
            plan, r"(?m)^same weights +yes +for any number of workers with --shards 3; without it, another number of workers "
                  r"means other replicas")

    def test_refusals(self):
        for options, said in {("--averaging-frequency",
                               "3"): "--averaging-frequency 3 has no effect with --exchange tree",
                              ("--exchange", "average", "--scale-with-workers",
                               "batch"): "--scale-with-workers has nothing to scale",
                              ("--exchange", "average", "--precision",
                               "fp16-mixed"): "--precision fp16-mixed cannot be combined with --exchange average: all "
                                              "workers skip the same steps",
                              ("--exchange", "powersgd", "--precision",
                               "fp16-mixed"): "--precision fp16-mixed cannot be combined with --exchange powersgd",
                              ("--exchange", "average", "--averaging-frequency",
                               "0"): "it must be a whole number from 1 to"}.items():
            with self.subTest(said):
                self.assertIn(said, runs.run("plan", self.digits, *options, status=2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
