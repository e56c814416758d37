#!/usr/bin/env python3
"""evaluate and predict over ranks: what one process prints and writes, byte for byte, and one voice."""

import shutil
import unittest

import runs


class RanksPredict(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.folder / "model"
        runs.train(cls.digits, cls.model, *runs.SMALL)
        cls.few = cls.folder / "few"
        runs.write_digits({cls.few: 2})

    def over(self, ranks, *words, status=0):
        return runs.run("run", "-n", ranks, runs.PROGRAM, *words, status=status)

    def test_same_text_and_same_files(self):
        for folder, ranks, options in [(self.held_out, 1, []), (self.held_out, 3, ["--mini-batch-size", "16"]),
                                       (self.held_out, 2, ["--workers", "2", "--communicator", "gloo"]),
                                       (self.few, 3, [])]:
            with self.subTest(ranks=ranks, options=options):
                batch = options[:2] if ranks == 3 else []
                self.assertEqual(self.over(ranks, "evaluate", self.model, folder, "--json", *options),
                                 runs.run("evaluate", self.model, folder, "--json", *batch))
                ours, alone = self.folder / "ours.json", self.folder / "alone.json"
                self.assertEqual(self.over(ranks, "predict", self.model, folder, self.few, "--output", ours, *options),
                                 "")
                runs.run("predict", self.model, folder, self.few, "--output", alone, *batch)
                self.assertEqual(ours.read_bytes(), alone.read_bytes())
                ours.unlink()

    def test_what_a_layer_gives(self):
        ours, alone = (self.folder / f"{name}.safetensors" for name in ("ours", "alone"))
        wide = [self.held_out, self.few, "--layer", "2", "--mini-batch-size", "16"]
        text = ["predict", self.model, self.few, "--layer", "10", "--format", "csv"]
        runs.run("predict", self.model, *wide, "--output", alone)
        rows = runs.run(*text)
        for ranks, options in [(2, []), (3, ["--workers", "2"])]:
            with self.subTest(ranks=ranks):
                self.assertEqual(self.over(ranks, "predict", self.model, *wide, "--output", ours, *options), "")
                self.assertEqual(ours.read_bytes(), alone.read_bytes())
                ours.unlink()
                self.assertEqual(self.over(ranks, *text, *options), rows)

    def test_skipped_samples_are_named_once(self):
        folder = self.folder / "damaged"
        shutil.copytree(self.held_out, folder)
        bad = next((folder / "7").iterdir())
        bad.write_bytes(b"no image")
        self.assertEqual(self.over(2, "evaluate", self.model, folder, "--on-bad-sample", "skip"),
                         runs.run("evaluate", self.model, folder, "--on-bad-sample", "skip"))
        printed = self.over(2, "evaluate", self.model, folder, status=1)
        self.assertIn(bad.name, printed)

    def test_another_model_on_a_rank(self):
        other = self.folder / "other"
        runs.train(self.digits, other, *runs.SMALL, "--seed", "1")
        for words in (f'evaluate "$1" "{self.held_out}"',
                      f'predict "$1" "{self.held_out}" --layer 2 --output "{self.folder / "none"}"'):
            script = f'[ $RANK = 1 ] && set -- "{other}" || set -- "{self.model}"; exec "{runs.PROGRAM}" {words}'
            self.assertRegex(runs.run("run", "-n", 2, "sh", "-c", script, status=2),
                             r"rank 1 on \S+ cannot work with rank 0: its weights is")


if __name__ == "__main__":
    unittest.main(verbosity=2)
