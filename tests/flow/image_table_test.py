#!/usr/bin/env python3
"""A CSV table of images is a data set as the same images in class folders are: the same weights on any number of
workers and ranks, after a resume, and the same scores."""

import unittest

import runs


class ImageTable(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.table, cls.held_out_table = runs.write_table(cls.digits), runs.write_table(cls.held_out)
        runs.train(cls.digits, cls.folder / "folders", *runs.SMALL, "--test", cls.held_out)

    def test_the_weights_are_those_of_class_folders(self):
        options = [*runs.SMALL, "--test", self.held_out_table]
        runs.train(self.table, self.folder / "table", *options)
        runs.run("run", "-n", 2, runs.PROGRAM, "train", self.table, "--output", self.folder / "ranks", *options)
        runs.train(self.table, self.folder / "cached", *options, "--cache", self.folder / "cache", "--memory-share", "0")
        for name in ("table", "ranks", "cached"):
            self.assertEqual(runs.weights(self.folder / name), runs.weights(self.folder / "folders"), name)
        self.assertIn("image table", runs.plan_line(self.folder / "table", "data"))
        for trained_on in (self.table, self.digits):
            self.assertIn("the run was trained on ", runs.run("evaluate", self.folder / "table", trained_on))
        self.assertNotIn("trained on", runs.run("evaluate", self.folder / "table", self.held_out_table))

    def test_a_run_goes_on_and_another_table_is_refused(self):
        output = self.folder / "paused"
        runs.train(self.table, output, *runs.SMALL, "--test", self.held_out, "--pause-after-step", "3")
        text = self.table.read_text()
        try:
            self.table.write_text("".join(text.splitlines(keepends=True)[:-1]))
            self.assertIn("since", runs.run("train", self.table, "--output", output, "--resume", status=2))
        finally:
            self.table.write_text(text)
        runs.run("train", self.table, "--output", output, "--resume")
        self.assertEqual(runs.weights(output), runs.weights(self.folder / "folders"))

    def test_it_is_scored_and_predicted(self):
        run = self.folder / "folders"
        accuracy = [line for line in runs.run("evaluate", run, self.held_out).splitlines() if "accuracy" in line]
        self.assertTrue(accuracy)
        for line in accuracy:
            self.assertIn(line, runs.run("evaluate", run, self.held_out_table))
        self.assertEqual(sorted(runs.run("predict", run, self.held_out_table).splitlines()),
                         sorted(runs.run("predict", run, self.held_out).splitlines()))


if __name__ == "__main__":
    unittest.main()
