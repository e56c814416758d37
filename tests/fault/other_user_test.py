#!/usr/bin/env python3
"""Another user of this machine cannot take part in a training, have a rank map his file, or read what ranks
tell each other when they meet."""

import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "flow"))
import runs
import stranger

CUSTOM_LOOP = os.environ.get("LOCKSTEP_CUSTOM_LOOP", runs.PROGRAM.parent / "lockstep_example_custom_loop")
SECONDS = 100  # that nothing here takes
NAMED = "somebody writes there who does not know the secret of this launch"
TAKEN = "or another program took it away"


def children_of(process):
    try:
        children = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return []
    return [int(child) for child in children.split()]


def group_memory_of(process):
    """Memory of the size and with the head of a rank's group; none where it has none."""
    try:
        for descriptor in pathlib.Path(f"/proc/{process}/fd").iterdir():
            if os.readlink(descriptor).startswith("/memfd:lockstep-group"):
                with open(descriptor, "rb") as memory:
                    return memory.read(24) + bytes(os.fstat(memory.fileno()).st_size - 24)
    except OSError:
        pass
    return b""


def start(*words, environment=None):
    # a pipe that nobody reads would be full soon: c10d notes each of the stranger's calls
    log = tempfile.TemporaryFile("w+")
    process = subprocess.Popen(runs.command(*words), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                               env={**os.environ, **(environment or {})})
    process.log = log
    return process


def printed_by(process):
    process.wait(timeout=SECONDS)
    with process.log as log:
        log.seek(0)
        return log.read()


def variables_of_two():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    return [{"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port} for rank in "01"]


class OtherUser(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        launcher = cls.launch(cls.folder / "alone")[0]
        cls.memory = b""
        while launcher.poll() is None:
            for rank in children_of(launcher.pid):
                cls.memory = cls.memory or group_memory_of(rank)
            time.sleep(0.001)
        printed = printed_by(launcher)
        assert launcher.returncode == 0 and cls.memory, printed
        cls.expected = runs.weights(cls.folder / "alone")

    @classmethod
    def launch(cls, output, *options):
        """Two ranks of lockstep run."""
        return [start("run", "-n", 2, runs.PROGRAM, "train", cls.digits, "--output", output, *runs.SMALL, *options)]

    @classmethod
    def launch_by_hand(cls, output, *options, environment=None):
        """Two ranks without a launcher; rank 0 serves the store."""
        words = ["train", cls.digits, "--output", output, *runs.SMALL, *options]
        return [start(*words, environment={**variables, **(environment or {})}) for variables in variables_of_two()]

    def watch(self, processes, attacker):
        """Waits for the processes; none may have mapped the stranger's file meanwhile."""
        end = time.monotonic() + SECONDS
        while any(process.poll() is None for process in processes) and time.monotonic() < end:
            own = [process.pid for process in processes]
            for process in own + [child for parent in own for child in children_of(parent)]:
                try:
                    mapped = pathlib.Path(f"/proc/{process}/maps").read_text()
                except OSError:
                    continue
                self.assertNotIn(attacker.path, mapped, "a rank has mapped another user's file")
            time.sleep(0.01)
        return [printed_by(process) for process in processes]

    def attacked(self, attack, launch, name, *options, must_succeed=False, **more):
        """Either the right weights or an error that names the cause; gives the stranger."""
        output = self.folder / name
        with stranger.Stranger(attack, self.memory) as attacker:
            processes = launch(output, *options, **more)
            for process in processes:
                self.addCleanup(process.kill)
            printed = self.watch(processes, attacker)
        self.assertIn(b"he was there", attacker.loot)
        if all(process.returncode == 0 for process in processes):
            self.assertEqual(runs.weights(output), self.expected)
        else:
            self.assertFalse(must_succeed, printed)
            self.assertEqual({process.returncode for process in processes}, {1}, printed)
            self.assertTrue(any(NAMED in text or TAKEN in text for text in printed), printed)
        return attacker

    def test_who_offers_his_memory(self):
        for trial in runs.some([0], [1, 2]):
            self.attacked(stranger.offer_memory, self.launch, f"memory-{trial}", must_succeed=True)

    def test_who_writes_first(self):
        self.attacked(stranger.be_first, self.launch, "first", must_succeed=True)
        self.attacked(stranger.be_first, self.launch_by_hand, "first-by-hand", must_succeed=True)

    def test_who_writes_and_deletes_now_and_then(self):
        attack, options = stranger.share_of_the_time, ["--join-timeout", "10"]
        self.attacked(attack, self.launch, "shared-gloo", *options, "--communicator", "gloo")
        for launch in runs.some([self.launch_by_hand], [self.launch]):
            self.attacked(attack, launch, f"shared-{launch.__name__}", *options)

    def test_who_writes_without_end(self):
        attack, options = stranger.write_without_end, ["--join-timeout", "4"]
        for launch in runs.some([self.launch], [self.launch_by_hand]):
            self.attacked(attack, launch, f"endless-{launch.__name__}", *options)

    def test_nothing_is_to_be_read(self):
        for communicator in ("shared", "gloo"):
            options = ["--communicator", communicator]
            thief = self.attacked(stranger.steal, self.launch, f"stolen-{communicator}", *options, must_succeed=True)
            self.assertRegex(thief.loot, rb"/lockstep/\d+/0/roster=")
            self.assertIsNone(re.search(rb"token|/proc/|address|process", thief.loot))

    def test_who_keeps_connections(self):
        self.attacked(stranger.half_say, self.launch, "half", must_succeed=True)
        self.attacked(stranger.half_say, self.launch, "half-gloo", "--communicator", "gloo", must_succeed=True)

    def test_a_secret_that_the_ranks_were_given(self):
        given = {"LOCKSTEP_SECRET": "0123456789abcdef0123456789abcdef"}
        self.attacked(stranger.be_first, self.launch_by_hand, "given", must_succeed=True, environment=given)

    def test_a_pool_of_ranks(self):
        def printed(*words):
            done = subprocess.run([str(word) for word in [*words, CUSTOM_LOOP, self.digits, "--epochs", 1]],
                                  timeout=120,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
            return done.stdout

        expected = printed()
        with stranger.Stranger(stranger.be_first) as attacker:
            self.assertEqual(printed(runs.PROGRAM, "run", "-n", 2), expected)
        self.assertIn(b"he was there", attacker.loot)

    def test_secrets_that_differ(self):
        ranks = [start("train", self.digits, "--join-timeout", "3",
                       environment={**variables, "LOCKSTEP_SECRET": f"the secret of rank {variables['RANK']}"})
                 for variables in variables_of_two()]
        printed = [printed_by(rank) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [1, 1], printed)
        self.assertRegex(printed[0], r"rank 1 of 2 did not come to rank 0 within 3 s, at 127.0.0.1:\d+; "
                                     rf"{NAMED}\n  hint: give all ranks the same LOCKSTEP_SECRET")


if __name__ == "__main__":
    stranger.require_root()
    unittest.main(verbosity=2)
