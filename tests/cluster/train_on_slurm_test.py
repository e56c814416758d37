#!/usr/bin/env python3
"""lockstep train --execution parallel on a real Slurm of two nodes: outside of an allocation it is a job of the default
profile that is shown as if it ran here, inside of one it uses all of it; the weights are those of one thread."""

import contextlib
import json
import os
import pathlib
import re
import signal
import unittest

import pools_on_slurm
import runs
import slurm

OPTIONS = [*runs.SMALL, *runs.NO_MEETINGS, "--gradient-clip", "1", "--augment", "shift"]
EPOCHS = 60
LONG = ["--max-epochs", str(EPOCHS)]
PARALLEL = ["--execution", "parallel"]
# In the place of sbatch: the client is killed in the middle of its submission.
KILLS_ITS_CLIENT = """#!/bin/sh
[ "$1" != --version ] || exec /usr/bin/sbatch --version
{before}
kill -9 $PPID
"""
TAKES = '/usr/bin/sbatch "$@" >/dev/null'


class TrainOnSlurm(pools_on_slurm.OnSlurm, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, more in (("alone", []), ("alone-long", LONG)):
            runs.train(cls.digits, cls.folder / name, *OPTIONS, *more, "--workers", "1")

    def start_training(self, *words, before=()):
        return self.start(*before, *runs.command("train", self.digits, *OPTIONS, *PARALLEL, *words))

    def interrupt(self, run, how=signal.SIGINT):
        """Ctrl-C for the command that was typed, which names its options with a space."""
        found = []
        for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = file.read_bytes().decode().split("\0")
                if words[:2] == [str(runs.PROGRAM), "train"] and words[-2] == str(run) and PARALLEL[0] in words:
                    found.append(int(file.parent.name))
        self.assertEqual(len(found), 1)
        os.kill(found[0], how)

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
        _, said = client.communicate(timeout=60)  # squeue, which may be waiting, has 30 s for its answer
        self.assertEqual(client.returncode, 130, said)
        self.assertRegex(said, r"detached; the job goes on: lockstep job attach \d+")
        job = said.split()[-1]
        self.assertIn("job " + job + ": ended", self.lockstep("job", "attach", job))
        self.check_ranks(run, "alone-long")

    def check_another_process_has_all(self, job, run):
        """Of a job that ran once: progress, diary, results and curves."""
        for command in ("attach", "diary"):
            printed = self.lockstep("job", command, job)
            self.assertEqual([int(epoch) for epoch in re.findall(r"epoch +(\d+)/.* held-out loss", printed)],
                             list(range(1, EPOCHS + 1)), printed)
        self.assertIn(f"job {job}: ended", self.lockstep("job", "attach", job))
        self.check_ranks(run, "alone-long")
        back = self.folder / f"back-{job}"
        self.lockstep("job", "fetch", job, back)
        self.assertEqual(runs.sha256(back / "run/model.safetensors"), runs.weights(run)[0])
        self.assertEqual((back / "diary").read_text(), self.lockstep("job", "diary", job))
        for kind in ("step", "validation"):
            steps = [event["step"] for event in runs.of_kind(back / "run", kind)]
            self.assertEqual(steps, sorted(set(steps)), kind)
            self.assertEqual(steps[-1], EPOCHS * self.steps_per_epoch(run), kind)
        self.assertEqual(len(runs.of_kind(back / "run", "validation")), EPOCHS)
        self.check_one_attempt(job)

    def steps_per_epoch(self, run):
        return runs.of_kind(run, "plan")[0]["values"]["steps_per_epoch"]

    def check_one_attempt(self, job):
        self.assertEqual(len(list((self.folder / "jobs" / job).glob("attempt-*/result.json"))), 1)

    def job_of(self, client):
        """Which it says as soon as it has submitted it."""
        return re.match(r"job (\d+) of the profile", client.stderr.readline())[1]

    def shown(self, job):
        return json.loads(self.lockstep("job", "show", job, "--json"))

    def hold_all_machines(self):
        other = self.cluster.srun("--nodes=2", "--ntasks=2", "--exclusive", "sleep", "600")
        self.cluster.wait("the other job", lambda: self.cluster.idle_nodes() == 0)
        return other

    def let_go(self, other):
        self.cluster.ask("scancel", "--name=sleep")
        other.communicate()

    def test_a_killed_client_that_was_attached(self):
        before = len(self.states())
        run = self.folder / "killed"
        client = self.start_training(*LONG, "--output", run)
        job = self.job_of(client)
        runs.wait_for(lambda: runs.steps_done(run) > 30)
        self.interrupt(run, signal.SIGKILL)
        client.communicate(timeout=30)
        self.check_another_process_has_all(job, run)
        self.assertEqual(len(self.states()), before + 1)

    def test_a_killed_client_whose_job_waited(self):
        other = self.hold_all_machines()
        before = len(self.states())
        run = self.folder / "killed-early"
        client = self.start_training(*LONG, "--output", run)
        job = self.job_of(client)
        self.interrupt(run, signal.SIGKILL)
        client.communicate(timeout=30)
        self.assertEqual(self.shown(job)["state"], "queued")
        self.let_go(other)
        self.check_another_process_has_all(job, run)
        self.assertEqual(len(self.states()), before + 1)

    def submit_and_be_killed(self, name, before=""):
        """The job of a client that was killed while sbatch ran; before: what sbatch did until then."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "sbatch").write_text(KILLS_ITS_CLIENT.format(before=before))
        (folder / "sbatch").chmod(0o755)
        client = self.start("env", f"PATH={folder}:{os.environ['PATH']}", *runs.command(
            "batch", "--name", name, "--", "sh", "-c", "echo it ran"))
        printed, _ = client.communicate(timeout=60)
        self.assertEqual(printed, "")
        self.assertNotEqual(client.returncode, 0)
        return self.shown(name)["id"]

    def check_it_ran(self, job):
        self.lockstep("job", "wait", job)
        self.assertEqual(self.lockstep("job", "diary", job).count("it ran"), 4)  # ranks
        self.check_one_attempt(job)

    def test_a_client_that_was_killed_while_it_submitted(self):
        """Whether Slurm took the job or not: it runs once, or is cancelled."""
        before = len(self.states())
        self.check_it_ran(self.submit_and_be_killed("taken", TAKES))
        self.assertEqual(len(self.states()), before + 1)

        job = self.submit_and_be_killed("not-taken")
        shown = self.shown(job)
        self.assertEqual(shown["state"], "queued")
        self.assertIn(f"lockstep job requeue {job}", shown["reason"])
        self.lockstep("job", "requeue", job)
        self.check_it_ran(job)
        self.assertEqual(len(self.states()), before + 2)

        job = self.submit_and_be_killed("given-up")
        self.assertIn("cancelled", self.lockstep("job", "cancel", job))
        self.assertEqual(self.shown(job)["state"], "cancelled")
        self.lockstep("job", "delete", job)
        self.assertEqual(len(self.states()), before + 2)

    def test_a_job_that_waits_is_cancelled_although_its_client_was_killed(self):
        other = self.hold_all_machines()
        job = self.submit_and_be_killed("waits", TAKES)
        runs.wait_for(lambda: "not submitted" not in self.shown(job)["reason"])
        self.assertIn("cancelled", self.lockstep("job", "cancel", job))
        self.assertEqual(self.states().count("PENDING"), 0)
        self.let_go(other)

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
