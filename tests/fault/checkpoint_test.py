#!/usr/bin/env python3
"""Damaged checkpoints and manifests give one clear error; two programs do not share a run."""

import itertools
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "flow"))
import runs

FILES = ["manifest.json", "model.safetensors", "optimizer.safetensors"]


def some_of(files, harms):
    """Each file with one of as many harms, each harm once; all pairs with scripts/test --long."""
    few = list(zip(files, harms, strict=True))
    return runs.some(few, [pair for pair in itertools.product(files, harms) if pair not in few])


class Damage(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stopped = cls.folder / "stopped"
        runs.train(cls.digits, cls.stopped, "--validation", cls.held_out, *runs.SMALL, "--max-time", "0.001")

    def damaged(self, name):
        output = self.folder / name
        shutil.copytree(self.stopped, output)
        return output, runs.checkpoints(output)[-1]

    def resume_fails(self, output, *wanted, status=1):
        printed = runs.train(self.digits, output, "--resume", status=status)
        self.assertEqual(printed.count("lockstep: "), 1, printed)
        self.assertNotIn("what():", printed)
        for text in wanted:
            self.assertIn(text, printed)

    def test_truncated_files(self):
        for file, share in some_of(FILES, (0, 0.5, 0.999)):
            with self.subTest(f"{file} {share}"):
                output, checkpoint = self.damaged(f"truncated-{file}-{share}")
                whole = (checkpoint / file).read_bytes()
                (checkpoint / file).write_bytes(whole[:int(len(whole) * share)])
                self.resume_fails(output, file)

    def test_missing_files(self):
        for file in FILES:
            with self.subTest(file):
                output, checkpoint = self.damaged(f"missing-{file}")
                (checkpoint / file).unlink()
                self.resume_fails(output, file)

    def test_flipped_bytes(self):
        for file, place in some_of(FILES, (12, 0, -100)):
            with self.subTest(f"{file} {place}"):
                output, checkpoint = self.damaged(f"flipped-{file}-{place}")
                data = bytearray((checkpoint / file).read_bytes())
                data[place] ^= 0xFF
                (checkpoint / file).write_bytes(data)
                self.resume_fails(output, file)

    def test_truncated_options(self):
        output, _ = self.damaged("options")
        (output / "options.json").write_bytes((output / "options.json").read_bytes()[:200])
        self.resume_fails(output, "options.json")

    def test_torn_event_log(self):
        output, _ = self.damaged("torn")
        log = next((output / "events").glob("*.jsonl"))
        log.write_bytes(log.read_bytes()[:-7])
        whole = self.folder / "not torn"
        shutil.copytree(self.stopped, whole)
        for folder in (output, whole):
            self.assertIn("continuing after step 1", runs.train(self.digits, folder, "--resume"))
        self.assertEqual(runs.weights(output), runs.weights(whole))
        self.assertEqual(runs.of_kind(output, "end")[-1]["values"]["reason"], "finished")

    def test_damaged_event_log(self):
        output, _ = self.damaged("damaged log")
        log = next((output / "events").glob("*.jsonl"))
        damaged = log.read_bytes().replace(b'"kind":"step"', b'"kind";"step"')
        log.write_bytes(damaged)
        printed = runs.train(self.digits, output, "--resume", "--plot", "--max-time", "0.001")
        self.assertIn("continuing after step 1", printed)
        self.assertEqual(printed.count("warning: the curves lack a part of the earlier attempts: "), 1, printed)
        self.assertRegex(printed, f"attempts: line [0-9]+ of .*{log.name}")
        self.assertEqual(log.read_bytes(), damaged)
        runs.train(self.digits, output, "--resume")
        self.assertIn("is finished", runs.train(self.digits, output, "--resume"))

    def test_checkpoint_of_another_run(self):
        output, checkpoint = self.damaged("swapped")
        other = self.folder / "other"
        runs.train(self.digits, other, "--validation", self.held_out, *runs.SMALL, "--seed", "3", "--network", "mlp",
                   "--max-time", "0.001")
        shutil.rmtree(checkpoint)
        shutil.copytree(runs.checkpoints(other)[-1], checkpoint)
        self.resume_fails(output, "the checkpoint is of another run", status=2)

    def test_two_programs(self):
        output = self.folder / "shared"
        arguments = ["train", self.digits, "--output", output, *runs.SMALL, "--max-epochs", "5000"]
        first = subprocess.Popen(runs.command(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        try:
            while not (output / "options.json").exists():
                self.assertIsNone(first.poll())
                time.sleep(0.01)
            for resume in ([], ["--resume"]):
                printed = runs.run(*arguments, *resume, status=1)
                self.assertIn("another program is writing to the run", printed)
                self.assertIn(f"process {first.pid} on", printed)
            self.assertIsNone(first.poll())
        finally:
            first.terminate()
            first.wait(60)
        self.assertEqual(first.returncode, 128 + 15)


if __name__ == "__main__":
    unittest.main(verbosity=2)
