#!/usr/bin/env python3
"""Jobs in the queue of this machine: they go on when their client is gone, another process finds all of them, nothing
is started twice, and training that was killed has the weights of training that was left alone."""

import fcntl
import json
import os
import pathlib
import pty
import signal
import subprocess
import time
import unittest

import runs
from job_commands import Jobs


class JobsTest(runs.TestFolders, unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.here = self.folder / self.id().rpartition(".")[2]
        self.here.mkdir()
        self.jobs = Jobs(self.here)
        self.addCleanup(self.jobs.__exit__)

    def train(self, *options, before=()):
        return self.jobs.batch(*before, "--", "train", self.digits, "--validation", self.held_out, *runs.SMALL, *options)

    def has_ended(self, job):
        """By its file, because a look by a command takes longer than steps of a training."""
        return (self.jobs.root / job / "result.json").exists()

    def test_a_job_outlives_its_terminal(self):
        leader, follower = pty.openpty()
        shell = subprocess.Popen(
            ["sh", "-c", '"$0" batch -- sh -c "echo begun; sleep 1.5; echo whole"; sleep 100', runs.PROGRAM],
            stdin=follower, stdout=follower, stderr=follower, env=self.jobs.environment, cwd=self.here,
            start_new_session=True)
        runs.wait_for(lambda: self.jobs.list().get("1", {}).get("state") == "running")
        os.close(follower)
        os.close(leader)
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
        self.assertEqual(self.jobs.run("job", "wait", "1"), "job 1: ended\n")
        self.assertEqual(self.jobs.run("job", "diary", "1"), "begun\nwhole\n")
        self.assertEqual(self.jobs.show("1")["attempt"], 1)

    def test_training_that_was_killed_goes_on_with_the_same_weights(self):
        alone = self.here / "alone"
        runs.train(self.digits, alone, "--validation", self.held_out, *runs.SMALL, "--max-epochs", "6",
                   "--mini-batch-size", "16", "--checkpoint-every", "5")
        job = self.train("--max-epochs", "6", "--mini-batch-size", "16", "--checkpoint-every", "5",
                         before=("--name", "digits"))
        run = self.jobs.root / job / "run"
        runs.wait_for(lambda: run.exists() and len(runs.checkpoints(run)) > 0 or self.has_ended(job))
        for process in self.jobs.runners():
            os.kill(process, signal.SIGKILL)
        started = json.loads((self.jobs.root / job / "attempt-1/started.json").read_text())
        # Its command is an orphan now, and counts as running.
        if self.jobs.show(job)["state"] == "running":
            os.killpg(started["command"]["process"], signal.SIGKILL)
        self.assertEqual(self.jobs.run("job", "wait", "digits"), f"job {job}: ended\n")
        self.assertEqual(runs.weights(run), runs.weights(alone))
        shown = self.jobs.show(job)
        self.assertEqual(shown["attempt"], 2)
        self.assertAlmostEqual(shown["accuracy"], json.loads((alone / "result.json").read_text())["accuracy"])
        self.jobs.run("job", "fetch", job, self.here / "fetched")
        fetched = self.here / "fetched/run"
        self.assertEqual((fetched / "model.safetensors").read_bytes(), (alone / "model.safetensors").read_bytes())
        self.assertTrue((fetched / "curves.svg").exists())
        steps = [event["step"] for event in runs.of_kind(run, "validation")]
        self.assertEqual(sorted(set(steps)), [event["step"] for event in runs.of_kind(alone, "validation")])

    def test_a_cross_validation_that_was_killed_goes_on_and_is_shown_fold_by_fold(self):
        folds = ["--max-epochs", "8", "--mini-batch-size", "16", "--checkpoint-every", "5", "--validation-folds", "3"]
        alone = self.here / "alone"
        runs.train(self.digits, alone, *runs.SMALL, *folds)
        job = self.jobs.batch("--", "train", self.digits, *runs.SMALL, *folds)
        run = self.jobs.root / job / "run"
        attached = self.jobs.start("job", "attach", job)
        runs.wait_for(lambda: (run / "fold-2").exists() and len(runs.checkpoints(run / "fold-2")) > 0 or
                      self.has_ended(job))
        self.assertGreater(self.jobs.show(job)["progress"], 0.3)
        for process in self.jobs.runners():
            os.kill(process, signal.SIGKILL)
        started = json.loads((self.jobs.root / job / "attempt-1/started.json").read_text())
        if self.jobs.show(job)["state"] == "running":
            os.killpg(started["command"]["process"], signal.SIGKILL)
        self.assertEqual(self.jobs.run("job", "wait", job), f"job {job}: ended\n")
        printed, errors = attached.communicate(timeout=30)
        self.assertEqual(attached.returncode, 0, errors)
        self.assertTrue(printed.endswith(f"job {job}: ended\n"), printed)
        for fold in (1, 2, 3):
            self.assertIn(f"fold {fold} of 3, in {run}/fold-{fold}", printed)
            self.assertEqual(runs.weights(run / f"fold-{fold}"), runs.weights(alone / f"fold-{fold}"))
        shown = self.jobs.show(job)
        self.assertEqual((shown["attempt"], shown["progress"]), (2, 1))

    def test_attach_shows_the_run_and_ctrl_c_only_detaches(self):
        job = self.train("--max-epochs", "400", "--mini-batch-size", "8")
        attached = self.jobs.start("job", "attach", job)
        runs.wait_for(lambda: (self.jobs.show(job).get("step") or 0) > 3)
        time.sleep(0.5)
        attached.send_signal(signal.SIGINT)
        printed, errors = attached.communicate(timeout=30)
        self.assertEqual(attached.returncode, 0, errors)
        self.assertIn("epoch", printed)
        self.assertIn("the job goes on", errors)
        self.assertEqual(self.jobs.show(job)["state"], "running")
        self.assertEqual(self.jobs.run("job", "cancel", job), f"job {job}: cancelled\n")
        # It has saved, so it can go on.
        self.assertGreater(len(runs.checkpoints(self.jobs.root / job / "run")), 0)
        self.assertEqual(self.jobs.runners(), [])

    def test_parallel_training_is_no_job_while_the_default_profile_is_this_machine(self):
        run = self.here / "run"
        printed = self.jobs.run("train", self.digits, *runs.SMALL, "--execution", "parallel", "--output", run)
        self.assertIn("epoch", printed)
        self.assertTrue((run / "model.safetensors").exists())
        self.assertEqual(self.jobs.list(), {})

    def test_order_limits_and_what_follows(self):
        log = self.here / "log"
        say = lambda text, seconds=0: ("sh", "-c", f"echo {text} >> {log}; sleep {seconds}")
        self.jobs.batch("--workers", "2", "--", *say("first", 1))
        self.jobs.batch("--", *say("low"))
        self.jobs.batch("--priority", "5", "--", *say("high"))
        waits = self.jobs.batch("--after", "3", "--", *say("after-high"))
        never = self.jobs.batch("--after", self.jobs.batch("--", "false"), "--", *say("never"))
        self.assertEqual(self.jobs.list()["2"]["state"], "queued")
        jobs = self.jobs.wait_for_all()
        lines = log.read_text().split()
        self.assertEqual(lines[0], "first")
        self.assertLess(lines.index("high"), lines.index("after-high"))
        self.assertEqual(sorted(lines), ["after-high", "first", "high", "low"])
        self.assertEqual(jobs[waits]["state"], "ended")
        self.assertEqual(jobs[never]["state"], "cancelled")
        self.assertIn("which it follows, failed", jobs[never]["reason"])

    def test_memory_that_is_short_makes_jobs_wait(self):
        self.jobs.run("queue", "run", "--memory-gb", "4")
        first = self.jobs.batch("--memory", "3G", "--", "sleep", "2")
        second = self.jobs.batch("--memory", "2G", "--", "true")
        self.jobs.wait_until(first, "running")
        self.assertEqual(self.jobs.show(second)["state"], "queued")
        jobs = self.jobs.wait_for_all()
        self.assertGreaterEqual(jobs[second]["started"], jobs[first]["ended"])

    def test_a_program_sees_its_surroundings_and_gives_files_back(self):
        tool = self.here / "tool"
        tool.write_text('#!/bin/sh\necho "$WORD $LOCKSTEP_JOB_ATTEMPT ${API_KEY:-none}"; helper\necho 1,2 > a.csv\n'
                        f'"{runs.PROGRAM}" job put accuracy 0.75; "{runs.PROGRAM}" job put notes.txt a.csv\n'
                        f'"{runs.PROGRAM}" job put progress 0.5\n')
        tool.chmod(0o755)
        added = self.here / "added"
        added.mkdir()
        (added / "helper").write_text("#!/bin/sh\necho helped\n")
        (added / "helper").chmod(0o755)
        self.jobs.environment.update(WORD="spoken", API_KEY="7bX1-secret")
        job = self.jobs.batch("--ship", tool, "--path", added, "--fetch", "*.csv", "--", "tool", cwd=self.here)
        tool.write_text("#!/bin/sh\nfalse\n")  # shipped by content
        self.jobs.run("job", "wait", job)
        self.assertEqual(self.jobs.run("job", "diary", job), "spoken 1 7bX1-secret\nhelped\n")
        shown = self.jobs.show(job)
        self.assertEqual(shown["values"], {"accuracy": 0.75, "progress": 0.5})
        self.assertEqual(shown["files"], ["a.csv", "notes.txt"])
        self.assertEqual(shown["accuracy"], 0.75)
        self.jobs.run("job", "fetch", job, self.here / "out")
        self.assertEqual((self.here / "out/a.csv").read_text(), "1,2\n")
        kept = subprocess.run(["grep", "-rl", "7bX1", self.jobs.root], capture_output=True, text=True).stdout.split()
        self.assertEqual([path for path in kept if not path.endswith("/diary")], [])

    def test_what_is_killed_runs_again_only_if_asked(self):
        once, again = self.jobs.batch("--", "sleep", "60"), self.jobs.batch("--requeue", "--", "sh", "-c",
                                                                           'test $LOCKSTEP_JOB_ATTEMPT -gt 1 || sleep 60')
        for job in (once, again):
            self.jobs.wait_until(job, "running")
            runs.wait_for(lambda: (self.jobs.root / job / "attempt-1/started.json").exists())
            started = json.loads((self.jobs.root / job / "attempt-1/started.json").read_text())
            os.kill(started["command"]["process"], signal.SIGKILL)
        jobs = self.jobs.wait_for_all()
        self.assertEqual((jobs[once]["state"], jobs[once]["status"], jobs[once]["attempt"]), ("failed", 137, 1))
        self.assertIn("SIGKILL", jobs[once]["reason"])
        self.assertEqual((jobs[again]["state"], jobs[again]["attempt"]), ("ended", 2))
        self.jobs.run("job", "requeue", once)
        self.jobs.run("job", "cancel", once)
        self.assertEqual(self.jobs.show(once)["state"], "cancelled")
        self.assertEqual(self.jobs.run("job", "delete", once), f"job {once}: deleted\n")
        self.assertNotIn(once, self.jobs.list())

    def test_two_commands_that_delete_and_requeue_a_job(self):
        job = self.jobs.batch("--", "true")
        self.jobs.run("job", "wait", job)
        with (self.jobs.root / job / "job.json").open("r+") as held:
            fcntl.lockf(held, fcntl.LOCK_EX)  # as a command that goes on
            for word in ("delete", "requeue"):
                other = self.jobs.batch("--", "true")
                self.jobs.run("job", "wait", other)
                self.assertIn(f"another command starts job {job} again or deletes it",
                              self.jobs.run("job", word, job, other, status=1))
                self.assertNotEqual((self.jobs.root / other).exists(), word == "delete")
        self.jobs.run("job", "requeue", job)
        self.assertEqual(self.jobs.run("job", "wait", job), f"job {job}: ended\n")

    def test_cancel_ends_what_a_killed_attempt_has_left(self):
        left = self.here / "left"
        job = self.jobs.batch("--", "sh", "-c", f"sleep 600 & echo $! >{left}; wait")
        runs.wait_for(lambda: left.exists() and (self.jobs.root / job / "attempt-1/started.json").exists())
        started = json.loads((self.jobs.root / job / "attempt-1/started.json").read_text())
        for process in ("runner", "command"):
            os.kill(started[process]["process"], signal.SIGKILL)
        self.assertEqual(self.jobs.show(job)["state"], "running")  # the sleep holds its lock
        self.jobs.run("job", "cancel", job)
        self.assertEqual(self.jobs.show(job)["state"], "cancelled")

    def test_cancel_ends_an_attempt_whose_runner_is_killed_meanwhile(self):
        """Its command ends at the second SIGTERM, which only the cancelling command can send."""
        asked, ready = self.here / "asked", self.here / "ready"
        job = self.jobs.batch("--", "sh", "-c", f"trap 'if [ -e {asked} ]; then exit; fi; touch {asked}' TERM; "
                              f"touch {ready}; while :; do sleep 0.05; done")
        runs.wait_for(ready.exists)
        cancelling = self.jobs.start("job", "cancel", job)
        runs.wait_for(asked.exists)
        for process in self.jobs.runners():
            os.kill(process, signal.SIGKILL)
        printed, errors = cancelling.communicate(timeout=runs.SECONDS_PER_RUN)
        self.assertEqual((printed, cancelling.returncode), (f"job {job}: cancelled\n", 0), errors)

    def test_files_of_a_program_do_not_replace_those_of_its_job(self):
        (self.here / "out").mkdir()
        job = self.jobs.batch("--fetch", "*,out/*", "--", "sh", "-c",
                              f"echo said; {runs.PROGRAM} job put score 3; for name in diary values.json out/diary run; "
                              "do echo mine > $name; done", cwd=self.here)
        self.jobs.run("job", "wait", job)
        fetched = self.here / "fetched"
        self.jobs.run("job", "fetch", job, fetched)
        self.assertEqual((fetched / "diary").read_text(), "said\n")
        self.assertEqual(json.loads((fetched / "values.json").read_text()), {"score": 3})
        for name in ("out/diary", "run", "program-files/diary", "program-files/values.json"):
            self.assertEqual((fetched / name).read_text(), "mine\n")

    def test_training_waits_for_data_that_an_earlier_job_makes(self):
        none = self.here / "none"
        for words in ((none,), (self.digits, "--validation", none)):
            self.assertIn("cannot open", self.jobs.run("batch", "--", "train", *words, status=1))
        made = self.here / "made"
        makes = self.jobs.batch("--", "cp", "-r", self.digits, made)
        trains = self.jobs.batch("--after", makes, "--", "train", made, *runs.SMALL, "--max-epochs", "1")
        self.assertEqual(self.jobs.run("job", "wait", trains), f"job {trains}: ended\n")
        self.jobs.batch("--workers", "2", "--", "sleep", "60")
        (self.here / "some.tar").touch()
        for where in ("s3://bucket/photos", "some.tar/inside", none):
            self.assertEqual(self.jobs.show(self.jobs.batch("--", "train", where, cwd=self.here))["state"], "queued")

    def test_training_waits_for_data_that_an_earlier_line_makes(self):
        made, commands = self.here / "made", self.here / "commands"
        commands.write_text(f"cp -r {self.digits} {made}\ntrain {made} {' '.join(runs.SMALL)} --max-epochs 1\n")
        for job in self.jobs.run("batch", "--workers", "2", "--commands", commands).split("job")[1:]:
            self.assertEqual(self.jobs.run("job", "wait", job.strip()), f"job {job.strip()}: ended\n")

    def test_ranks_in_the_diary(self):
        job = self.jobs.batch("--workers", "2", "--", "run", "-n", "2", "sh", "-c", "echo I am $RANK")
        self.jobs.run("job", "wait", job)
        self.assertEqual(self.jobs.run("job", "diary", job, "--rank", "1"), "I am 1\n")
        self.assertEqual(self.jobs.run("job", "diary", job, "--rank", "0"), "I am 0\n")

    def test_a_diary_larger_than_memory(self):
        """A line may be so, too. Here it is a file with a hole."""
        job = self.jobs.batch("--", "true")
        self.jobs.run("job", "wait", job)
        with (self.jobs.root / job / "attempt-1/diary").open("w", encoding="ascii") as diary:
            diary.write(f"[rank 1] {'1' * 100}\n[rank 2] two\n")
            diary.truncate(300_000_000)
            diary.seek(0, os.SEEK_END)
            diary.write("\n[rank 1] last")
        for words in ((), ("--follow",), ("--rank", "0")):
            with subprocess.Popen(runs.command("job", "diary", job, *words), env=self.jobs.environment,
                                  stdout=subprocess.PIPE) as process:
                length = sum(len(part) for part in iter(lambda: process.stdout.read(1 << 20), b""))
                _, status, use = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            self.assertGreater(length, 299_999_000)
            if not runs.SANITIZED:  # such a program keeps what is freed for a while
                self.assertLess(use.ru_maxrss, 150_000, words)  # KiB
        self.assertEqual(self.jobs.run("job", "diary", job, "--rank", "1"), f"{'1' * 100}\nlast\n")
        self.assertEqual(self.jobs.run("job", "diary", job, "--rank", "2"), "two\n")

    def test_a_signal_ends_a_diary_before_its_end(self):
        """Which would take hours."""
        job = self.jobs.batch("--", "true")
        self.jobs.run("job", "wait", job)
        os.truncate(self.jobs.root / job / "attempt-1/diary", 1 << 40)
        with subprocess.Popen(runs.command("job", "diary", job, "--follow"), env=self.jobs.environment,
                              stdout=subprocess.PIPE) as process:
            length = len(process.stdout.read(1))
            process.terminate()
            while part := process.stdout.read(1 << 20):
                length += len(part)
                self.assertLess(length, 1 << 36)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)

    def test_a_list_of_commands_is_a_job_each(self):
        commands = self.here / "commands"
        commands.write_text("# three\necho 'one word'\n\necho two\nsh -c 'exit 4'\n")
        printed = self.jobs.run("batch", "--name", "nets", "--commands", commands)
        self.assertEqual(printed, "job 1\njob 2\njob 3\n")
        self.assertIn("exit", self.jobs.run("batch", "--commands", commands, "--", "true", status=2) + "exit")
        self.jobs.run("job", "wait", "nets-3", status=4)
        self.jobs.wait_for_all()
        self.assertEqual(self.jobs.run("job", "diary", "nets-1"), "one word\n")

    def test_a_starter_that_ignores_ends_of_processes_hides_no_failure(self):
        """As services and some programs do: the kernel then keeps no status of those that end."""
        ignore = {"preexec_fn": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)}
        job = self.jobs.batch("--", "sh", "-c", "exit 5", **ignore)
        self.jobs.run("job", "wait", job, status=5)
        self.assertEqual(self.jobs.show(job)["state"], "failed")
        self.assertIn("ended with status 6", self.jobs.run("run", "-n", "2", "--", "sh", "-c", "exit 6", status=6, **ignore))

    def test_what_a_job_cannot_be_is_refused(self):
        self.assertIn("whose bytes are not UTF-8",
                      self.jobs.run("batch", "--", "cat", "lat\udce9.txt", status=2, errors="replace"))
        self.assertIn("the COMMAND of lockstep batch is empty", self.jobs.run("batch", "--", "", status=2))
        self.assertIn("'-', '_' and '.'", self.jobs.run("batch", "--name", "../../x", "--", "true", status=2))
        self.assertIn("the number of a job", self.jobs.run("batch", "--name", "3", "--", "true", status=2))
        self.assertEqual(self.jobs.list(), {})

    def test_more_than_the_machine_has_is_a_warning(self):
        process = self.jobs.start("batch", "--workers", "99", "--memory", "99999G", "--", "true")
        printed, errors = process.communicate()
        self.assertEqual((printed, process.returncode), ("job 1\n", 0))
        self.assertIn("asks for 99 workers, and the queue of this machine has 2", errors)
        self.assertIn("of memory, and the queue", errors)

    def test_a_damaged_job_keeps_nobody_waiting(self):
        self.jobs.batch("--workers", "2", "--", "sleep", "1")
        damaged = self.jobs.batch("--", "true")
        (self.jobs.root / damaged / "job.json").write_text("{")
        good = self.jobs.batch("--", "true")
        self.assertEqual(self.jobs.run("job", "wait", good), f"job {good}: ended\n")
        self.assertIn(damaged, self.jobs.list())

    def test_a_restart_of_the_machine(self):
        """As it looks afterwards: nothing runs, no lock is held, and the boot is another one."""
        job = self.jobs.batch("--requeue", "--", "sh", "-c", "test $LOCKSTEP_JOB_ATTEMPT -gt 1 || sleep 60")
        waiting = self.jobs.batch("--workers", "2", "--", "true")
        self.jobs.wait_until(job, "running")
        runs.wait_for(lambda: (self.jobs.root / job / "attempt-1/started.json").exists())
        self.jobs.__exit__()
        for entry in pathlib.Path(self.jobs.root / ".queue").glob("*/*ing/*"):
            entry.unlink()  # an index only
        started = self.jobs.root / job / "attempt-1/started.json"
        content = json.loads(started.read_text())
        content["command"]["boot"] = content["runner"]["boot"] = "another"
        started.write_text(json.dumps(content))
        (self.jobs.root / job / "result.json").touch()  # a name without its content
        self.jobs.run("queue", "run")
        jobs = self.jobs.wait_for_all()
        self.assertEqual((jobs[job]["state"], jobs[job]["attempt"]), ("ended", 2))
        self.assertEqual(jobs[waiting]["state"], "ended")


if __name__ == "__main__":
    unittest.main()
