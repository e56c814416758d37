#!/usr/bin/env python3
"""Transfer learning by `lockstep train`: a new head on trained layers, frozen layers, learn-rate factors; the same
weights for any number of workers."""

import json
import os
import re
import signal
import struct
import subprocess
import time
import unittest
import unittest.mock

import runs

SMALL = ["--mini-batch-size", "32", "--shards", "8", "--max-epochs", "2", "--patience", "0"]


def tensors(path):
    """{name: bytes} of a safetensors file."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    entries = json.loads(data[8:8 + length])
    entries.pop("__metadata__", None)
    return {name: data[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]]
            for name, entry in entries.items()}


def changed(before, after):
    return {name for name in after if before.get(name) != after[name]}


class Transfer(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.squeezenet = cls.folder / "squeezenet"
        runs.train(cls.digits, cls.squeezenet, "--network", "squeezenet", "--image-size", "33x33", "--max-steps", 3,
                   "--mini-batch-size", 32)
        cls.digits_cnn = cls.folder / "digits_cnn"
        runs.train(cls.digits, cls.digits_cnn, "--network", "digits_cnn", "--image-size", "12x12", "--max-steps", 3,
                   "--mini-batch-size", 32)

    def transfer(self, name, network, *options):
        output = self.folder / name
        size = "33x33" if network == "squeezenet" else "12x12"
        weights = self.folder / network / "model.safetensors"
        runs.train(self.digits, output, "--network", network, "--weights", weights, "--image-size", size,
                   "--validation", self.held_out, *SMALL, *options)
        return output

    def changed_by(self, network, output):
        return changed(tensors(self.folder / network / "model.safetensors"), tensors(output / "model.safetensors"))

    def test_a_new_head_on_frozen_layers(self):
        """The head alone learns, SqueezeNet's being a convolution; any number of workers gives the same bits, with and
        without kept features, and so do machines with and without room for them."""
        hashes = set()
        for keep in ("auto", "never"):
            options = ["--head", "new", "--freeze", "features.*", "--keep-features", keep, "--cache", "off"]
            outputs = [self.transfer(f"frozen {keep} {workers}", "squeezenet", *options, "--workers", workers)
                       for workers in (1, 2, 3)]
            self.assertEqual(self.changed_by("squeezenet", outputs[0]), {"classifier.1.weight", "classifier.1.bias"})
            hashes |= {runs.weights(output) for output in outputs}
            said = " ".join(event["values"]["text"] for event in runs.of_kind(outputs[0], "message"))
            self.assertEqual("frozen layers computed once for 243 images" in said, keep == "auto")
        self.assertEqual(len(hashes), 1)

    def test_room_for_what_frozen_layers_give_decides_nothing(self):
        """With a batch norm, and with operators of the engine whose last bits depend on the batch."""
        for network, freeze, more in (("digits_cnn", "0,1,3", []), ("lenet", "0,2,5", ["--kernels", "engine", "--shards", 8])):
            hashes = set()
            for room in ([], ["--memory-share", 0, "--cache", "off"]):
                output = self.folder / f"room {network} {len(room)}"
                runs.train(self.digits, output, "--network", network, "--image-size", "28x28", "--validation", self.held_out,
                           *SMALL, "--freeze", freeze, *more, *room)
                said = " ".join(event["values"]["text"] for event in runs.of_kind(output, "message"))
                self.assertEqual("frozen layers computed once" in said, not room)
                hashes.add(runs.weights(output))
            self.assertEqual(len(hashes), 1, network)

    def test_the_head_first_then_all_layers(self):
        """With squeezenet's dropout; stopped among the steps of the head and later, any number of workers has the same bits."""
        options = ["--head", "new", "--unfreeze-after", "1", "--cache", "off"]
        head = self.transfer("head first", "squeezenet", *options, "--max-epochs", "1")
        self.assertEqual(self.changed_by("squeezenet", head), {"classifier.1.weight", "classifier.1.bias"})
        whole = self.transfer("head first, whole", "squeezenet", *options, "--workers", "1")
        self.assertIn("features.0.weight", self.changed_by("squeezenet", whole))
        for stop in (4, 11):
            stopped = self.transfer(f"head first, stopped {stop}", "squeezenet", *options, "--workers", "3", "--pause-after-step", stop)
            runs.train(self.digits, stopped, "--resume", "--workers", "2", "--pause-after-step", "0")
            self.assertEqual(runs.weights(stopped), runs.weights(whole), stop)
        self.assertIn("--unfreeze-after is for networks that get new layers",
                      runs.run("plan", self.digits, "--unfreeze-after", "1", status=2))

    def computed(self, output):
        return [event["values"]["computed"] for event in runs.of_kind(output, "message")
                if "computed" in event["values"]]

    def test_later_runs_find_what_frozen_layers_give(self):
        kept = self.folder / "kept"
        options = ["--head", "new", "--freeze", "features.*", "--cache", kept]
        expected = runs.weights(self.transfer("not kept", "squeezenet", *options[:-1], "off"))
        for name, more, computed in (("made", ["--workers", 2], 243), ("found", ["--workers", 3], 0),
                                     ("only on disk", ["--memory-share", 0, "--keep-features", "always"], 0),
                                     ("other rate", ["--learning-rate", 0.5, "--workers", 1], 0)):
            output = self.transfer(name, "squeezenet", *options, *more)
            self.assertEqual(runs.weights(output) == expected, name != "other rate", name)
            self.assertEqual(self.computed(output), [computed], name)
        self.assertEqual(len(list(kept.glob("*.features"))), 2)
        self.assertIn("computed once, kept on disk",
                      [line[1] for line in runs.of_kind(self.folder / "only on disk", "plan")[0]["values"]["lines"]])
        for file in kept.glob("*.features"):
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
        output = self.transfer("damaged", "squeezenet", *options, "--workers", 1)
        self.assertEqual(runs.weights(output), expected)
        self.assertEqual(self.computed(output), [2 * 16])  # the group of each file's damaged record

    def test_every_precision_has_a_file_of_its_own(self):
        options = ["--head", "new", "--freeze", "features.*", "--cache", self.folder / "kept in precisions",
                   "--memory-share", 0]
        for precision in runs.some(["32-true", "bf16-mixed"], ["64-true"]):
            made, found = (self.transfer(f"{precision} {name}", "squeezenet", *options, "--precision", precision)
                           for name in ("made", "found"))
            self.assertEqual((self.computed(made), self.computed(found)), ([243], [0]))
            self.assertEqual(runs.weights(found), runs.weights(made))

    def test_other_frozen_weights_are_not_found(self):
        kept = self.folder / "kept for weights"
        for name, more in (("first weights", []), ("other weights", ["--isa", "avx2"])):
            output = self.transfer(name, "squeezenet", "--head", "new", "--freeze", "features.*", "--cache", kept,
                                   *more)
            self.assertEqual(self.computed(output), [243], name)
        changed = self.folder / "changed.safetensors"
        data = bytearray((self.folder / "squeezenet" / "model.safetensors").read_bytes())
        length = struct.unpack("<Q", data[:8])[0]
        begin = json.loads(data[8:8 + length])["features.0.weight"]["data_offsets"][0]
        data[8 + length + begin] ^= 1  # the last bit of one weight
        changed.write_bytes(data)
        output = self.transfer("a bit", "squeezenet", "--head", "new", "--freeze", "features.*", "--cache", kept,
                               "--weights", changed, "--normalize", "none")
        self.assertEqual(self.computed(output), [243])

    def test_a_resume_with_other_weights_in_the_file_spoils_nothing(self):
        """The checkpoint's frozen weights count, not those that the file has by now."""
        kept, weights = self.folder / "kept for resume", self.folder / "exchanged.safetensors"
        original = (self.folder / "squeezenet" / "model.safetensors").read_bytes()
        length = struct.unpack("<Q", original[:8])[0]
        begin = json.loads(original[8:8 + length])["features.0.weight"]["data_offsets"][0]
        other = bytearray(original)
        other[8 + length + begin + 3] ^= 0x80  # the sign of one weight
        options = ["--head", "new", "--freeze", "features.*", "--weights", weights, "--normalize", "none"]

        weights.write_bytes(other)
        of_other = runs.weights(self.transfer("of other", "squeezenet", *options, "--cache", "off"))
        weights.write_bytes(original)
        of_original = runs.weights(self.transfer("of original", "squeezenet", *options, "--cache", "off"))
        self.transfer("exchanged", "squeezenet", *options, "--cache", kept, "--max-time", "0.001")
        weights.write_bytes(other)
        runs.run("train", self.digits, "--output", self.folder / "exchanged", "--resume")
        self.assertEqual(runs.weights(self.folder / "exchanged"), of_original)
        self.assertEqual(runs.weights(self.transfer("other again", "squeezenet", *options, "--cache", kept)), of_other)

    def test_ranks_share_one_file(self):
        options = ["--network", "squeezenet", "--weights", self.folder / "squeezenet" / "model.safetensors",
                   "--image-size", "33x33", "--validation", self.held_out, *SMALL, "--head", "new",
                   "--freeze", "features.*"]
        runs.train(self.digits, self.folder / "one", *options, "--cache", "off")
        runs.run("run", "--ranks", 3, "--", runs.PROGRAM, "train", self.digits, "--output", self.folder / "three",
                 *options, "--cache", self.folder / "of ranks", "--memory-share", 0)
        self.assertEqual(runs.weights(self.folder / "three"), runs.weights(self.folder / "one"))

    def test_features_that_can_lie_nowhere_are_computed_at_every_step(self):
        (self.folder / "file").write_text("")
        with unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(self.folder / "file")}):
            output = self.transfer("nowhere", "squeezenet", "--head", "new", "--freeze", "features.*", "--memory-share",
                                   0)
        self.assertIn("there is no file for their outputs",
                      " ".join(event["values"]["text"] for event in runs.of_kind(output, "message")))

    def test_images_are_kept_where_features_can_lie_nowhere(self):
        """Where there is memory for the images and not for the features, and a file turns out not to be possible."""
        (self.folder / "no folder").write_text("")
        memory = 2 * float(re.search(r"of ([0-9.]+) GB allowed",
                                     runs.plan_line(self.squeezenet, "images in memory"))[1]) * 1e9
        options = ["--head", "new", "--freeze", "features.*", "--memory-share", 350e3 / memory]
        with unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(self.folder / "no folder")}):
            output = self.transfer("images kept", "squeezenet", *options)
        self.assertIn("computed at every step", runs.plan_line(output, "frozen layers"))
        self.assertIn("all, once decoded", runs.plan_line(output, "images in memory"))

    def test_what_frozen_layers_leave_in_32_bits_has_room(self):
        """Under autocast a batch norm of float32 stays float32."""
        network = self.folder / "norm first.json"
        network.write_text(
            json.dumps({"layers": [{"type": "batch_norm"}, {"type": "conv2d", "filters": 4, "kernel": 3},
                                   {"type": "flatten"}, {"type": "linear", "features": "classes"}]}))
        options = ["--network", network, "--image-size", "12x12", "--precision", "bf16-mixed", "--freeze", "0", *SMALL,
                   "--cache", self.folder / "wide", "--memory-share", 0]
        outputs = [self.folder / name for name in ("wide made", "wide found")]
        for output in outputs:
            runs.train(self.digits, output, *options)
        self.assertEqual([self.computed(output) for output in outputs], [[203], [0]])
        self.assertEqual(runs.weights(outputs[0]), runs.weights(outputs[1]))

    def killed(self, output, options, due):
        """A run that is killed as soon as due()."""
        process = subprocess.Popen(runs.command("train", self.digits, "--output", output, *options),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not due():
            time.sleep(0.001)
        process.kill()
        self.assertEqual(process.wait(), -signal.SIGKILL, "it ended before it was killed")

    def test_killed_runs_leave_what_they_have_computed(self):
        """Killed while features are computed, and after a checkpoint; resumed with other workers."""
        def records(path):
            data = path.read_bytes()
            count, size = struct.unpack("<qq", data[40:56])
            return sum(data[4096 + i * (size + 8):4096 + i * (size + 8) + 8] != bytes(8) for i in range(count))

        kept, output, later = self.folder / "kept of killed", self.folder / "killed", self.folder / "killed later"
        options = ["--network", "squeezenet", "--weights", self.folder / "squeezenet" / "model.safetensors",
                   "--image-size", "33x33", "--validation", self.held_out, *SMALL, "--head", "new",
                   "--freeze", "features.*", "--max-epochs", 40]
        runs.train(self.digits, self.folder / "not killed", *options, "--cache", "off")
        options += ["--cache", kept, "--memory-share", 0, "--workers", 1]
        self.killed(output, options, lambda: any(records(path) > 16 for path in kept.glob("*.features")))
        runs.run("train", self.digits, "--output", output, "--resume", "--workers", 3)
        self.assertLess(self.computed(output)[-1], 243)
        self.assertEqual(runs.weights(output), runs.weights(self.folder / "not killed"))
        self.killed(later, options, lambda: runs.checkpoints(later))
        runs.run("train", self.digits, "--output", later, "--resume", "--workers", 2)
        self.assertEqual(self.computed(later)[-1], 0)
        self.assertEqual(runs.weights(later), runs.weights(self.folder / "not killed"))

    def test_features_are_not_kept_when_images_change(self):
        output = self.transfer("augmented", "squeezenet", "--head", "new", "--freeze", "features.*", "--augment",
                               "flip", "--max-steps", 2, "--recipe", "plain")
        plan = runs.of_kind(output, "plan")[0]["values"]
        # a tenth: at 0.01 a head with factor 10 learns nothing
        self.assertIn("learning rate 0.001, cosine", [line[2] for line in plan["lines"] if line[0] == "optimizer"])
        self.assertIn(["frozen layers", "computed at every step", "--augment changes the images in every epoch"],
                      plan["lines"])

    def test_kept_features_go_on_after_a_stop(self):
        options = ["--head", "new", "--freeze", "features.*"]
        whole = self.transfer("whole", "squeezenet", *options)
        cut = self.transfer("cut", "squeezenet", *options, "--max-time", "0.001")
        runs.run("train", self.digits, "--output", cut, "--resume", "--workers", 2)
        self.assertEqual(runs.sha256(whole / "model.safetensors"), runs.sha256(cut / "model.safetensors"))

    def test_frozen_batch_norms_stay(self):
        """Weights and running statistics of frozen layers stay, at the beginning (kept features) and in the middle,
        where layers before them learn through them."""
        for first, second, learned in ((0, 1, "3.weight"), (3, 4, "0.weight")):
            outputs = [self.transfer(f"norms {first} {workers}", "digits_cnn", "--head", "new", "--freeze",
                                     f"{first},{second}", "--workers", workers) for workers in (1, 2)]
            names = self.changed_by("digits_cnn", outputs[0])
            self.assertFalse({name for name in names if name.startswith((f"{first}.", f"{second}."))})
            self.assertTrue({learned, "7.running_var", "10.weight"} <= names)
            self.assertEqual(runs.weights(outputs[0]), runs.weights(outputs[1]))

    def test_averaged_replicas_keep_frozen_layers(self):
        options = ["--freeze", "0,1", "--exchange", "average", "--averaging-frequency", "2", "--shards", "3",
                   "--mini-batch-size", "16"]
        outputs = [self.transfer(f"averaged {workers}", "digits_cnn", *options, "--workers", workers)
                   for workers in (1, 2)]
        self.assertFalse({name for name in self.changed_by("digits_cnn", outputs[0]) if name.startswith(("0.", "1."))})
        self.assertEqual(runs.weights(outputs[0]), runs.weights(outputs[1]))

    def test_dropped_layers(self):
        output = self.transfer("dropped", "squeezenet", "--head", "new", "--drop-layers", 5, "--learning-rate-factors",
                               "features.*=0", "--max-steps", 3)
        self.assertEqual(self.changed_by("squeezenet", output), {"head.linear.weight", "head.linear.bias"})
        self.assertNotIn("classifier.1.weight", tensors(output / "model.safetensors"))
        self.assertIn("accuracy", runs.run("evaluate", output, self.held_out))

    def test_a_network_and_its_weights_predict_as_the_run(self):
        """Without a run folder, what a network's file says of its input holds."""
        network = self.folder / "own.json"
        network.write_text(json.dumps({"base": "squeezenet", "input": {"image-size": "33x33", "color": "grey"}}))
        weights = self.squeezenet / "model.safetensors"
        by_run = runs.run("predict", self.squeezenet, self.held_out, "--format", "json")
        by_file = runs.run("predict", network, self.held_out, "--weights", weights, "--format", "json")
        self.assertEqual(json.loads(by_run), json.loads(by_file))
        names = self.folder / "names.txt"
        names.write_text("".join(f"digit {number}\n" for number in range(10)))
        named = json.loads(runs.run("predict", network, self.held_out, "--weights", weights, "--classes", names,
                                    "--format", "json"))
        self.assertEqual([one["label"] for one in named], [f"digit {one['label']}" for one in json.loads(by_run)])
        names.write_text("".join(f"digit {min(number, 8)}\n" for number in range(10)))
        refused = runs.run("predict", network, self.held_out, "--weights", weights, "--classes", names, status=2)
        self.assertIn(f'"{names}" has the class "digit 8" twice, in lines 9 and 10', refused)


if __name__ == "__main__":
    unittest.main(verbosity=2)
