#!/usr/bin/env python3
"""What `lockstep predict --layer` writes: safetensors and CSV, the same for any number of workers, equal to what the
network goes on to say."""

import csv
import io
import json
import math
import struct
import unittest

import runs
import sequences


def read_safetensors(path):
    """{name: (shape, numbers)} and the metadata."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    entries = json.loads(data[8:8 + length])
    metadata = entries.pop("__metadata__")
    letters = {"F32": "f", "F64": "d", "I64": "q"}
    tensors = {}
    for name, entry in entries.items():
        begin, end = entry["data_offsets"]
        part = data[8 + length + begin:8 + length + end]
        tensors[name] = entry["shape"], [number for number, in struct.iter_unpack("<" + letters[entry["dtype"]], part)]
    return tensors, metadata


def softmax(logits):
    largest = max(logits)
    powers = [math.exp(logit - largest) for logit in logits]
    return [power / sum(powers) for power in powers]


class Activations(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.digits_cnn, cls.squeezenet = cls.folder / "digits_cnn", cls.folder / "squeezenet"
        runs.train(cls.digits, cls.digits_cnn, *runs.SMALL)
        runs.train(cls.digits, cls.squeezenet, "--network", "squeezenet", "--image-size", "33x33", "--max-steps", 3,
                   "--mini-batch-size", 32)

    def layer(self, run, name, *options, inputs=None):
        output = self.folder / "layer.safetensors"
        self.assertEqual(runs.run("predict", run, *(inputs or [self.held_out]), "--layer", name, "--output", output,
                                  *options), "")
        return output

    def test_the_last_layer_is_what_scores_are_made_of(self):
        for run, last in ((self.digits_cnn, "10"), (self.squeezenet, "flatten")):
            with self.subTest(run.name):
                tensors, metadata = read_safetensors(self.layer(run, last))
                (count, width), logits = tensors["activations"]
                predictions = json.loads(runs.run("predict", run, self.held_out, "--exact", "--format", "json"))
                self.assertEqual((count, width), (40, 10))
                self.assertEqual(metadata["layer"], last)
                self.assertEqual(json.loads(metadata["files"]), [one["file"] for one in predictions])
                self.assertEqual(tensors["targets"], ([40], [int(one["target"]) for one in predictions]))
                for number, one in enumerate(predictions):
                    for got, expected in zip(softmax(logits[number * 10:number * 10 + 10]), one["scores"].values()):
                        self.assertAlmostEqual(got, expected, places=6)

    def test_any_layer_for_any_number_of_workers(self):
        for run, name, shape in ((self.digits_cnn, "4", [20, 8, 8]), (self.digits_cnn, "5", [20, 8, 8]),
                                 (self.squeezenet, "features.3.expand3x3", None)):
            inputs = [self.held_out, self.digits / "3"]
            expected = self.layer(run, name, "--workers", 1, inputs=inputs).read_bytes()
            for options in (["--workers", 2], ["--workers", 3]):
                self.assertEqual(self.layer(run, name, *options, inputs=inputs).read_bytes(), expected,
                                 f"{run.name} {name}")
            if shape:
                self.assertEqual(read_safetensors(self.folder / "layer.safetensors")[0]["activations"][0], [60, *shape])

    def test_a_layer_gives_what_comes_before_the_next_one(self):
        """Training computes a batch norm and its ReLU in one pass; looked at, each gives its own."""
        before = read_safetensors(self.layer(self.digits_cnn, "4"))[0]["activations"][1]
        after = read_safetensors(self.layer(self.digits_cnn, "5"))[0]["activations"][1]
        self.assertLess(min(before), 0)
        self.assertEqual([max(number, 0) for number in before], after)

    def test_csv(self):
        output = self.folder / "layer.csv"
        runs.run("predict", self.digits_cnn, self.held_out, "--layer", "8", "--output", output)
        rows = list(csv.reader(io.StringIO(output.read_text())))
        tensors, metadata = read_safetensors(self.layer(self.digits_cnn, "8"))
        (_, channels, height, width), numbers = tensors["activations"]
        self.assertEqual(rows[0][:3] + rows[0][-1:],
                         ["file", "target", "0.0.0", f"{channels - 1}.{height - 1}.{width - 1}"])
        self.assertEqual([row[0] for row in rows[1:]], json.loads(metadata["files"]))
        read_back = [struct.unpack("<f", struct.pack("<f", float(cell)))[0] for row in rows[1:] for cell in row[2:]]
        self.assertEqual(read_back, numbers)

    def test_64_bits(self):
        tensors, _ = read_safetensors(self.layer(self.digits_cnn, "10", "--precision", "64-true"))
        narrow, _ = read_safetensors(self.layer(self.digits_cnn, "10"))
        for got, expected in zip(tensors["activations"][1], narrow["activations"][1]):
            self.assertAlmostEqual(got, expected, places=4)
        self.assertNotEqual(tensors["activations"][1], narrow["activations"][1])

    def test_sequences(self):
        data, run = self.folder / "waves.ts", self.folder / "lstm"
        sequences.write_ts(data, 50, seed=1)
        runs.train(data, run, "--network", "lstm_classifier", "--max-epochs", 1, "--sequence-padding", "left")
        states = self.layer(run, "lstm", "--workers", 1, inputs=[data]).read_bytes()
        self.assertEqual(self.layer(run, "lstm", "--workers", 3, inputs=[data]).read_bytes(), states)
        tensors, _ = read_safetensors(self.layer(run, "fc", inputs=[data]))
        predictions = json.loads(runs.run("predict", run, data, "--format", "json"))
        for number, one in enumerate(predictions):
            for got, expected in zip(softmax(tensors["activations"][1][number * 3:number * 3 + 3]),
                                     one["scores"].values()):
                self.assertAlmostEqual(got, expected, places=5)
        self.assertEqual(len(tensors["lengths"][1]), 50)

    def test_steps_of_sequences_end_in_zeros(self):
        data, run, network = self.folder / "more.ts", self.folder / "deep", self.folder / "deep.json"
        sequences.write_ts(data, 30, seed=2)
        network.write_text(json.dumps([{"type": "gru", "hidden": 5, "output": "sequence"},
                                       {"type": "lstm", "hidden": 4}, {"type": "linear", "features": "classes"}]))
        runs.train(data, run, "--network", network, "--max-epochs", 1)
        tensors, _ = read_safetensors(self.layer(run, "0", inputs=[data]))
        shape, numbers = tensors["activations"]
        longest = max(tensors["lengths"][1])
        self.assertEqual(shape, [30, 5, longest])
        for number, length in enumerate(tensors["lengths"][1]):
            for unit in range(5):
                row = numbers[(number * 5 + unit) * longest:][:longest]
                self.assertTrue(all(row[:length]))
                self.assertFalse(any(row[length:]))

    def test_wrong_names_and_formats(self):
        printed = runs.run("predict", self.squeezenet, self.held_out, "--layer", "features.3.expand3", "--output",
                           self.folder / "none", status=2)
        self.assertIn('no layer "features.3.expand3"', printed)
        self.assertIn('did you mean "features.3.expand', printed)
        self.assertIn("add --output FILE",
                      runs.run("predict", self.digits_cnn, self.held_out, "--layer", "10", status=2))
        self.assertIn("--layer NAME",
                      runs.run("predict", self.digits_cnn, self.held_out, "--format", "safetensors", status=2))
        self.assertIn("not written as JSON",
                      runs.run("predict", self.digits_cnn, self.held_out, "--layer", "10", "--format", "json",
                               status=2))
        self.assertIn("no/where",
                      runs.run("predict", self.digits_cnn, self.held_out, "--layer", "10", "--output",
                               self.folder / "no/where", status=1))
        self.assertEqual(list(self.folder.glob("*.part")), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
