#!/usr/bin/env python3
"""`sweep fetch` brings the folder of a sweep: all of it, what was missing after an interruption, a snapshot while the
sweep goes on. It writes into no other folder, and the copy is not taken for the sweep."""

import fcntl
import json
import os
import shutil
import stat
import subprocess
import tarfile
import unittest

import runs
from sweeps import lines, table


def files(folder):
    """Path and content of each file that a fetch brings, from sweep.json and the log on."""
    others = {"lock", "log.lock", "jobs.lock", "fetched.json", "fetched.lock"}
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*"))
            if file.is_file() and str(file.relative_to(folder)) not in others}


def entries(folder):
    return {str(entry.relative_to(folder)) for entry in folder.rglob("*")}


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

    def test_what_cannot_be_read_there_stays_here(self):
        sweep, copy = self.sweep("unreadable")
        self.fetch(sweep, copy)
        before = files(copy)
        # A path that is too long stands for all that the file server refuses.
        parts = [os.open(sweep / "trials/0001", os.O_RDONLY)]
        for _ in range(17):
            os.mkdir("d" * 250, dir_fd=parts[-1])
            parts.append(os.open("d" * 250, os.O_RDONLY, dir_fd=parts[-1]))
        for part in parts:
            os.close(part)
        self.assertIn("too long", self.fetch(sweep, copy, status=1))
        shutil.rmtree(sweep / "trials/0001" / ("d" * 250))
        if os.geteuid() != 0:
            (sweep / "trials").chmod(0)
            self.addCleanup((sweep / "trials").chmod, 0o700)
            self.assertIn(f'cannot list "{sweep}/trials"', self.fetch(sweep, copy, status=1))
        self.assertEqual(files(copy), before)

    def test_a_trial_that_has_lost_all_files_is_kept(self):
        sweep, copy = self.sweep("purged")
        self.fetch(sweep, copy)
        before = files(copy)
        shutil.rmtree(sweep / "trials/0001")
        for beside in sweep.glob("trials/0001.*"):
            beside.unlink()
        (sweep / "trials/0002/left").unlink()
        said = self.fetch(sweep, copy)
        self.assertIn("1 file removed", said)
        self.assertIn(f"kept {copy}/trials/0001: the sweep has lost all files of this trial", said)
        del before["trials/0002/left"]
        self.assertEqual(files(copy), before)
        # What a user has made begin again is no loss.
        runs.run("sweep", "restart", sweep, "1")
        self.assertIn("3 files removed", self.fetch(sweep, copy))
        self.assertEqual(files(copy), files(sweep))

    def checkpoint(self, sweep):
        folder = sweep / "trials/0000/checkpoints/step-00000001"
        folder.mkdir(parents=True)
        for name in ("DONE", "model.safetensors", "optimizer.safetensors"):
            (folder / name).write_text(name)
        return folder

    def test_a_half_checkpoint_does_not_stay(self):
        sweep, copy = self.sweep("half")
        folder = self.checkpoint(sweep)
        archive = self.folder / "half.tar"
        whole = self.far("whole-checkpoint", f'case $last in tar*) sh -c "$last" | tee {archive} ;; *) exec sh -c "$last" ;; esac')
        runs.run("sweep", "fetch", "--checkpoints", f"far:{sweep}", copy, environment=whole)
        self.assertEqual(files(copy), files(sweep))
        with tarfile.open(archive) as sent:
            self.assertEqual(os.path.basename(sent.getnames()[-1]), "DONE")
        # A sweep that goes on removes files while they are sent.
        shutil.rmtree(copy)
        half = self.far("half-checkpoint", f"""case $last in
            tar*) rm {folder}/model.safetensors; exec sh -c "$last" ;;
            *) sh -c "$last" | LC_ALL=C sed '1s/"is_going_on":false/"is_going_on":true/' ;;
            esac""")
        self.assertIn("the sweep goes on", runs.run("sweep", "fetch", "--checkpoints", f"far:{sweep}", copy, environment=half))
        self.assertTrue((copy / "trials/0000/left").exists())
        self.assertFalse((copy / "trials/0000/checkpoints").exists())

    def test_what_nobody_asked_for_does_not_stay(self):
        """The login node lists the files of a sweep, and sends others too."""
        sweep, copy = self.sweep("honest")
        planted = self.folder / "planted"
        shutil.copytree(sweep, planted)
        for name in ("jobs.json", "requests/ask-1", "claims/0", "trials/0000/more", "trials/0000/requests/one.json"):
            (planted / name).parent.mkdir(parents=True, exist_ok=True)
            (planted / name).write_text("planted")
        (planted / "fetched.json").symlink_to("/dev/null")
        (planted / "trials/link").symlink_to("0000")
        os.mkfifo(planted / "pipe")
        (planted / "trials/0001/left").chmod(0o6755)
        hostile = self.far("planting", f'case $last in tar*) tar -C {planted} -cf - . ;; *) exec sh -c "$last" ;; esac')
        runs.run("sweep", "fetch", f"far:{sweep}", copy, environment=hostile)
        self.assertEqual(files(copy), files(sweep))
        allowed = {*files(sweep), "fetched.json", "fetched.lock"}
        self.assertEqual({name for name in entries(copy) if not (copy / name).is_dir()}, allowed)
        self.assertFalse({"requests", "claims", "trials/0000/requests"} & entries(copy))
        self.assertFalse((copy / "fetched.json").is_symlink())
        self.assertIn("is a copy of the sweep", runs.run("sweep", "restart", copy, "1", status=2))
        self.assertEqual((copy / "trials/0001/left").stat().st_mode & (stat.S_ISUID | stat.S_ISGID), 0)

    def test_weights_that_are_left_out_are_whole_or_gone(self):
        sweep, copy = self.sweep("cut-weights")
        for trial in range(3):
            (sweep / f"trials/000{trial}/model.safetensors").write_text("weights")
        self.fetch(sweep, copy)
        (copy / "trials/0000/model.safetensors").write_text("wei")
        self.assertIn("1 file removed", self.fetch(sweep, copy, "--weights=false"))
        self.assertEqual({name for name in files(copy) if name.endswith(".safetensors")},
                         {"trials/0001/model.safetensors", "trials/0002/model.safetensors"})
        self.fetch(sweep, copy)
        self.assertEqual(files(copy), files(sweep))

    def test_a_copy_is_not_in_its_sweep(self):
        sweep, _ = self.sweep("outer")
        before = files(sweep)
        for target in (sweep / "copy", sweep / "trials/0000/a/b"):
            self.assertIn(f'"{target}" is in the sweep "{sweep}"', self.fetch(sweep, target, status=2))
        self.assertEqual(files(sweep), before)
        self.assertFalse((sweep / "copy").exists())

    def test_a_file_may_become_a_folder_and_a_folder_a_file(self):
        sweep, copy = self.sweep("kinds")
        self.fetch(sweep, copy)
        left = sweep / "trials/0001/left"
        left.unlink()
        (left / "deep").mkdir(parents=True)
        (left / "deep/one").write_text("one")
        self.fetch(sweep, copy)
        self.assertEqual(files(copy), files(sweep))
        shutil.rmtree(left)
        left.write_text("a file again")
        self.fetch(sweep, copy)
        self.assertEqual(files(copy), files(sweep))
        shutil.rmtree(left.parent)
        self.fetch(sweep, copy)
        self.assertNotIn("trials/0001", entries(copy))

    def test_a_copy_is_not_stopped_and_says_what_it_is(self):
        sweep, copy = self.sweep("asked")
        (sweep / "trials/0000/requests").mkdir()
        (sweep / "trials/0000/requests/one.json").write_text("{}")
        (sweep / "trials/0000/events").mkdir()
        (sweep / "trials/0000/events/rank-0-attempt-0.jsonl").write_text("")
        self.fetch(sweep, copy)
        for words, instead in ((["sweep", "stop", copy], ""), (["sweep", "stop", copy, "0"], " 0"),
                               (["stop", copy / "trials/0000"], " 0")):
            said = runs.run(*words, status=2)
            self.assertIn(f'"{copy}" is a copy of the sweep "{sweep}"', said)
            self.assertIn(f"hint: lockstep sweep stop {sweep}{instead};", said)
        self.assertFalse({"requests", "trials/0000/requests"} & entries(copy))
        for command in ("show", "watch"):
            self.assertIn(f"\na copy of {sweep}\n", runs.run("sweep", command, copy))
            self.assertNotIn("a copy of", runs.run("sweep", command, sweep))
        self.assertNotIn("a copy of", runs.run("sweep", "show", copy, "--json"))

    def test_one_fetches_at_a_time(self):
        sweep, copy = self.sweep("twice")
        copy.mkdir()
        (copy / "fetched.json.part").write_text("{")  # of one that was killed
        self.fetch(sweep, copy)
        with open(copy / "fetched.lock", "r+b") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            self.assertIn(f'another program fetches into "{copy}"', self.fetch(sweep, copy, status=2))
        self.fetch(sweep, copy)

    def test_a_program_there_that_knows_no_lists(self):
        older = self.far("older", "echo 'lockstep: there is no command \"sweep-files\"' >&2; exit 2")
        said = runs.run("sweep", "fetch", "far:search", self.folder / "of-older", environment=older, status=1)
        self.assertIn('the files of "far:search" cannot be listed', said)
        self.assertIn("hint: the program there must be of the version that is here, and the login shell there must print nothing",
                      said)
        self.assertIn('"far:" names no sweep', runs.run("sweep", "fetch", "far:", environment=older, status=2))
        large = self.far("large", f"""printf '%s\\n{2**63 - 1} 5 one\\0{2**63 - 1} 5 two\\0' '{json.dumps({"folder": "/there", "begun": 1, "is_going_on": False})}'""")
        self.assertIn("is damaged", runs.run("sweep", "fetch", "far:search", self.folder / "of-older", environment=large, status=1))

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
