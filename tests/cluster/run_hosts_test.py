#!/usr/bin/env python3
"""`lockstep run --hosts`: ranks on two machines over a real sshd, without a scheduler. Ranks and machines that are lost
change no weight."""

import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

import jobs_on_slurm  # noqa: F401  (finds the modules of tests/flow)
import machines
import runs
import slurm
import ssh

OPTIONS = [*runs.SMALL, *runs.NO_MEETINGS, "--gradient-clip", "1", "--augment", "shift", "--max-epochs", "60", "--checkpoint-every", "10"]
HOSTS = "# two machines\nhost-1 slots=2\n\nhost-2 slots=2  # the other\n"
KILLS = 20 if runs.IS_LONG else 3
SECONDS = 400 if runs.IS_LONG else 150


def find_processes(*words):
    """Ids of processes whose command line has all the words, seen from outside."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if all(any(str(word) == part for part in line) for word in words):
            found.append(int(entry.name))
    return found


class RunOnHosts(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        runs.train(cls.digits, cls.folder / "alone", *OPTIONS, "--workers", "1")
        cls.expected = runs.weights(cls.folder / "alone")

    def setUp(self):
        self.processes = []
        self.addCleanup(lambda: [process.wait() for process in self.processes])
        self.here = self.folder / self._testMethodName
        self.here.mkdir()
        self.pair = self.enterContext(machines.Machines(3))  # ssh comes from machine-0
        self.servers = ssh.Servers(self.pair, self.here, self.begin)
        for number in (1, 2):
            self.servers.serve(number, f"host-{number}", self.pair.address(number))
        self.servers.configure(0)
        runs.wait_for(lambda: all(self.servers.is_up(f"host-{number}") for number in (1, 2)))
        (self.here / "hosts").write_text(HOSTS)

    def begin(self, machine, *words):
        self.processes.append(self.pair.start(machine, *words))

    def start(self, *words, environment=None):
        return subprocess.Popen(self.pair.command(0, *runs.command("run", "--hosts", self.here / "hosts", *words)),
                                cwd=self.here, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env={**os.environ, **(environment or {})})

    def train(self, output, *words):
        return self.start(*words, "--", "lockstep", "train", self.digits, "--output", output, *OPTIONS)

    def end_of(self, process, status=0):
        printed = process.communicate(timeout=SECONDS)[0]
        self.assertEqual(process.returncode, status, printed)
        return printed

    def test_same_weights(self):
        output = self.here / "run"
        printed = self.end_of(self.train(output, "-n", "4"))
        self.assertEqual(runs.weights(output), self.expected)
        self.assertIn("on each of 4 ranks, over gloo at 10.77.0.2", runs.plan_line(output, "workers"))
        self.assertEqual(printed.count("model saved in"), 1, printed)

    def test_what_a_program_finds(self):
        line = "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $(hostname) $OURS ${THEIRS:-none}"
        printed = self.end_of(self.start("-n", "3", "--pass", "OURS", "--", "sh", "-c", line,
                                         environment={"OURS": "passed", "THEIRS": "kept"}))
        self.assertEqual(sorted(printed.splitlines()),
                         ["0 0 3 2 0 machine-1 passed none", "[rank 1] 1 1 3 2 0 machine-1 passed none",
                          "[rank 2] 2 0 3 1 1 machine-2 passed none"])

    def test_tee_makes_its_folder(self):
        logs = self.here / "new" / "logs"
        self.end_of(self.start("-n", "3", "--tee", logs, "--", "sh", "-c", "echo out $RANK"))
        for rank in range(3):
            self.assertEqual((logs / f"rank-{rank}.log").read_text(), f"out {rank}\n")

    def test_killed_ranks(self):
        output = self.here / "run"
        drawn = random.Random(30)
        launcher = self.train(output, "-n", "4", "--max-restarts", KILLS + 2)
        killed = 0
        for _ in range(KILLS):
            before = runs.steps_done(output)
            runs.wait_for(lambda: runs.steps_done(output) > before + 12 or launcher.poll() is not None, SECONDS)
            ranks = find_processes("train", output, "--max-epochs")
            ranks = [rank for rank in ranks if rank not in find_processes("--hosts", output)]
            if launcher.poll() is not None or not ranks:
                break
            os.kill(drawn.choice(ranks), signal.SIGKILL)
            killed += 1
        printed = self.end_of(launcher)
        print(f"{killed} ranks killed, {printed.count('all are started again')} restarts", flush=True)
        self.assertEqual(killed, KILLS, printed)
        self.assertRegex(printed, r"rank \d on host-\d \(process \d+\) was killed by signal 9 \(Killed\); "
                                  r"all are started again \(1 of \d+\)")
        self.assertEqual(runs.weights(output), self.expected)

    def test_a_machine_that_dies_is_left_out(self):
        output = self.here / "run"
        launcher = self.train(output, "-n", "4", "--max-restarts", "2")
        runs.wait_for(lambda: runs.steps_done(output) > 12 or launcher.poll() is not None, SECONDS)
        self.pair.crash(2)
        printed = self.end_of(launcher)
        self.assertIn("host-2 cannot be reached and is left out", printed)
        self.assertEqual(runs.weights(output), self.expected)
        self.assertIn("on each of 2 ranks", runs.plan_line(output, "workers"))

    def test_an_error_is_no_reason_to_start_again(self):
        printed = self.end_of(self.start("-n", "2", "--max-restarts", "5", "--", "lockstep", "train",
                                         self.here / "nothing", "--output", self.here / "run"), status=1)
        self.assertNotIn("started again", printed)
        self.assertIn("nothing", printed)

    def test_control_c_saves(self):
        output = self.here / "run"
        launcher = self.train(output, "-n", "4")
        runs.wait_for(lambda: runs.steps_done(output) > 5 or launcher.poll() is not None, SECONDS)
        os.kill(find_processes("run", self.here / "hosts", output)[-1], signal.SIGINT)
        self.end_of(launcher, status=130)
        self.assertEqual(find_processes("train", output), [])
        self.end_of(self.start("-n", "2", "--", "lockstep", "train", self.digits, "--output", output, *OPTIONS,
                               "--resume"))
        self.assertEqual(runs.weights(output), self.expected)

    def test_nothing_is_left_when_the_launcher_is_killed(self):
        output = self.here / "run"
        launcher = self.train(output, "-n", "4")
        runs.wait_for(lambda: runs.steps_done(output) > 5 or launcher.poll() is not None, SECONDS)
        secrets = [line for line in map(lambda path: self.read_bytes(path), pathlib.Path("/proc").glob("[0-9]*/cmdline"))
                   if b"SECRET" in line]
        self.assertEqual(secrets, [])
        for process in find_processes("run", self.here / "hosts", output):
            os.kill(process, signal.SIGKILL)
        launcher.communicate(timeout=60)
        runs.wait_for(lambda: not find_processes("train", output), 20)

    @staticmethod
    def read_bytes(path):
        try:
            return path.read_bytes()
        except OSError:
            return b""

    def test_hosts_that_cannot_be_used(self):
        def says(text, *expected, words=("-n", "2")):
            (self.here / "hosts").write_text(text)
            process = self.start(*words, "--", "true")
            printed = process.communicate(timeout=60)[0]
            self.assertNotEqual(process.returncode, 0)
            for part in expected:
                self.assertIn(part, printed)
        says("host-1\nhost-9\n", "cannot reach host-9: ", "ssh host-9")
        says("host-1 slots=1\nhost-2 slots=1\n", "the hosts have 2 slots, and there are to be 5 ranks", words=("-n", "5"))
        says("host-1 slots=no\n", 'line 1 of the hosts: "slots=no" is no number of ranks')
        says("-oProxyCommand=true\n", 'line 1 of the hosts: "-oProxyCommand=true" cannot be the name of a host')
        says("host-1 slots=1 address=127.0.0.1\nhost-2 slots=1\n",
             "host-1 is reached at 127.0.0.1, where host-2 cannot reach it", "host-1 address=A")
        says("# none\n", "there is no host")
        says("host-1\n", "host-1 does not have Lockstep", "--program PATH", words=("-n", "1", "--program", "/no/lockstep"))
        self.servers.forget_hosts()
        says("host-1\n", "cannot reach host-1: Host key verification failed", "connect once by hand")


if __name__ == "__main__":
    machines.require_two_machines()
    slurm.require(*ssh.PROGRAMS)
    unittest.main(verbosity=2)
