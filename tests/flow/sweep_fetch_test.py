#!/usr/bin/env python3
"""`sweep fetch` brings the folder of a sweep: all of it, what was missing after an interruption, a snapshot while the
sweep goes on. It writes into no other folder, and the copy is not taken for the sweep."""

import json
import os
import shutil
import subprocess
import unittest

import runs
from sweeps import lines, table


def files(folder):
    """Path and content of each file that a fetch brings, from sweep.json and the log on."""
    others = {"lock", "log.lock", "jobs.lock", "fetched.json"}
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*"))
            if file.is_file() and str(file.relative_to(folder)) not in others}


class SweepFetch(runs.TestFolders, unittest.TestCase):
    def sweep(self, name):
        """Each trial leaves a file in its folder."""
        runs.run("sweep", "--search", "grid", "--x", "1..3", "--trials", "1", "--output", self.folder / name, "--", "sh", "-c",
                 "echo result $1; echo $1 > $LOCKSTEP_TRIAL_FOLDER/left", "name", "{x}")
        return self.folder / name, self.folder / f"copy-of-{name}"

    def fetch(self, *words, status=0):
        return runs.run("sweep", "fetch", *words, status=status)

    def test_the_copy_has_all_and_is_no_sweep_to_go_on_with(self):
        sweep, copy = self.sweep("whole")
        runs.run("sweep", "annotate", sweep, "1", "a note")
        runs.run("report", sweep)
        self.assertIn(f" in {copy}\n", self.fetch(sweep, copy))
        self.assertEqual(files(copy), files(sweep))
        self.assertEqual(table(copy), table(sweep))
        self.assertIn(f'is a copy of "{sweep}"; run the command there', runs.run("sweep", "best", copy))
        for command in (["sweep", "--resume", "--output", copy], ["sweep", "restart", copy, "1"],
                        ["sweep", "annotate", copy, "1", "another"]):
            said = runs.run(*command, status=2)
            self.assertIn(f'"{copy}" is a copy of the sweep "{sweep}"', said)
            self.assertIn(f"hint: lockstep sweep {command[1]} ".replace("--resume", "--resume --output") + str(sweep), said)
        self.assertEqual(files(copy), files(sweep))
        # The user says so.
        (copy / "fetched.json").unlink()
        runs.run("sweep", "--resume", "--output", copy, "--count", "3")

    def test_it_goes_on_where_it_was(self):
        sweep, copy = self.sweep("interrupted")
        self.fetch(sweep, copy)
        self.assertIn(f"nothing new for {copy}\n", self.fetch(sweep, copy))
        (copy / "trials/0001/left").unlink()
        (copy / "trials/0002/left").write_text("")
        (copy / "mine.txt").write_text("of the user")
        self.assertIn(f"2 files in {copy}\n", self.fetch(sweep, copy))
        self.assertEqual((copy / "mine.txt").read_text(), "of the user")
        (copy / "mine.txt").unlink()
        self.assertEqual(files(copy), files(sweep))
        (sweep / "trials/0001/left").unlink()
        self.fetch(sweep, copy)
        self.assertEqual(files(copy), files(sweep))

    def test_weights_and_checkpoints_are_chosen(self):
        sweep, copy = self.sweep("chosen")
        for name in ("model.safetensors", "checkpoints/step-1/model.safetensors"):
            file = sweep / "trials/0000" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(name)

        def fetched():
            return {name for name in files(copy) if name.endswith(".safetensors")}

        self.fetch(sweep, copy, "--weights=false")
        self.assertEqual(fetched(), set())
        self.fetch(sweep, copy)
        self.assertEqual(fetched(), {"trials/0000/model.safetensors"})
        self.fetch(sweep, copy, "--checkpoints")
        self.assertEqual(files(copy), files(sweep))

    def test_other_folders_are_left_alone(self):
        sweep, copy = self.sweep("first")
        other, _ = self.sweep("second")
        before = files(other)
        self.assertIn("is another sweep, and no copy", self.fetch(sweep, other, status=2))
        self.assertIn("is another sweep, and no copy", self.fetch(sweep, sweep, status=2))
        self.assertEqual(files(other), before)
        self.fetch(sweep, copy)
        self.assertIn(f'is a copy of another sweep, "{sweep}"', self.fetch(other, copy, status=2))
        full = self.folder / "full"
        full.mkdir()
        (full / "one").touch()
        self.assertIn("has other files", self.fetch(sweep, full, status=2))
        self.assertEqual([file.name for file in full.iterdir()], ["one"])
        self.assertIn("is not the folder of a sweep", self.fetch(full, self.folder / "none", status=1))
        self.assertFalse((self.folder / "none").exists())
        # A link would lead out of the copy.
        shutil.rmtree(copy / "trials/0001")
        (copy / "trials/0001").symlink_to(full)
        self.assertIn("is a symbolic link", self.fetch(sweep, copy, status=2))
        (copy / "trials/0001").unlink()
        shutil.rmtree(sweep)
        self.sweep("first")
        self.assertIn("is a copy of an earlier sweep", self.fetch(sweep, copy, status=2))

    def test_a_snapshot_of_a_sweep_that_goes_on(self):
        sweep, copy, go = self.folder / "going", self.folder / "snapshot", self.folder / "go"
        script = f"test $1 = 1 || while ! test -e {go}; do sleep 0.05; done; echo result $1"
        program = subprocess.Popen(runs.command("sweep", "--search", "grid", "--x", "1..3", "--trials", "1", "--output", sweep,
                                                "--", "sh", "-c", script, "name", "{x}"), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(program.kill)
        runs.wait_for(lambda: len(lines(sweep, "begin")) == 2)
        self.assertIn("the sweep goes on; ", self.fetch(sweep, copy))
        shown = runs.run("sweep", "show", copy)
        self.assertIn("2 of 3 trials: 1 waiting, 1 ended;", shown)
        self.assertNotIn("the sweep goes on", shown)
        self.assertIn("is a copy of the sweep", runs.run("sweep", "--resume", "--output", copy, status=2))
        go.touch()
        self.assertEqual(program.wait(), 0)
        self.assertNotIn("goes on", self.fetch(sweep, copy))
        self.assertEqual(table(copy), table(sweep))

    def far(self, name, script):
        """Variables with which the profile `far` has a login node, whose ssh is this script of a shell. $last is the command
        there."""
        folder = self.folder / name
        (folder / "lockstep/clusters").mkdir(parents=True)
        (folder / "lockstep/clusters/far.json").write_text(json.dumps({"login": "login", "program": str(runs.PROGRAM)}))
        (folder / "ssh").write_text(f"#!/bin/sh\nfor last; do :; done\n{script}\n")
        (folder / "ssh").chmod(0o755)
        return {"XDG_CONFIG_HOME": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"}

    def test_a_connection_that_breaks(self):
        sweep, copy = self.sweep("cut")
        for trial in range(3):
            (sweep / f"trials/000{trial}/left").write_bytes(os.urandom(300_000))
        breaks = self.far("breaks", 'case $last in tar*) sh -c "$last" | head -c 500000 ;; *) exec sh -c "$last" ;; esac')
        said = runs.run("sweep", "fetch", f"far:{sweep}", copy, environment=breaks, status=1)
        self.assertIn(f'the files of "far:{sweep}" did not all come', said)
        self.assertEqual((copy / "trials/0000/left").read_bytes(), (sweep / "trials/0000/left").read_bytes())
        said = runs.run("sweep", "fetch", f"far:{sweep}", copy, environment=self.far("whole-again", 'exec sh -c "$last"'))
        self.assertRegex(said, r"fetching \d files, 58\d\.\d KB")
        self.assertEqual(files(copy), files(sweep))
        self.assertIn(f'a copy of "far:{sweep}"', runs.run("sweep", "best", copy))
        self.assertIn("is a copy of another sweep", self.fetch(sweep, copy, status=2))

    def test_names_that_lead_elsewhere(self):
        heading = json.dumps({"folder": "/there", "begun": 1, "is_going_on": False})
        for number, path in enumerate(("../stray", "/stray", "trials/../../stray", "./stray", "trials/", "", "fetched.json")):
            hostile = self.far(f"hostile-{number}", f"printf '%s\\n5 5 %s\\0' '{heading}' '{path}'")
            said = runs.run("sweep", "fetch", "far:there", self.folder / "taken", environment=hostile, status=1)
            self.assertIn(f'the sweep cannot have a file "{path}"', said)
        damaged = self.far("damaged", "echo Welcome to the cluster")
        self.assertIn("the list of the sweep's files is damaged",
                      runs.run("sweep", "fetch", "far:there", self.folder / "taken", environment=damaged, status=1))
        self.assertFalse((self.folder / "taken").exists())

    def test_a_long_output_stays_short_on_the_disk(self):
        """Its middle takes no space (docs/sweeps.md)."""
        sweep, copy = self.sweep("long")
        output = sweep / "trials/0000.out"
        with open(output, "r+b") as file:
            file.truncate(1 << 30)
        if os.stat(output).st_blocks > 1000:
            self.skipTest("the file system has no holes")
        self.fetch(sweep, copy)
        self.assertEqual((copy / "trials/0000.out").stat().st_size, 1 << 30)
        self.assertLess((copy / "trials/0000.out").stat().st_blocks, 1000)


if __name__ == "__main__":
    unittest.main()
