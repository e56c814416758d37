#!/usr/bin/env python3
"""The real mpirun and srun start ranks of one training: the weights of one process, one voice, and one end for all.

usage: launchers_test.py mpirun|srun
"""

import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import machines
import runs
import slurm

OPTIONS = [*runs.SMALL, "--gradient-clip", "1", "--augment", "shift"]
# Writes its process's number where the test finds it: usage: sh -c NUMBERED FILE RANK COMMAND...
NUMBERED = 'eval "echo \\$\\$ >$0-\\$$1"; shift; exec "$@"'


class Launched(runs.TestFolders):
    """What both have in common."""

    rank_variable = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        runs.train(cls.digits, cls.folder / "alone", *OPTIONS)

    def printed_by(self, launcher):
        self.addCleanup(launcher.wait)
        self.addCleanup(launcher.terminate)  # its ranks too, where it did not end
        return launcher.communicate(timeout=runs.SECONDS_PER_RUN)[0]

    def check(self, output, launcher):
        """That the launched training has the weights of one process, and that one rank spoke; gives what was printed.
"""
        printed = self.printed_by(launcher)
        self.assertEqual(launcher.returncode, 0, printed)
        self.assertEqual(runs.weights(output), runs.weights(self.folder / "alone"))
        self.assertEqual(printed.count("model saved in"), 1, printed)
        self.assertEqual(len(list((output / "events").iterdir())), 1)
        return printed

    def train(self, output, *options):
        return runs.command("train", self.digits, "--output", output, *OPTIONS, *options)

    def lose_a_rank(self, output, start, kill):
        """start(command) begins a long training, kill(process) ends its rank 1."""
        launcher = start(["sh", "-c", NUMBERED, output, self.rank_variable,
                          *self.train(output, "--max-epochs", "100000")])
        while not runs.of_kind(output, "step") and launcher.poll() is None:
            time.sleep(0.02)
        process = pathlib.Path(f"{output}-1").read_text().strip()
        kill(process)
        printed = self.printed_by(launcher)
        self.assertNotEqual(launcher.returncode, 0)
        self.assertRegex(printed,
                         rf"lockstep: rank 1 \(process {process}\) on \S+ died\n.*hint: start all ranks again with "
                         rf"--output {output} --resume")


class Mpirun(Launched, unittest.TestCase):
    rank_variable = "OMPI_COMM_WORLD_RANK"

    def start(self, *words):
        launcher = ["mpirun", "-n", "2", "--oversubscribe", "--mca", "oob_tcp_if_include", "lo", "--mca",
                    "orte_tmpdir_base", self.folder]
        return subprocess.Popen([str(word) for word in [*launcher, *words]], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def test_same_weights(self):
        printed = self.check(self.folder / "ranks", self.start(*self.train(self.folder / "ranks")))
        self.assertNotIn("\x1b", printed, "this is no terminal, although mpirun gives rank 0 one")

    def test_a_killed_rank_is_named(self):
        # Seconds that mpirun lets pass twice; of itself it gives rank 0 one.
        patient = ["--mca", "odls_base_sigkill_timeout", "4"]
        self.lose_a_rank(self.folder / "lost", lambda command: self.start(*patient, *command),
                         lambda process: os.kill(int(process), signal.SIGKILL))


class Srun(Launched, unittest.TestCase):
    rank_variable = "SLURM_PROCID"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = slurm.Cluster()
        cls.enterClassContext(cls.cluster)

    def setUp(self):
        names = {f"machine-{node}": self.cluster.address(node) for node in range(2)}
        for node in range(2):
            self.cluster.know(node, names)

    def test_on_one_node(self):
        self.check(self.folder / "one", self.cluster.srun("-N1", "-n2", *self.train(self.folder / "one")))
        self.assertNotIn("gloo", runs.plan_line(self.folder / "one", "workers"))

    def check_two_nodes(self, name, *options):
        output = self.folder / name
        self.check(output, self.cluster.srun("-N2", *options, *self.train(output)))
        self.assertIn("on each of 2 ranks, over gloo at 10.77.0.1", runs.plan_line(output, "workers"))

    def test_on_two_nodes(self):
        self.check_two_nodes("two")

    def test_with_a_process_manager(self):
        self.check_two_nodes("pmi", "--mpi=pmi2")

    def test_mpirun_in_an_allocation(self):
        output = self.folder / "allocation"
        launch = ["salloc", "--quiet", "-N2", "--ntasks-per-node=1", "mpirun", "-n", "2", "--mca", "orte_tmpdir_base",
                  self.folder]
        self.check(output, self.cluster.start(0, *launch, *self.train(output), environment=self.cluster.environment()))
        self.assertIn("on each of 2 ranks, over gloo at 10.77.0.1", runs.plan_line(output, "workers"))

    def test_nodes_that_know_their_own_name_as_a_loopback(self):
        for node in range(2):
            self.cluster.know(node, {f"machine-{node}": "127.0.1.1",
                                     f"machine-{1 - node}": self.cluster.address(1 - node)})
        self.check_two_nodes("loopback")

    def test_nodes_whose_names_nobody_knows(self):
        for node in range(2):
            self.cluster.know(node, {})
        self.check_two_nodes("nameless")

    def test_a_killed_rank_is_named(self):
        for nodes in (1, 2):
            with self.subTest(nodes=nodes):
                kill = lambda process, nodes=nodes: self.cluster.run(nodes - 1, "kill", "-KILL", process)
                self.lose_a_rank(self.folder / f"lost-{nodes}", lambda command,
                                 nodes=nodes: self.cluster.srun(f"-N{nodes}", "-n2", *command), kill)


def main():
    wanted = {"mpirun": Mpirun, "srun": Srun}[sys.argv[1]]
    slurm.require("mpirun", *(slurm.PROGRAMS if wanted is Srun else []))
    if wanted is Srun:
        machines.require_two_machines()
    # In a container, where root is all there is.
    os.environ.update({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(wanted)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())


if __name__ == "__main__":
    main()
