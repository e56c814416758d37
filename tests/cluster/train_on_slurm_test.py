#!/usr/bin/env python3
"""lockstep train --execution parallel on a real Slurm of two nodes: outside of an allocation it is a job of the default
profile that is shown as if it ran here, inside of one it uses all of it; the weights are those of one thread."""

import contextlib
import json
import os
import pathlib
import signal
import unittest

import pools_on_slurm
import runs
import slurm

OPTIONS = [*runs.SMALL, "--gradient-clip", "1", "--augment", "shift"]
LONG = ["--max-epochs", "60"]
PARALLEL = ["--execution", "parallel"]


class TrainOnSlurm(pools_on_slurm.OnSlurm, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, more in (("alone", []), ("alone-long", LONG)):
            runs.train(cls.digits, cls.folder / name, *OPTIONS, *more, "--workers", "1")

    def start_training(self, *words, before=()):
        return self.start(*before, *runs.command("train", self.digits, *OPTIONS, *PARALLEL, *words))

    def interrupt(self, run):
        """Ctrl-C for the command that was typed, which names its options with a space."""
        found = []
        for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = file.read_bytes().decode().split("\0")
                if words[:2] == [str(runs.PROGRAM), "train"] and words[-2] == str(run) and PARALLEL[0] in words:
                    found.append(int(file.parent.name))
        self.assertEqual(len(found), 1)
        os.kill(found[0], signal.SIGINT)

    def lockstep(self, *words):
        return self.finish(self.start(*runs.command(*words)))[0]

    def check_ranks(self, run, expected):
        self.assertEqual(runs.weights(run), runs.weights(self.folder / expected))
        self.assertIn("on each of 4 ranks, over gloo", runs.plan_line(run, "workers"))

    def test_outside_of_an_allocation_it_is_a_job_that_is_shown_here(self):
        before = len(self.states())
        run = self.folder / "outside"
        (self.folder / "options.json").write_text(json.dumps({"max-epochs": 1, "hash-every": 5}))
        printed, said = self.finish(self.start_training("--config", "options.json", "--output", run))
        self.check_ranks(run, "alone")
        self.assertIn('of the profile "ours" trains; run folder ' + str(run), said)
        self.assertRegex(printed, r"epoch +2(.|\n)*job \d+: ended")
        self.assertTrue(runs.of_kind(run, "hash"))
        self.assertEqual(len(self.states()), before + 1)
        # Refused here, before the queue.
        client = self.start_training("--output", run)
        _, said = client.communicate(timeout=60)
        self.assertEqual(client.returncode, 2, said)
        self.assertIn("already contains a run", said)
        self.assertEqual(len(self.states()), before + 1)

    def test_the_run_folder_has_the_name_that_it_would_have_without_a_cluster(self):
        clients = [self.start_training("--max-epochs", "1") for _ in range(2)]
        for client in clients:
            self.finish(client)
        found = sorted((self.folder / "runs").glob(f"{self.digits.name}-*"))
        self.assertEqual([run.name for run in found], [f"{self.digits.name}-001", f"{self.digits.name}-002"])
        self.assertEqual(*(runs.weights(run) for run in found))

    def test_ctrl_c_detaches_and_the_job_goes_on(self):
        run = self.folder / "detached"
        client = self.start_training(*LONG, "--output", run)
        runs.wait_for(lambda: runs.steps_done(run) > 30)
        self.interrupt(run)
        _, said = client.communicate(timeout=30)
        self.assertEqual(client.returncode, 130, said)
        self.assertRegex(said, r"detached; the job goes on: lockstep job attach \d+")
        job = said.split()[-1]
        self.assertIn("job " + job + ": ended", self.lockstep("job", "attach", job))
        self.check_ranks(run, "alone-long")

    def test_a_cross_validation_is_shown_fold_by_fold(self):
        run = self.folder / "folds"
        printed, _ = self.finish(self.start_training("--validation-folds", "2", "--output", run))
        self.assertRegex(printed, r"fold 1 of 2(.|\n)*epoch(.|\n)*fold 2 of 2(.|\n)*epoch(.|\n)*job \d+: ended")
        self.assertIn("on each of 4 ranks, over gloo", runs.plan_line(run / "fold-2", "workers"))

    def test_a_users_program_sees_its_surroundings_and_gives_files_back(self):
        """Variables, --path and --ship on two machines, and what it writes comes back."""
        tools, work = self.folder / "tools", self.folder / "work"
        for folder in (tools, work):
            folder.mkdir()
        (tools / "a_tool").write_text("#!/bin/sh\necho tool on $(hostname) says $WORD\n")
        (tools / "a_tool").chmod(0o755)
        (work / "ours").write_text("#!/bin/sh\nWORD=$OUR_WORD a_tool\ncat $LOCKSTEP_SHIPPED/data.txt\n"
                                   "echo row >out-$SLURM_PROCID.csv\n")
        (work / "ours").chmod(0o755)
        (work / "data.txt").write_text("shipped\n")
        self.write_profile("ours", **{**self.PROFILE, "workers": 2, "environment": ["OUR_WORD=hello"]})
        self.addCleanup(self.write_profile, "ours", **self.PROFILE)
        submitted, _ = self.finish(self.start("env", "-C", work, *runs.command(
            "batch", "--path", tools, "--ship", f"{work}/ours,{work}/data.txt", "--fetch", "*.csv", "--", "ours")))
        for file in ("ours", "data.txt"):
            (work / file).unlink()  # what was shipped is the job's own
        job = submitted.split()[-1]
        self.lockstep("job", "wait", job)
        diary = self.lockstep("job", "diary", job).splitlines()
        for rank in (0, 1):
            self.assertIn(f"{rank}: tool on machine-{rank} says hello", diary)
            self.assertIn(f"{rank}: shipped", diary)
        self.lockstep("job", "fetch", job, self.folder / "back")
        self.assertEqual(sorted(file.name for file in (self.folder / "back").glob("*.csv")), ["out-0.csv", "out-1.csv"])
        shown = json.loads(self.lockstep("job", "show", job, "--json"))
        self.assertGreater(shown["started"], shown["submitted"] - 1)

    def test_a_job_that_fails_says_where_the_reason_is(self):
        client = self.start(*runs.command("train", self.folder / "nothing", *PARALLEL, "--output", self.folder / "failed"))
        printed, said = client.communicate(timeout=runs.SECONDS_PER_RUN)
        self.assertEqual(client.returncode, 1, said)
        self.assertRegex(printed, r'job \d+: failed: cannot open ".*nothing": No such file')
        hint = said.splitlines()[-1].split()
        self.assertEqual(hint[:4], ["hint:", "lockstep", "job", "diary"])
        self.assertIn("nothing", self.lockstep("job", "diary", hint[4]))

    def test_in_an_allocation_it_uses_all_of_it(self):
        before = len(self.states())
        run = self.folder / "in-allocation"
        self.finish(self.start_training("--output", run, before=["salloc", "--nodes=2", "--ntasks=4"]))
        self.check_ranks(run, "alone")
        run = self.folder / "in-step"
        self.finish(self.start_training("--output", run, before=["srun", "--nodes=2", "--ntasks=4"]))
        self.check_ranks(run, "alone")
        self.assertEqual(len(self.states()), before + 2)  # those of salloc and srun

    def test_ctrl_c_in_an_allocation_saves(self):
        run = self.folder / "saved"
        client = self.start_training(*LONG, "--output", run, before=["salloc", "--nodes=2", "--ntasks=4"])
        runs.wait_for(lambda: runs.steps_done(run) > 30)
        self.interrupt(run)
        _, said = client.communicate(timeout=60)
        self.assertEqual(client.returncode, 130, said)
        self.assertGreater(len(runs.checkpoints(run)), 0, said)
        self.finish(self.start_training(*LONG, "--resume", "--output", run, before=["salloc", "--nodes=2", "--ntasks=4"]))
        self.check_ranks(run, "alone-long")


if __name__ == "__main__":
    slurm.require(*slurm.PROGRAMS)
    unittest.main()
