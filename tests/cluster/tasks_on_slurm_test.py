#!/usr/bin/env python3
"""A task of a C++ program as a job of a real Slurm: the program that submits it ends, and another start of it takes the
typed result from two nodes.

usage: tasks_on_slurm_test.py PROGRAM
"""

import json
import os
import pathlib
import shutil
import sys
import unittest

import pools_on_slurm
import runs
import slurm

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()


class TasksOnSlurm(pools_on_slurm.OnSlurm, unittest.TestCase):
    def call(self, *words, status=0, of=PROGRAM):
        client = self.start(of, *words)
        output, errors = client.communicate(timeout=runs.SECONDS_PER_RUN)
        self.assertEqual(client.returncode, status, output + errors + self.said())
        return output if status == 0 else errors

    def said(self):
        return "".join(f"--- {file}\n{file.read_text(errors='replace')[-2000:]}"
                       for pattern in ("slurm.log", "attempt-*/diary")
                       for file in (self.folder / "jobs").glob(f"*/{pattern}"))

    def job_file(self, job, name):
        return json.loads((self.folder / "jobs" / job / name).read_text())

    def test_the_typed_result_comes_back_from_two_nodes(self):
        job = self.call("submit", 1, 100, 4, "ours").strip()
        self.assertTrue(self.call("collect", job).startswith("5050 by 4, 100 squares, the last 10000; said"))
        self.assertEqual(self.job_file(job, "result.json")["nodes"], "machine-[0-1]")

    def test_without_a_number_it_has_the_workers_of_the_default_profile(self):
        job = self.call("submit", 1, 10, 0).strip()
        self.assertTrue(self.call("collect", job).startswith("55 by 4, 10 squares"))
        self.assertEqual(self.job_file(job, "job.json")["workers"], 4)

    def test_what_the_task_throws_comes_back(self):
        job = self.call("submit", 5, 1, 2, "ours").strip()
        errors = self.call("collect", job, status=2)
        self.assertIn("the span is empty", errors)
        self.assertIn(f"in job {job}", errors)

    def test_a_cluster_shows_its_machines_and_is_waited_for(self):
        self.assertEqual(self.call("machines").splitlines()[0], "ours is up")
        self.assertRegex(self.call("machines", "ours"), r"machine-0 \w+ 4\nmachine-1 \w+ 4\n")
        self.assertIn("did you mean ours?", self.call("machines", "our", status=1))
        self.assertTrue(self.call("machines", "local").startswith("local is up"))

    def test_a_cluster_is_tried_and_made_the_default(self):
        said = self.call("validate", "ours")
        self.assertRegex(said, r"all-reduce \.\.\. ok .*over gloo")
        self.assertIn("the profile ours works", said)
        self.write_profile("greedy", nodes=9)
        self.assertIn("the profile wants 9 nodes, and 2 of 2 are up", self.call("validate", "greedy", status=1))
        self.call("default", "greedy")
        self.addCleanup(self.call, "default", "ours")
        self.assertTrue(self.call("machines", "ours").startswith("ours is up"))
        self.assertIn("greedy", (self.folder / "config/lockstep/default-cluster").read_text())
        self.assertIn("cannot be started or stopped: no lockstep cloud create of this machine made them",
                      self.call("start", "ours", status=1))

    def test_another_build_on_the_nodes_is_refused(self):
        own = self.folder / "program"
        shutil.copy(PROGRAM, own)
        other = self.cluster.srun("--nodes=2", "--ntasks=2", "--exclusive", "sleep", "4")
        runs.wait_for(lambda: "RUNNING" in self.states())
        job = self.call("submit", 1, 2, 2, "ours", of=own).strip()
        with own.open("ab") as file:
            file.write(b"\0")
        os.chmod(own, 0o755)
        errors = self.call("collect", job, status=2, of=own)
        self.assertIn("another build than the one that submitted the job", errors)
        other.communicate()

    def test_a_job_that_waits_can_be_cancelled(self):
        other = self.cluster.srun("--nodes=2", "--ntasks=2", "--exclusive", "sleep", "60")
        runs.wait_for(lambda: "RUNNING" in self.states())
        job = self.call("submit", 1, 2, 2, "ours").strip()
        self.call("cancel", job)
        self.assertIn(f"job {job} was cancelled", self.call("collect", job, status=130))
        other.kill()
        other.communicate()

    def test_a_cluster_without_the_program_lockstep_is_an_error(self):
        self.write_profile("bare", program="/nowhere/lockstep")
        job = self.call("submit", 1, 2, 1, "bare").strip()
        errors = self.call("collect", job, status=1)
        self.assertIn(f"job {job} has failed before its program began", errors)
        self.assertIn("the scheduler's log is in", errors)


if __name__ == "__main__":
    slurm.require(*slurm.PROGRAMS)
    unittest.main()
