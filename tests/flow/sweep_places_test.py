#!/usr/bin/env python3
"""Wherever trials are trained, the table is the same: on threads of one process, as processes, as jobs of the local
queue, with another number of workers, with little memory, and after kill -9 of any of these. A trial has the weights of
its command alone."""

import contextlib
import fcntl
import json
import os
import pty
import shutil
import signal
import subprocess
import time
import unittest
import unittest.mock

import runs
from sweeps import lines, processes_of, table

TRAINING = ["--recipe", "plain", "--image-size", "20x20", "--shards", "4", "--max-steps", "8"]
SEARCH = ["--count", "10", "--lag", "2", "--seed", "1", "--learning-rate", "0.001..0.1:log", "--network",
          "digits_cnn,lenet"]


class Places(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.environ["LOCKSTEP_JOBS"] = str(cls.folder / "queue")
        runs.run("queue", "run", "--workers", "2")
        cls.sweep("expected", "--trials", "1", "--trials-as", "processes")
        cls.expected = table(cls.folder / "expected")

    @classmethod
    def words(cls, name, *options):
        return ["sweep", *SEARCH, *options, "--output", cls.folder / name, "--", "train", cls.digits, "--validation",
                cls.held_out, *TRAINING]

    @classmethod
    def sweep(cls, name, *options):
        return runs.run(*cls.words(name, *options))

    def check(self, name):
        self.assertEqual(table(self.folder / name), self.expected)

    def test_secrets_of_a_profile_are_in_no_file(self):
        """Also one that its name does not give away."""
        profiles = self.folder / "config/lockstep/clusters"
        profiles.mkdir(parents=True)
        (profiles / "ours.json").write_text(json.dumps({"secrets": ["OUR_PLACE"]}))
        with unittest.mock.patch.dict(os.environ, XDG_CONFIG_HOME=str(self.folder / "config"), OUR_PLACE="s3cr3t-of-a-sweep"):
            jobs = self.sweep("secret", "--profile", "ours").splitlines()[0].removeprefix("jobs ")
            runs.run("job", "wait", *jobs.split(", "))
        self.check("secret")
        found = subprocess.run(["grep", "-r", "-l", "s3cr3t-of-a-sweep", self.folder], capture_output=True, text=True,
                               check=False)
        self.assertEqual(found.stdout, "")

    @staticmethod
    def killed_programs(sweep):
        """Of a job, of its trials, and of the queue."""
        return ("sweep-runner", sweep), ("sweep-trials", sweep), ("queue-runner", os.environ["LOCKSTEP_JOBS"])

    def test_threads(self):
        for name, options in (("one", ["--trials", "1"]), ("eight", ["--trials", "8"]),
                              ("workers", ["--trials", "2", "--workers", "2"])):
            printed = self.sweep(name, *options)
            self.assertIn("only the best 5 trials keep their weights (--keep-weights)\n", printed)
            self.assertRegex(printed, r"memory of the process of all trials: [0-9.]+ [MG]B at most")
            self.check(name)
        # A trial's run says how it is trained alone, not what its process is.
        self.assertEqual(runs.of_kind(self.folder / "one/trials/0004", "environment")[0]["values"]["arguments"][:3],
                         ["lockstep", "train", str(self.digits)])
        row = self.expected[4]
        alone = self.folder / "alone"
        options = [word for name, value in row["parameters"].items() for word in (f"--{name}", str(value))]
        runs.run("train", self.digits, "--validation", self.held_out, *TRAINING, *options, "--output", alone)
        self.assertEqual(json.loads((alone / "result.json").read_text())["weights_hash"], row["weights_hash"])

    def test_a_program_whose_trial_folder_is_a_run(self):
        """Its result comes from the run's log, also where the trial has begun before and was killed."""
        sweep, killed = self.folder / "recorded", self.folder / "was-killed"
        script = f'"$@" --output "$LOCKSTEP_TRIAL_FOLDER" || exit; test -e {killed} || {{ touch {killed}; kill -9 $$; }}'
        runs.run("sweep", "--search", "random", "--count", "2", "--trials", "1", "--metric", "best_accuracy", "--output", sweep,
                 "--learning-rate", "0.0005..0.002:log", "--", "sh", "-c", script, "name", runs.PROGRAM, "train", self.digits,
                 "--validation", self.held_out, *TRAINING, "--config", "{parameters}")
        self.assertEqual(len(lines(sweep, "lost")), 1)
        hashes = set()
        for row in table(sweep):
            result = json.loads((sweep / f"trials/{row['trial']:04}/result.json").read_text())
            self.assertEqual((row["state"], row["result"], row["steps"]), ("ended", result["best_accuracy"], result["steps"]))
            hashes.add(result["weights_hash"])
        self.assertEqual(len(hashes), 2)

    def test_processes_side_by_side(self):
        self.sweep("processes", "--trials", "4", "--trials-as", "processes")
        self.check("processes")

    def test_a_report_without_the_curves_of_a_damaged_trial(self):
        """The other trials have theirs."""
        sweep = self.folder / "damaged"
        shutil.copytree(self.folder / "expected", sweep)
        log = next((sweep / "trials/0001/events").glob("rank-0-*"))
        log.write_text("no event\n" + log.read_text())
        printed = runs.run("report", sweep, "--trials", "0,1")
        self.assertEqual(printed.count("leaves out the curves of trial 1: "), 1, printed)
        page = (sweep / "report.html").read_text()
        self.assertIn("the events of the trial cannot be read", page)
        self.assertEqual(page.count('aria-label="curves of trial 0"'), 1)
        self.assertNotIn('aria-label="curves of trial 1"', page)

    def test_a_trial_that_is_stopped_as_a_run(self):
        """`lockstep stop` means the trial to be stopped: it does not start again."""
        sweep = self.folder / "stopped-as-run"
        words = [*self.words("stopped-as-run", "--trials", "1", "--count", "2"), "--validate-every", "2", "--patience", "0"]
        words[words.index("--max-steps") + 1] = "600"
        words[words.index("--learning-rate") + 1] = "0.0005..0.002:log"  # none becomes NaN on any processor
        with open(self.folder / "stopped-as-run.out", "w", encoding="utf-8") as out:
            process = subprocess.Popen(runs.command(*words), stdout=out, stderr=out)
        try:
            for trial, options in enumerate(([], ["--finish"])):
                run = sweep / f"trials/{trial:04}"
                runs.wait_for(lambda run=run: runs.steps_done(run) >= 5)
                runs.run("stop", *options, run)
            process.wait(timeout=60)
        finally:
            process.kill()
        rows = table(sweep)
        self.assertEqual([row["state"] for row in rows], ["stopped", "stopped"])
        for row in rows:
            self.assertLess(row["steps"], 600)
            self.assertIsNotNone(row["result"])
        self.assertEqual(lines(sweep, "lost"), [])
        best = max(rows, key=lambda row: row["result"])
        self.assertIn(f"it ended after step {best['steps']} of 600; the command trains all 600\n", runs.run("sweep", "best", sweep))

    def test_a_trial_that_is_paused_at_a_rung_can_be_stopped(self):
        """While a program works on the sweep, which is the holder of the lock here."""
        sweep = self.folder / "paused"
        sweep.mkdir()
        (sweep / "sweep.json").write_text(json.dumps(
            {"command": ["train", "data"], "search": "random", "stop-rule": "asha", "first-rung": 30, "count": 2,
             "parameters": {"learning-rate": "0.1..0.9"}}))
        log = [{"kind": "begin", "trial": 0, "until": 30, "parameters": ["learning-rate=0.5"]},
               {"kind": "outcome", "trial": 0, "until": 30, "state": "waiting", "value": 0.5, "step": 30,
                "total_steps": 90}]
        (sweep / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
        with (sweep / "lock").open("w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            self.assertIn("asked trial 0 to end", runs.run("sweep", "stop", sweep, "0"))
        self.assertEqual([file.read_text() for file in (sweep / "requests").iterdir()], ["stop 0\n"])

    def test_little_memory(self):
        """Trials wait for each other."""
        printed = self.sweep("little", "--trials", "4", "--memory", "50K")
        self.assertEqual(printed.count("lockstep: the images alone take "), 1, printed)
        self.check("little")
        starts, ends = [], []
        for row in self.expected:
            result = json.loads((self.folder / f"little/trials/{row['trial']:04}/result.json").read_text())
            starts.append(result["started"])
            ends.append(result["ended"])
        self.assertEqual(max(sum(start <= at < end for start, end in zip(starts, ends)) for at in starts), 1)
        # What was for threads does not hold up a sweep that goes on as processes.
        self.sweep("little", "--trials-as", "processes")
        self.sweep("little", "--trials", "4", "--memory", "50K")
        self.assertIn("--memory is only for trials on threads", runs.run(*self.words("little", "--memory", "2M"), status=2))
        self.assertIn("--memory cannot be", runs.run(*self.words("none", "--memory", "lots"), status=2))

    def test_jobs_that_are_killed(self):
        name, sweep = "jobs-of-queue", self.folder / "jobs-of-queue"
        printed = self.sweep(name, "--profile", "local")
        self.assertRegex(printed, r"^jobs \d+, \d+\n")
        watch = subprocess.Popen(runs.command("sweep", "watch", sweep), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        killed = 0
        for count in range(1, 9, 1 if runs.IS_LONG else 3):
            runs.wait_for(lambda count=count: len(lines(sweep, "outcome")) >= count)
            for process in processes_of(*self.killed_programs(sweep)[killed % 3])[:1]:
                os.kill(process, signal.SIGKILL)
                killed += 1
        self.assertGreater(killed, 0)

        def is_over():
            runs.run("jobs")  # looks at jobs whose runner is gone
            return len(lines(sweep, "outcome")) == 10
        runs.wait_for(is_over, seconds=100)
        self.check(name)
        self.assertIn(b"10 trials: 10 ended", watch.communicate(timeout=30)[0])

    def test_a_copy_has_jobs_of_its_own(self):
        """Those of the sweep that was copied work in its folder."""
        def wait(printed):
            runs.run("job", "wait", *printed.splitlines()[0].removeprefix("jobs ").split(", "))
        sweep, copy = self.folder / "copied", self.folder / "copy"
        wait(runs.run("sweep", "--profile", "local", "--search", "grid", "--output", sweep, "--x", "1..3", "--", "echo",
                      "result", "{x}"))
        before = table(sweep)
        shutil.copytree(sweep, copy)
        runs.run("sweep", "restart", copy, "1")
        wait(runs.run("sweep", "--resume", "--output", copy))
        self.assertEqual(table(copy), before)
        self.assertEqual(lines(sweep, "restart"), [])

    def test_a_damaged_job_counts_as_over(self):
        sweep = self.folder / "of-damaged-jobs"

        def start():
            printed = runs.run("sweep", "--profile", "local", "--search", "grid", "--output", sweep, "--x", "1..3", "--",
                               "sleep", "60{x}")
            return printed.splitlines()[0].removeprefix("jobs ").split(", ")
        jobs = start()
        runs.run("job", "cancel", *jobs)
        for job in jobs:
            (self.folder / "queue" / job / "job.json").write_text("{")
        runs.run("sweep", "watch", sweep)
        others = start()
        self.assertEqual(set(others) & set(jobs), set())
        runs.run("job", "cancel", *others)
        runs.run("job", "delete", *jobs)

    def test_a_stop_while_the_jobs_wait(self):
        """They read it when their turn comes, and begin no trial."""
        sweep = self.folder / "asked-early"
        before = runs.run("batch", "--workers", "2", "--", "sleep", "600").split()[-1]
        jobs = self.sweep("asked-early", "--profile", "local").splitlines()[0].removeprefix("jobs ").split(", ")
        self.assertIn("asked the sweep to stop", runs.run("sweep", "stop", sweep))
        runs.run("job", "cancel", before)
        runs.run("job", "wait", *jobs)
        self.assertEqual(lines(sweep, "begin"), [])
        runs.run("sweep", "stop", sweep, status=1)  # nobody is left
        self.sweep("asked-early", "--profile", "local")
        runs.run("job", "wait", *jobs)
        self.check("asked-early")

    @unittest.skipUnless(runs.IS_LONG, "about two minutes")
    def test_fifty_kills(self):
        """No trial is stuck, and none has another result."""
        longer = ["--count", "40", "--max-steps", "60"]

        def words(name, *options):
            all_words = self.words(name, "--search", "sobol", *options)
            for option, value in zip(longer[::2], longer[1::2]):
                all_words[all_words.index(option) + 1] = value
            return all_words
        runs.run(*words("calm", "--trials", "2"))
        sweep, killed = self.folder / "fifty", 0
        runs.run(*words("fifty", "--profile", "local"))
        while killed < 50:
            time.sleep(0.2)
            for process in processes_of(*self.killed_programs(sweep)[killed % 3])[:1]:
                os.kill(process, signal.SIGKILL)
                killed += 1
            runs.run("jobs")
            self.assertLess(len(lines(sweep, "outcome")), 40, f"ended after {killed} kills")

        def is_over():
            runs.run("jobs")
            return len(lines(sweep, "outcome")) >= 40
        runs.wait_for(is_over, seconds=110)
        self.assertEqual(table(sweep), table(self.folder / "calm"))

    def test_keys(self):
        """The live table on a terminal: a trial is stopped, another one restarted, and one annotated."""
        sweep = self.folder / "keys"
        words = [*self.words("keys", "--trials", "1")]
        words[words.index("--max-steps") + 1] = "600"
        words[words.index("--learning-rate") + 1] = "0.0005..0.002:log"  # none becomes NaN on any processor
        words += ["--validate-every", "5", "--patience", "0"]
        with open(self.folder / "keys.out", "w", encoding="utf-8") as out:
            process = subprocess.Popen(runs.command(*words), stdout=out, stderr=out)
        runs.wait_for(lambda: len(lines(sweep, "outcome")) >= 1)
        view, screen = pty.fork()
        if view == 0:
            os.execv(runs.PROGRAM, runs.command("sweep", "watch", sweep))
        try:
            for keys in (b"nlook here\r", b"ry"):  # trial 0, which has ended
                time.sleep(1.5)
                os.write(screen, keys)
            runs.wait_for(lambda: len(lines(sweep, "restart")) == 1)
            runs.wait_for(lambda: table(sweep)[0]["state"] == "running")
            time.sleep(1.5)  # the view looks once a second
            os.write(screen, b"sy")
            runs.wait_for(lambda: table(sweep)[0]["state"] == "stopped")
            os.write(screen, b"Sy")
            process.wait(timeout=60)
            os.write(screen, b"q")
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(view, 0)[1]), 0)
        finally:
            process.kill()
            os.close(screen)
        row = table(sweep)[0]
        self.assertEqual(row["note"], "look here")
        self.assertLess(row["steps"], 600)
        self.assertGreater(row["steps"], 0)

    def test_through_a_login_node_the_table_has_no_keys(self):
        """The terminal there is that of ssh: the table is printed as where there is no terminal, until the end."""
        sweep = self.folder / "relayed"
        runs.run("sweep", "--search", "grid", "--output", sweep, "--x", "1..3", "--", "echo", "result", "{x}")
        view, screen = pty.fork()
        if view == 0:
            os.environ["LOCKSTEP_SHOWN_AS"] = "far:"
            os.execv(runs.PROGRAM, runs.command("sweep", "watch", sweep))
        shown = b""
        with contextlib.suppress(OSError):  # at the end of who prints
            while part := os.read(screen, 4096):
                shown += part
                if b"\x1b[?1049h" in shown:
                    os.kill(view, signal.SIGKILL)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(view, 0)[1]), 0)
        os.close(screen)
        self.assertIn(b"3 trials: 3 ended", shown)

    @unittest.skipUnless(runs.IS_LONG, "needs a training of twenty seconds")
    def test_workers_move(self):
        """The last trial goes on with the workers of those that have ended."""
        def sweep(name, *options):
            return runs.run("sweep", "--count", "1", "--search", "random", "--learning-rate", "0.001..0.1:log",
                            "--output", self.folder / name, *options, "--", "train", self.digits, "--validation",
                            self.held_out, "--recipe", "plain", "--network", "digits_cnn", "--patience", "0", "--max-steps", "2500")
        self.assertIn("1 trial went on with workers", sweep("moved", "--trials", "2"))
        sweep("still", "--trials", "1")
        self.assertEqual(table(self.folder / "moved"), table(self.folder / "still"))


if __name__ == "__main__":
    unittest.main()
