#!/usr/bin/env python3
"""What can happen to a training on a real Slurm, each thing many times: it ends with the weights of one thread, exactly
one job was made, the machines are free again, and nothing counts that an earlier attempt still writes.

usage: faults_test.py [NAME...]     each once; with LOCKSTEP_LONG=1, each 20 times, or LOCKSTEP_TRIALS times. Prints how
often each was met."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import pools_on_slurm
import runs
import slurm
import trained_on_slurm
from trained_on_slurm import STEP

TRIALS = int(os.environ.get("LOCKSTEP_TRIALS", 20 if runs.IS_LONG else 1))
HANG = pathlib.Path(os.environ.get("LOCKSTEP_HANG_AT_END", runs.PROGRAM.parents[1] / "lib/liblockstep_hang_at_end.so"))
# In the place of sbatch: the answer is lost, with or without the job.
LOST_ANSWER = """#!/bin/sh
[ "$1" != --version ] || exec /usr/bin/sbatch --version
echo x >>{folder}/calls
if [ ! -e {folder}/told ]; then
  touch {folder}/told
  {before}
  echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2
  exit 1
fi
exec /usr/bin/sbatch "$@"
"""
# Goes on until it may end, and says all the while which attempt it is.
TALKER = """while [ ! -e "$0/stop" ]; do "$1" job put attempt "$LOCKSTEP_JOB_ATTEMPT"; echo "I am $LOCKSTEP_JOB_ATTEMPT"
sleep 0.1; done; echo "$LOCKSTEP_JOB_ATTEMPT" >"$0/over-$LOCKSTEP_JOB_ATTEMPT"
"""


class Faults(trained_on_slurm.TrainedOnSlurm, unittest.TestCase):
    MACHINES = 4  # the first is the switch and the controller's
    SIZE = {"nodes": 2, "workers": 2}

    def each_if_many(self, name, work):
        """What slurm_runs_test.py does once."""
        if TRIALS > 1:
            self.each(name, work)
        else:
            print(f"  in slurm_runs_test.py  {name}", flush=True)

    def each(self, name, work):
        """Trials go on after one that failed."""
        met = 0
        began = time.monotonic()
        for trial in range(TRIALS):
            with self.subTest(name, trial=trial):
                self.wait_for_nodes()
                work(trial)
                met += 1
        print(f"  {met} of {TRIALS}  {name} ({time.monotonic() - began:.0f} s)", flush=True)

    # On machines whose fault leaves the controller alone.
    AWAY = {"options": ["--exclude=machine-0"]}

    def test_a_node_dies(self):
        self.each_if_many("a node dies", lambda _: self.with_a_dead_node())

    def test_preempted(self):
        self.each_if_many("preempted", lambda _: self.preempted())

    def test_time_limit(self):
        self.each_if_many("the time limit comes", lambda _: self.at_the_time_limit())

    def test_signals(self):
        """USR1 and TERM, each alone; TERM to the batch script or to the ranks."""
        for name, words, reason in (("USR1 alone", ["--batch", "--signal=USR1"], "saved before the time limit"),
                                    ("TERM alone, to the batch script", ["--batch", "--signal=TERM"], "were taken"),
                                    ("TERM alone, to the ranks", ["--signal=TERM"], "were taken")):
            def work(_, words=words, reason=reason):
                job = self.start("signalled")
                job.wait_for_step(STEP)
                self.cluster.ask("scancel", *words, job.id)
                self.check(job, ["stopped", "ended"])
                self.assertIn(reason, job.attempts_ended()[0]["reason"])
            self.each(name, work)

    def test_scancel(self):
        """Of somebody who does not know Lockstep's commands: the job does not come back, and its run is saved."""
        def work(_):
            job = self.start("cancelled")
            job.wait_for_step(STEP)
            self.cluster.ask("scancel", job.id)
            self.assertEqual(job.wait_until_over()["end"], "cancelled", job.said())
            self.assertEqual(len(job.attempts_ended()), 1, job.said())
            self.assertEqual(job.slurm_state(), "CANCELLED")
            self.assertTrue(runs.checkpoints(job.run))
        self.each("scancel", work)

    def test_a_link_is_cut(self):
        """That of the machine with the batch script, and that of another, in turn."""
        def work(trial):
            job = self.start("cut", **self.AWAY)
            job.wait_for_step(STEP)
            node = self.nodes_of(job)[trial % 2]
            self.plug(node, "down")  # and no rank makes another step
            self.wait_to_start_again(job)
            self.plug(node, "up")
            self.check_newest_counts(job)
            self.assertEqual(runs.weights(job.run), self.expected)
        self.each("a link is cut", work)

    @staticmethod
    def wait_to_start_again(job):
        job.wait(lambda: job.start_now() or (job.folder / "attempt-2").exists(), "the second attempt")

    def plug(self, node, state):
        self.cluster.run(0, "ip", "link", "set", f"port-{node}", state)

    def check_newest_counts(self, job):
        self.assertEqual(job.wait_until_over()["end"], "ended", job.said())
        newest = int((job.folder / "attempt").read_text())
        self.assertGreater(newest, 1)
        self.assertEqual(json.loads((job.folder / "result.json").read_text())["attempt"], newest, job.said())

    @contextlib.contextmanager
    def without_slurmd(self, node):
        """Its daemon there is killed, and what it has started goes on; Slurm notices at once."""
        self.cluster.run(node, "sh", "-c", f"kill -9 $(cat {self.cluster.folder}/slurmd-machine-{node}.pid)")
        self.cluster.ask("scontrol", "update", f"nodename=machine-{node}", "state=down", "reason=test")
        try:
            yield
        finally:
            self.cluster.daemon(node, "slurmd", "-D", "-N", f"machine-{node}")
            self.cluster.ask("scontrol", "update", f"nodename=machine-{node}", "state=resume")

    def test_slurmd_is_killed(self):
        """Of the machine that has the batch script and all ranks, and of another machine than the script's, in turn."""
        def work(trial):
            is_whole = trial % 2 == 0
            job = self.start("no-slurmd", **self.AWAY, **({"nodes": 1} if is_whole else {}))
            job.wait_for_step(STEP)
            with self.without_slurmd(self.nodes_of(job)[-1]):
                if is_whole:
                    job.wait_for_step(runs.steps_done(job.run) + 2)
                    with self.standing_still(job):
                        self.wait_to_start_again(job)
                else:
                    self.wait_to_start_again(job)
                self.check_newest_counts(job)
            self.assertEqual(runs.weights(job.run), self.expected)
        self.each("a slurmd is killed, its tasks go on", work)

    def test_what_an_old_attempt_still_writes_is_ignored(self):
        def work(trial):
            here = self.folder / f"talker-{trial}"
            here.mkdir()
            (here / "profile.json").write_text(json.dumps({"scheduler": "slurm", "program": str(runs.PROGRAM), **self.AWAY}))
            self.lockstep("cluster", "import", here / "profile.json", "--name", f"talker-{trial}")
            name = f"talks-{trial}"
            self.lockstep("batch", "--profile", f"talker-{trial}", "--requeue", "--name", name, "--", "sh", "-c", TALKER,
                          here, runs.PROGRAM)
            folder = pathlib.Path(json.loads(self.lockstep("job", "show", name, "--json"))["folder"])
            runs.wait_for((folder / "scheduler-id").exists)
            job = trained_on_slurm.jobs_on_slurm.Job(self.cluster, folder, (folder / "scheduler-id").read_text().strip())
            job.wait(lambda: list(folder.glob("attempt-1/values/*")), "what it says")
            with self.without_slurmd(self.nodes_of(job)[0]):
                job.wait(lambda: job.start_now() or list(folder.glob("attempt-2/values/*")), "the second attempt")
                written = (folder / "attempt-1/values/attempt.json").stat().st_mtime_ns
                job.wait(lambda: (folder / "attempt-1/values/attempt.json").stat().st_mtime_ns > written,
                         "what the first attempt still writes")
                shown = json.loads(self.lockstep("job", "show", name, "--json"))
                self.assertEqual(shown["values"]["attempt"], 2, shown)
                (here / "stop").touch()
                self.check_newest_counts(job)
            self.assertNotIn("I am 1", self.lockstep("job", "diary", name))
        self.each("an old attempt still writes", work)

    def lockstep(self, *words, status=0):
        done = subprocess.run(self.cluster.command(0, *runs.command(*words)), stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=60, check=False,
                              env={**self.cluster.environment(), "XDG_CONFIG_HOME": str(self.folder / "config"),
                                   "LOCKSTEP_JOBS": str(self.folder / "jobs")})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def test_the_answer_of_sbatch_is_lost(self):
        """Slurm took the job, and did not take it, in turn."""
        def work(trial):
            folder = self.folder / f"sbatch-{trial}"
            folder.mkdir()
            before = '/usr/bin/sbatch "$@" >/dev/null' if trial % 2 == 0 else ""
            (folder / "sbatch").write_text(LOST_ANSWER.format(folder=folder, before=before))
            (folder / "sbatch").chmod(0o755)
            path = os.environ["PATH"]
            os.environ["PATH"] = f"{folder}:{path}"
            try:
                job = self.cluster.submit(self.folder / "jobs", f"lost-{trial}", "program", "/bin/true")
            finally:
                os.environ["PATH"] = path
            self.assertEqual(job.wait_until_over()["end"], "ended", job.said())
            self.assertEqual(len((folder / "calls").read_text().split()), 1 + trial % 2)
            names = self.cluster.ask("squeue", "-h", "-t", "all", "-o", "%i %o %Z").splitlines()
            self.assertEqual([line.split()[0] for line in names if line.endswith(f" {job.folder}")], [job.id])
            self.assertEqual(len(job.attempts_ended()), 1)
        self.each("sbatch answers: timed out", work)

    def test_a_job_that_slurm_has_forgotten(self):
        """It is not in the queue for ever, and starts again when that is asked for."""
        self.cluster.ask("scontrol", "update", "NodeName=ALL", "State=DRAIN", "Reason=test")
        self.addCleanup(self.cluster.ask, "scontrol", "update", "NodeName=ALL", "State=RESUME")
        job = self.cluster.submit(self.folder / "jobs", "forgotten", "program", "/bin/true")
        self.cluster.ask("scancel", job.id)
        submission = job.folder / "submission.json"
        submission.write_text(json.dumps({**json.loads(submission.read_text()), "id": "999999"}))
        view = next(view for view in json.loads(self.lockstep("jobs", "--json")) if view["folder"] == str(job.folder))
        self.assertEqual(view["state"], "lost")
        self.assertIn("slurm does not know job 999999 any longer", view["reason"])
        self.assertIn("slurm does not know", self.lockstep("job", "wait", view["id"], status=1))
        self.cluster.ask("scontrol", "update", "NodeName=ALL", "State=RESUME")
        self.lockstep("job", "requeue", view["id"])
        job.wait(lambda: (job.folder / "result.json").exists(), "the end")
        self.assertEqual(json.loads((job.folder / "result.json").read_text())["end"], "ended", job.said())

    def test_a_rank_hangs_in_its_ending(self):
        """It leaves by itself, and is left if nothing of it runs any more."""
        short = ["--max-epochs", "2"]
        expected = self.train_alone("alone-short", short)
        for name, how, seconds in (("a rank hangs in its ending", "", 10), ("a rank stands still in its ending", "stopped", 30)):
            def work(trial, how=how, seconds=seconds):
                job = self.start("hangs", short, environment=[
                    f"LD_PRELOAD={HANG}", f"LOCKSTEP_HANGING_RANK={trial % 2}", f"LOCKSTEP_HANGING_HOW={how}"])
                job.wait(lambda: runs.of_kind(job.run, "end"), "the end of the run")
                ended = time.monotonic()
                job.wait((job.folder / "result.json").exists, "the result of the job")
                job.wait(lambda: job.slurm_state() == "COMPLETED", "the end of the job")
                taken = time.monotonic() - ended
                self.assertLess(taken, seconds)
                self.assertGreater(taken, seconds / 2, "no rank has hung")
                self.check(job, ["ended"], expected)
                self.wait_for_nodes()
            self.each(name, work)


if __name__ == "__main__":
    slurm.require(*slurm.PROGRAMS)
    unittest.main()
