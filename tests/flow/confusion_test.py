#!/usr/bin/env python3
"""confusion.csv: what a run answered in its best validation. Each trial of a sweep keeps it, also without its weights, and
reports show it."""

import csv
import re
import shutil
import subprocess
import unittest

import runs
from sweeps import table

TRIALS = 4
TRAINING = ["--recipe", "plain", "--image-size", "20x20", "--shards", "4", "--max-steps", "6", "--validate-every", "2"]
RIGHT = re.compile(r'<td class="right[^>]*>(\d+)</td>')  # cells of a diagonal
HOSTILE = ["a,b", 'say "no"', "two\nlines", " blanks ", "<b>bold"]


def matrix(run):
    """The names and the counts of the run's confusion.csv."""
    with open(run / "confusion.csv", newline="") as file:
        head, *rows = csv.reader(file)
    assert head[0] == "true class" and head[1:] == [row[0] for row in rows], head
    return head[1:], [[int(cell) for cell in row[1:]] for row in rows]


def matrices_in(page):
    return re.findall(r'aria-label="confusion matrix of trial (\d+)"><table class="matrix', page.read_text())


class Confusion(runs.TestFolders, unittest.TestCase):
    def sweep(self, workers):
        output = self.folder / f"sweep-{workers}"
        runs.run("sweep", "--count", TRIALS, "--trials", 2, "--workers", workers, "--seed", 1, "--search", "random",
                 "--keep-weights", 1, "--learning-rate", "0.001..0.1:log", "--output", output, "--", "train", self.digits,
                 "--validation", self.held_out, *TRAINING)
        return output

    def test_each_trial_of_a_sweep(self):
        one, two = self.sweep(1), self.sweep(2)
        rows = table(one)
        self.assertEqual([row["state"] for row in rows], ["ended"] * TRIALS)
        for row in rows:
            run = f"trials/{row['trial']:04}"
            names, counts = matrix(one / run)
            self.assertEqual(names, [str(digit) for digit in range(10)])
            self.assertEqual(sum(map(sum, counts)), 40)
            self.assertEqual(sum(counts[i][i] for i in range(10)) / 40, row["result"])
            self.assertEqual((two / run / "confusion.csv").read_bytes(), (one / run / "confusion.csv").read_bytes())
        self.assertEqual(len(list(one.glob("trials/*/model.safetensors"))), 1)
        # Compared trials first, then the others.
        runs.run("report", one, "--trials", "1,0")
        shown = matrices_in(one / "report.html")
        self.assertEqual(shown[:2], ["1", "0"])
        self.assertEqual(sorted(shown), [str(trial) for trial in range(TRIALS)])
        self.check_weights_that_were_not_kept(one, next(row["trial"] for row in rows if not
                                                        (one / f"trials/{row['trial']:04}/model.safetensors").exists()))
        # One that is damaged costs the page only itself.
        (one / "trials/0002/confusion.csv").write_text("true class,a\na,many\n")
        printed = runs.run("report", one, "--trials", "1")
        self.assertIn("the report leaves out a confusion matrix", printed)
        self.assertIn('confusion.csv" is damaged: "many" is no number of samples', printed)
        self.assertEqual(sorted(matrices_in(one / "report.html")), ["0", "1", "3"])

    def test_a_compared_trial_has_the_matrix_of_its_result(self):
        output = self.folder / "best"
        runs.run("sweep", "--count", 4, "--search", "random", "--seed", 2, "--learning-rate", "0.003..0.02:log", "--output", output,
                 "--", "train", self.digits, "--validation", self.held_out, "--network", "lenet", "--image-size", "20x20", "--shards", 4,
                 "--validate-every", 1, "--max-steps", 16)
        rows = {str(row["trial"]): row["result"] for row in table(output)}
        shares = {}
        for name, more in (("best", ()), ("last", ("--weights", "last"))):
            runs.run("report", output, *more)
            cards = (output / "report.html").read_text().split('<div id="matrices">')[1].split("<h3>Trial ")[1:]
            shares[name] = {card.split(":")[0]: sum(map(int, RIGHT.findall(card.split("</table>")[0]))) / 40 for card in cards[:4]}
            words = {"best": "weights of the best validation, on 40 ", "last": "weights after the last step, on 40 "}[name]
            self.assertEqual([words in card for card in cards[:4]], [True] * 4)
        self.assertEqual(shares["best"], rows)
        self.assertNotEqual(shares["last"], rows, "else the test shows nothing")

    def check_weights_that_were_not_kept(self, sweep, trial):
        run = sweep / f"trials/{trial:04}"
        for weights in ("last", "best"):
            printed = runs.run("evaluate", run, self.held_out, "--weights", weights, status=1)
            self.assertIn("has no weights: the sweep keeps those of its best trials only (--keep-weights)\n", printed)
            self.assertIn(f"hint: lockstep sweep show {sweep} --sort result lists the best first", printed)
        runs.run("report", sweep, "--trials", trial)
        self.assertIn("has no weights: the sweep keeps those of its best trials only (--keep-weights)",
                      (sweep / "report.html").read_text())
        (sweep / "fetched.json").write_text("{}")
        runs.run("report", sweep, "--trials", trial)
        self.assertIn("is a copy, and these were not kept by the sweep, or not copied", (sweep / "report.html").read_text())
        (sweep / "fetched.json").unlink()
        printed = runs.run("report", run)
        self.assertIn("the report has the confusion matrix of the best validation, and no mistakes: ", printed)
        self.assertIn("the sweep keeps those of its best trials only", printed)
        self.assertIn('<table class="matrix', (run / "report.html").read_text())
        printed = runs.run("runs", "show", sweep, status=1)
        self.assertIn("is a sweep, with a run folder for each trial", printed)
        self.assertIn(f"hint: lockstep sweep show {sweep} lists its trials\n", printed)

    def test_a_file_of_a_program_of_ones_own(self):
        output = self.folder / "program"
        runs.run("sweep", "--search", "grid", "--x", "1,2", "--output", output, "--", "sh", "-c",
                 'echo epoch,loss > "$LOCKSTEP_TRIAL_FOLDER/confusion.csv"; echo "result $0"', "{x}")
        self.assertNotIn("confusion", runs.run("report", output))

    def test_a_resumed_run(self):
        options = ["--validation", self.held_out, *runs.SMALL, "--validate-every", "2"]
        whole, parts = self.folder / "whole", self.folder / "parts"
        runs.train(self.digits, whole, *options)
        runs.train(self.digits, parts, *options, "--max-time", "0.001")
        self.assertEqual(sum(map(sum, matrix(parts)[1])), 40, "its only validation, which decides nothing")
        runs.train(self.digits, parts, "--resume", "--pause-after-step", "5", "--workers", "2")
        runs.train(self.digits, parts, "--resume", "--workers", "3")
        self.assertEqual(runs.results(parts), runs.results(whole))
        best = [event["values"]["accuracy"] for event in runs.of_kind(whole, "validation") if event["values"]["best"]][-1]
        counts = matrix(whole)[1]
        self.assertEqual(sum(counts[i][i] for i in range(10)) / 40, best)

    def write_classes(self, data, names):
        for number, name in enumerate(names):
            (data / name).mkdir(parents=True)
            for image in range(4):
                (data / name / f"{image}.pgm").write_bytes(b"P5 4 4 255\n" + bytes((16 * image + number + i) % 256
                                                                                   for i in range(16)))

    def test_names_of_classes(self):
        data, run = self.folder / "hostile", self.folder / "hostile run"
        self.write_classes(data, HOSTILE)
        runs.train(data, run, "--validation", data, "--network", "mlp", "--max-steps", 2)
        names, counts = matrix(run)
        self.assertEqual(names, sorted(HOSTILE))
        self.assertEqual([sum(row) for row in counts], [4] * len(HOSTILE))
        # Without its data and weights, the page of the run has what it kept.
        shutil.rmtree(data)
        (run / "model.safetensors").unlink()
        runs.run("report", run)
        page = (run / "report.html").read_text()
        self.assertIn("On 20 labels of the best validation", page)
        self.assertNotIn("<b>bold", page)
        runs.run("runs", "remove", run, "--yes")
        self.assertFalse(run.exists())

    def test_a_resume_without_a_checkpoint_keeps_nothing(self):
        data, run = self.folder / "three", self.folder / "other data"
        self.write_classes(data, ["a", "b", "c"])
        killed = subprocess.Popen(runs.command("train", self.digits, "--output", run, "--validation-split", 0.2,
                                               "--network", "mlp", "--max-steps", 400000, "--validate-every", 1,
                                               "--checkpoint-every", 1000000),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        runs.wait_for(lambda: (run / "confusion.csv").exists())
        killed.kill()
        killed.wait()
        runs.train(data, run, "--resume", "--network", "mlp", "--validation-split", 0, "--max-steps", 2)
        self.assertFalse((run / "confusion.csv").exists())
        self.assertFalse((run / "best.safetensors").exists())

    def test_too_many_classes(self):
        data, run = self.folder / "many", self.folder / "many run"
        self.write_classes(data, [f"{number:03}" for number in range(151)])
        runs.train(data, run, "--validation", data, "--network", "mlp", "--max-steps", 1)
        self.assertTrue((run / "best.safetensors").exists())
        self.assertFalse((run / "confusion.csv").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
