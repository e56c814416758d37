#!/usr/bin/env python3
"""A sweep as an array of jobs of a real Slurm has the table of one process, also when jobs are killed and a node dies."""

import json
import os
import signal
import subprocess
import unittest

import jobs_on_slurm
import runs
import slurm
import sweeps

TRAINING = ["--recipe", "plain", "--image-size", "20x20", "--shards", "4", "--max-steps", "12"]
SEARCH = ["--count", "10", "--lag", "2", "--seed", "1", "--learning-rate", "0.001..0.1:log", "--network",
          "digits_cnn,lenet"]


class SweepOnSlurm(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = jobs_on_slurm.Cluster(count=2)
        cls.enterClassContext(cls.cluster)
        names = {f"machine-{node}": cls.cluster.address(node) for node in range(2)}
        for node in range(2):
            cls.cluster.know(node, names)
        profiles = cls.folder / "config/lockstep/clusters"
        profiles.mkdir(parents=True)
        (profiles / "ours.json").write_text(json.dumps({"scheduler": "slurm", "program": str(runs.PROGRAM)}))

    def command(self, output, *options):
        return ["sweep", *SEARCH, *options, "--output", output, "--", "train", self.digits, "--validation",
                self.held_out, *TRAINING]

    def on_cluster(self, *words):
        """A command of Lockstep on the first machine."""
        done = subprocess.run(
            self.cluster.command(0, *runs.command(*words)), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=120, check=False,
            env={**self.cluster.environment(), "XDG_CONFIG_HOME": str(self.folder / "config"),
                 "LOCKSTEP_JOBS": str(self.folder / "jobs")})
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def states(self):
        """Of all jobs of the cluster."""
        return self.cluster.ask("squeue", "-h", "-t", "all", "-o", "%T").split()

    def start_requeued(self):
        """Now, and not in two minutes."""
        for line in self.cluster.ask("squeue", "-h", "-r", "-t", "PENDING", "-o", "%i %r").splitlines():
            if "BeginTime" in line:
                self.cluster.ask("scontrol", "update", f"job={line.split()[0]}", "StartTime=now")

    def wait_until_over(self, sweep):
        def is_over():
            self.start_requeued()
            rows = sweeps.table(sweep) if (sweep / "log.jsonl").exists() else []
            return len(rows) == 10 and {row["state"] for row in rows} == {"ended"} and set(self.states()) <= {
                "COMPLETED", "FAILED", "CANCELLED"}
        runs.wait_for(is_over, seconds=150)

    def test_one_table(self):
        runs.run(*self.command(self.folder / "alone", "--trials", "1"))
        expected = sweeps.table(self.folder / "alone")
        sweep = self.folder / "array"
        printed = self.on_cluster(*self.command(sweep, "--profile", "ours", "--trials", "3"))
        self.assertIn("jobs 1, 2, 3", printed)
        # One array.
        ids = self.cluster.ask("squeue", "-h", "-t", "all", "-r", "-o", "%A %K").splitlines()
        self.assertEqual(sorted(line.split()[1] for line in ids), ["0", "1", "2"])
        self.wait_until_over(sweep)
        self.assertEqual(sweeps.table(sweep), expected)
        self.check_kills(expected)

    def check_kills(self, expected):
        sweep = self.folder / "killed"
        self.on_cluster(*self.command(sweep, "--profile", "ours", "--trials", "2"))

        def ended():
            self.start_requeued()
            return len(sweeps.lines(sweep, "outcome"))
        killed = 0
        for count, name in ((1, "sweep-runner"), (3, "sweep-trials"), (5, "sweep-runner")):
            runs.wait_for(lambda count=count: ended() >= count)
            for process in sweeps.processes_of(name, sweep)[:1]:
                os.kill(process, signal.SIGKILL)
                killed += 1
            if count == 3:  # as before a time limit
                self.cluster.ask("scancel", "--batch", "--signal=USR1",
                                 self.cluster.ask("squeue", "-h", "-r", "-t", "RUNNING", "-o", "%i").split()[0])
        self.assertGreaterEqual(killed, 2)
        self.wait_until_over(sweep)
        self.assertEqual(sweeps.table(sweep), expected)
        ends = [json.loads(file.read_text())["end"] for file in (self.folder / "jobs").glob("*/attempt-*/result.json")]
        self.assertIn("stopped", ends)
        self.assertIn("lost", ends)


if __name__ == "__main__":
    slurm.require(*slurm.PROGRAMS)
    unittest.main()
