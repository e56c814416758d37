#!/usr/bin/env python3
"""A training has the weights of one thread on four threads, on four processes, and on a real Slurm: on two nodes, with a
node that dies, taken by a more urgent job, and at its time limit."""

import subprocess
import unittest

import jobs_on_slurm  # noqa: F401  (finds the modules of tests/flow)
import runs
import slurm
import trained_on_slurm
from trained_on_slurm import EPOCHS, NODES, OPTIONS, STEP


class SameWeights(trained_on_slurm.TrainedOnSlurm, unittest.TestCase):
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
        runs.train(self.digits, self.folder / "threads", *OPTIONS, *EPOCHS, "--workers", "4")
        return self.folder / "threads"

    def on_processes(self):
        runs.run("run", "-n", "4", runs.PROGRAM, "train", self.digits, "--output", self.folder / "processes", *OPTIONS, *EPOCHS)
        return self.folder / "processes"

    def on_two_nodes(self):
        job = self.start("two")
        self.check(job, ["ended"])
        self.assertIn("on each of 4 ranks, over gloo", runs.plan_line(job.run, "workers"))
        return job.run

    def test_a_signal_before_the_time_limit(self):
        job = self.start("signalled")
        job.wait_for_step(STEP)
        self.cluster.ask("scancel", "--batch", "--signal=USR1", job.id)
        self.check(job, ["stopped", "ended"])
        self.assertIn("saved before the time limit", job.attempts_ended()[0]["reason"])

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
        """Here batch norms span the ranks of both nodes. The weights are those of one thread."""
        short = [*runs.SMALL, "--batch-norm-group", "mini-batch", "--gradient-clip", "1", "--augment", "shift"]
        runs.train(self.digits, self.folder / "short", *short, "--workers", "1")
        job = self.cluster.train(self.folder / "jobs", "wire", self.digits, *short, **NODES,
                                 **{"network-interface": "wire"})
        self.assertEqual(job.wait_until_over()["end"], "ended", job.said())
        self.assertEqual(runs.weights(job.run), runs.weights(self.folder / "short"))
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
