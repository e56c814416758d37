#!/usr/bin/env python3
"""What is read from finished runs: evaluate and predict for any number of workers, diff of two runs."""

import json
import shutil
import struct
import unittest
import zipfile

import runs

# {"weight": torch.tensor([0.5, -0.5])} by torch.save
STATE_DICT = (b"\x80\x02}(X\x06\0\0\0weightctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storage"
              b"ctorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x02tQK\0K\x02\x85K\x01\x85\x89"
              b"ccollections\nOrderedDict\n)RtRu.")


class Results(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.one, cls.same, cls.other = (cls.folder / name for name in ("one", "same", "other"))
        for output, options in {cls.one: ["--workers", "1"], cls.same: ["--workers", "3"],
                                cls.other: ["--max-steps", "9", "--gradient-clip", "0.8"]}.items():
            runs.train(cls.digits, output, "--validation", cls.held_out, *runs.SMALL, "--normalize", "mean-std",
                       "--hash-every", "3", *options)

    def test_evaluate_and_predict(self):
        for arguments in (["evaluate", self.one, self.held_out, "--json"],
                          ["evaluate", self.one / "best.safetensors", self.digits], ["predict", self.one, self.digits],
                          ["predict", self.one, self.held_out, "--format", "json", "--mini-batch-size", "7"]):
            with self.subTest(arguments[0]):
                expected = runs.run(*arguments, "--workers", "1")
                self.assertGreater(len(expected), 100)
                for workers in (3, 5, 32):  # of 32 each has one shard, the others compute several at once
                    self.assertEqual(runs.run(*arguments, "--workers", workers), expected)
        self.assertEqual(runs.run("predict", self.one, self.digits), runs.run("predict", self.same, self.digits))

    def test_evaluate_gives_the_validations_figures(self):
        printed = runs.run("evaluate", self.one, self.held_out, "--exact")
        self.assertIn(f"accuracy {runs.of_kind(self.one, 'end')[-1]['values']['accuracy']:.4f}", printed)
        logged = runs.of_kind(self.one, "validation")[-1]["values"]
        exact = json.loads(runs.run("evaluate", self.one, self.held_out, "--exact", "--json"))
        self.assertEqual(exact["accuracy"], logged["accuracy"])

    # Of 20 samples and of 4, linear layers are computed by different kernels.
    def test_exact_scores_have_the_shards_of_the_run(self):
        network, output = self.folder / "wide.json", self.folder / "wide"
        network.write_text(json.dumps(runs.WIDE))
        runs.train(self.digits, output, "--validation", self.held_out, *runs.SMALL, "--network", network,
                   "--max-steps", "3", "--mini-batch-size", "40", "--shards", "2", "--class-weights", "balanced",
                   "--precision", "32-true")
        logged = runs.of_kind(output, "validation")[-1]["values"]
        exact, named = (json.loads(runs.run("evaluate", output, self.held_out, "--exact", "--json", *options))
                        for options in ([], ["--mini-batch-size", "40", "--shards", "2"]))
        self.assertEqual(exact["loss"], named["loss"], "to the last bit")
        self.assertEqual(exact, named)
        self.assertEqual(exact["accuracy"], logged["accuracy"])
        self.assertAlmostEqual(exact["loss"], logged["loss"], delta=1e-5 * logged["loss"])

    def test_folded_batch_norms_change_scores_by_rounding(self):
        exact, folded = (json.loads(runs.run("predict", self.one, self.held_out, "--json", *options))
                         for options in (["--exact"], []))
        for one, other in zip(exact, folded, strict=True):
            for name, score in one["scores"].items():
                self.assertLessEqual(abs(other["scores"][name] - score), 1e-4 * score + 1e-6, "scores have six decimals")

    def test_predict_takes_the_test_images_of_a_folder_with_both_parts(self):
        folder = self.folder / "idx"
        folder.mkdir()
        for part, count in {"train": 3, "t10k": 2}.items():
            pixels = (bytes(range(256)) * 10)[:count * 28 * 28]
            (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + pixels)
            (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + bytes(range(count)))
        printed = runs.run("predict", self.one, folder)
        self.assertIn(f"the images of {folder}/t10k-images-idx3-ubyte\n", printed)
        self.assertIn("t10k-images-idx3-ubyte#1", printed)
        self.assertNotIn("train-images", printed)
        self.assertIn("t10k-images-idx3-ubyte#1", runs.run("layer", "show", self.one, folder, "--sample", "1"))

    def test_diff(self):
        printed = runs.run("diff", self.one, self.same)
        self.assertIn("same weights", printed)
        printed = runs.run("diff", self.one, self.other, status=1)
        self.assertIn("the weights differ from step 3 on", printed)
        self.assertIn("0.weight", printed)
        self.assertIn("same weights", runs.run("diff", self.one / "model.safetensors", self.same / "model.safetensors"))
        self.assertIn("neither", runs.run("diff", self.one, self.folder / "nowhere", status=2))

    def test_a_file_that_was_changed_does_not_get_the_runs_hash(self):
        recorded = json.loads((self.one / "result.json").read_text())["weights_hash"]
        self.assertIn(f"same weights: {recorded}", runs.run("diff", self.one, self.same))
        changed = self.folder / "changed"
        shutil.copytree(self.one, changed)
        shutil.copy(self.other / "model.safetensors", changed)
        for words in (["diff", changed, self.other / "model.safetensors"], ["report", changed, self.held_out]):
            self.assertNotIn(recorded, runs.run(*words))
        self.assertNotIn(recorded, (changed / "report.html").read_text())

    def test_weights_show_and_diff_read_files_of_torch_save(self):
        file = self.folder / "weights.pt"
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("archive/data.pkl", STATE_DICT)
            archive.writestr("archive/data/0", struct.pack("<2f", 0.5, -0.5))
        shown = json.loads(runs.run("weights", "show", file, "--json"))["tensors"][0]
        self.assertEqual((shown["name"], shown["least"], shown["greatest"]), ("weight", -0.5, 0.5))
        self.assertIn("same weights", runs.run("diff", file, file))

    def test_weights_show_places_the_greatest_numbers_in_bins(self):
        file = self.folder / "great.safetensors"
        header = json.dumps({"great": {"dtype": "F64", "shape": [3], "data_offsets": [0, 24]}}).encode()
        file.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<3d", -1.7e308, 0, 1.7e308))
        bins = json.loads(runs.run("weights", "show", file, "--json"))["tensors"][0]["histogram"]
        self.assertEqual([place for place, count in enumerate(bins) if count > 0], [0, 20, 39])


if __name__ == "__main__":
    unittest.main(verbosity=2)
