#!/usr/bin/env python3
"""A training has the weights of one thread on four threads, on four processes, and on a real Slurm: on two nodes, with a
node that dies, taken by a more urgent job, and at its time limit."""

import contextlib
import os
import pathlib
import signal
import subprocess
import unittest

import jobs_on_slurm
import runs
import slurm

# digits_cnn, long enough to be stopped in the middle.
OPTIONS = [*runs.SMALL, "--network", "digits_cnn", "--gradient-clip", "1", "--augment", "shift", "--max-epochs", "60"]
NODES = {"nodes": 2, "workers": 4}
STEP = 30  # of 420: in mid-epoch


class SameWeights(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        runs.train(cls.digits, cls.folder / "alone", *OPTIONS, "--workers", "1")
        cls.expected = runs.weights(cls.folder / "alone")
        cls.cluster = jobs_on_slurm.Cluster(count=3)
        cls.enterClassContext(cls.cluster)
        names = {f"machine-{node}": cls.cluster.address(node) for node in range(3)}
        for node in range(3):
            cls.cluster.know(node, names)

    def start(self, name, **keys):
        return self.cluster.train(self.folder / "jobs", name, self.digits, *OPTIONS, **{**NODES, **keys})

    def check(self, job, ends):
        """That the job ended well after attempts that ended so, with the weights of one thread."""
        self.assertEqual(job.wait_until_over()["end"], "ended", job.said())
        self.assertEqual([result["end"] for result in job.attempts_ended()], ends, job.said())
        self.assertEqual(runs.weights(job.run), self.expected)
        steps = [result["step"] for result in job.attempts_ended()]
        self.assertEqual(steps, sorted(steps), "an attempt goes on where the last one stopped")

    def test_seven_ways_have_one_hash(self):
        """Each part fails by itself; the table names all of them."""
        ways = {"1 thread": lambda: self.folder / "alone", "4 threads": self.on_threads, "4 processes": self.on_processes,
                "2 nodes": self.on_two_nodes, "a node died": self.with_a_dead_node, "preempted": self.preempted,
                "time limit": self.at_the_time_limit}
        hashes = {}
        for name, train in ways.items():
            with self.subTest(name):
                hashes[name] = runs.weights(train())[0]
                print(f"  {hashes[name]}  {name}", flush=True)
        self.assertEqual(list(hashes), list(ways))
        self.assertEqual(set(hashes.values()), {self.expected[0]})

    def on_threads(self):
        runs.train(self.digits, self.folder / "threads", *OPTIONS, "--workers", "4")
        return self.folder / "threads"

    def on_processes(self):
        runs.run("run", "-n", "4", runs.PROGRAM, "train", self.digits, "--output", self.folder / "processes", *OPTIONS)
        return self.folder / "processes"

    def on_two_nodes(self):
        job = self.start("two")
        self.check(job, ["ended"])
        self.assertIn("on each of 4 ranks, over gloo", runs.plan_line(job.run, "workers"))
        return job.run

    def ranks_of(self, job):
        found = []
        for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = file.read_bytes().decode().split("\0")
                if words[1:2] == ["train"] and str(job.run) in words:
                    found.append(int(file.parent.name))
        return found

    def at_the_time_limit(self):
        """Slurm looks every half a minute whose limit is near, and allows no limit below a minute. The ranks stand still
        until then, and not longer."""
        job = self.start("limit", time="1", **{"signal-before": 55})
        job.wait_for_step(STEP)
        ranks = self.ranks_of(job)
        self.assertEqual(len(ranks), 4)
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)
        job.wait(lambda: "the time limit is near" in (job.folder / "slurm.log").read_text(), "the signal before the limit")
        for rank in ranks:
            os.kill(rank, signal.SIGCONT)
        self.assertEqual(job.wait_until_over()["end"], "ended", job.said())
        # A later attempt may be near its limit, too, when Slurm looks.
        *stopped, last = [result["end"] for result in job.attempts_ended()]
        self.assertEqual((set(stopped), last), ({"stopped"}, "ended"), job.said())
        self.assertIn("saved before the time limit", job.attempts_ended()[0]["reason"])
        return job.run

    def test_a_signal_before_the_time_limit(self):
        job = self.start("signalled")
        job.wait_for_step(STEP)
        self.cluster.ask("scancel", "--batch", "--signal=USR1", job.id)
        self.check(job, ["stopped", "ended"])
        self.assertIn("saved before the time limit", job.attempts_ended()[0]["reason"])

    def preempted(self):
        job = self.start("preempted", nodes=3, workers=3)
        job.wait_for_step(STEP)
        urgent = self.cluster.submit(self.folder / "jobs", "urgent", "program", "/bin/true", partition="urgent", nodes=3,
                                     options=["--exclusive"])
        self.assertEqual(urgent.wait_until_over()["end"], "ended", urgent.said())
        self.check(job, ["stopped", "ended"])
        return job.run

    def with_a_dead_node(self):
        job = self.start("dead-node")
        job.wait_for_step(STEP)
        on = job.cluster.ask("squeue", "-h", "-j", job.id, "-o", "%N")
        self.assertEqual(on, "machine-[0-1]")
        self.cluster.crash(1)
        job.wait(lambda: runs.steps_done(job.run) > STEP and (job.folder / "attempt-2").exists() or
                 "BeginTime" in self.cluster.ask("squeue", "-h", "-t", "all", "-j", job.id, "-o", "%r"),
                 "the second attempt")
        self.cluster.restart(1)
        self.cluster.wait("the node again", lambda: self.cluster.idle_nodes() == 3)
        self.assertEqual(job.wait_until_over()["end"], "ended", job.said())
        self.assertEqual(runs.weights(job.run), self.expected)
        return job.run

    def test_the_network_of_the_profile_reaches_every_rank(self):
        folder = self.folder / "environments"
        folder.mkdir()
        job = self.cluster.submit(
            self.folder / "jobs", "environment", "program", "/bin/sh", "-c", f"env >{folder}/$SLURM_PROCID", **NODES,
            **{"network-interface": "wire", "fast-multinode": "off", "environment": ["NCCL_ALGO=Ring", "NCCL_DEBUG=WARN"]})
        self.assertEqual(job.wait_until_over()["end"], "ended", job.said())
        self.assertEqual(len(list(folder.iterdir())), 4)
        for rank in folder.iterdir():
            lines = rank.read_text().splitlines()
            for line in ("NCCL_SOCKET_IFNAME=wire", "GLOO_SOCKET_IFNAME=wire", "NCCL_IB_DISABLE=1", "NCCL_NET=Socket",
                         "NCCL_ALGO=Ring", "NCCL_DEBUG=WARN"):
                self.assertIn(line, lines)

    def test_the_plan_names_the_interface_and_a_wrong_one_is_an_error(self):
        short = [*runs.SMALL, "--gradient-clip", "1", "--augment", "shift"]
        job = self.cluster.train(self.folder / "jobs", "wire", self.digits, *short, **NODES,
                                 **{"network-interface": "wire"})
        self.assertEqual(job.wait_until_over()["end"], "ended", job.said())
        self.assertRegex(runs.plan_line(job.run, "workers"), r"over gloo at 10\.77\.0\.\d")
        job = self.cluster.train(self.folder / "jobs", "no-wire", self.digits, *short, **NODES,
                                 **{"network-interface": "ib7"})
        self.assertEqual(job.wait_until_over()["end"], "failed", job.said())
        self.assertIn('no network interface "ib7"', job.said())

    def test_a_fast_network_that_is_not_there_is_an_error(self):
        job = self.cluster.train(self.folder / "jobs", "fast", self.digits, *OPTIONS, "--execution", "cpu", **NODES,
                                 **{"fast-multinode": "on"})
        self.assertEqual(job.wait_until_over()["end"], "failed", job.said())
        self.assertIn("fast-multinode is on: machines send gradients from GPU to GPU by NCCL", job.said())
        folder = self.folder / "settings"
        tried = {**self.cluster.environment(), "XDG_CONFIG_HOME": str(folder), "LOCKSTEP_JOBS": str(self.folder / "tried")}
        for words, status, text in ((["create", "fast", "--fast-multinode", "on"], 0, ""),
                                    (["validate", "fast"], 1, "the profile asks for no GPU"),
                                    (["create", "slow", "--nodes", "2", "--workers", "2", "--program", runs.PROGRAM], 0, ""),
                                    (["validate", "slow"], 0, "over gloo at 10.77.0.")):
            done = subprocess.run(self.cluster.command(0, *runs.command("cluster", *words)), env=tried, text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            self.assertIn(text, done.stdout)


if __name__ == "__main__":
    slurm.require(*slurm.PROGRAMS)
    unittest.main()
