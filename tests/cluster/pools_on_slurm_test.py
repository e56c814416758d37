#!/usr/bin/env python3
"""Pools whose workers are a job of a real Slurm of two nodes: the examples end as on this machine, who listens to the
network learns nothing, who does not know the secret is refused, and the job ends with its client.

usage: pools_on_slurm_test.py FOLDER-OF-PROGRAMS
"""

import contextlib
import functools
import json
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import unittest

import pools_on_slurm
import runs
import s3_on_cluster
import slurm

from s3_on_cluster import s3_server

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
EXAMPLES = {name: PROGRAMS / f"lockstep_example_{name}" for name in ("custom_loop", "sweep_parfor", "background_parfeval",
                                                                    "white_paper")}
# What a job of the examples sends that nobody else should read.
WORDS = [b"train_by_hand", b"accuracy", b"learning-rate", b"Epoch"]
# In the network namespace of a machine: all that comes and goes at the port, as it is on the wire.
LISTEN = """
import socket, struct, sys
port, file = int(sys.argv[1]), sys.argv[2]
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
print("ready", flush=True)
with open(file, "wb", buffering=0) as output:
    while True:
        packet = wire.recv(1 << 17)
        if packet[12:14] == b"\\x08\\x00" and packet[23] == 6:
            begin = 14 + 4 * (packet[14] & 15)
            if port in struct.unpack("!HH", packet[begin:begin + 4]):
                output.write(packet[begin + 4 * (packet[begin + 12] >> 4):])
"""


class PoolsOnSlurm(pools_on_slurm.OnSlurm, unittest.TestCase):
    def start_example(self, example, *words):
        return self.start(EXAMPLES[example], *words)

    @classmethod
    @functools.cache
    def here(cls, example, *words):
        """What the example prints on this machine alone."""
        return subprocess.run([EXAMPLES[example], *map(str, words)], check=True, capture_output=True, text=True,
                              cwd=cls.folder, timeout=runs.SECONDS_PER_RUN,
                              env={**os.environ, "XDG_CONFIG_HOME": str(cls.folder / "none")}).stdout

    def place(self):
        """Where a pool that opens is met, from the file that only its user can read."""
        found = []

        def is_there():
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                for file in (self.folder / "jobs/.pools").glob("*/*/place.json"):
                    self.assertEqual(file.stat().st_mode & 0o777, 0o600)
                    self.assertEqual(file.parent.stat().st_mode & 0o777, 0o700)
                    found.append(json.loads(file.read_text()))
            return bool(found)
        runs.wait_for(is_there, seconds=60)
        return found[0]

    @contextlib.contextmanager
    def listening(self, port):
        """Somebody on the second machine's wire; what he has heard is in the file."""
        file = self.folder / "heard"
        listener = subprocess.Popen(self.cluster.command(1, sys.executable, "-c", LISTEN, port, file),
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(listener.stdout.readline(), "ready\n")
            yield file
        finally:
            listener.kill()
            listener.wait()
            listener.stdout.close()

    def test_custom_loop(self):
        expected = self.here("custom_loop", self.digits, "--processes", 2)
        client = self.start_example("custom_loop", self.digits, "--processes", 4)
        place = self.place()
        with self.listening(place["port"]) as heard:
            self.refuse_strangers(place)
            processes = self.processes()
            output, errors = self.finish(client)
        self.assertEqual(output, expected)
        self.assertIn('starting a pool of 4 processes of the profile "ours"', errors)
        self.assertIn("machine-[0-1]", self.cluster.nodes_of_jobs())
        self.assertNotIn(place["secret"], processes)
        bytes_heard = heard.read_bytes()
        self.assertGreater(len(bytes_heard), 2_000)
        for word in [*WORDS, place["secret"].encode(), str(self.digits).encode()]:
            self.assertNotIn(word, bytes_heard)
        self.check_all_over()

    def processes(self):
        """Words and environments of all processes here and on the nodes."""
        texts = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            for name in ("cmdline", "environ"):
                with contextlib.suppress(OSError):
                    texts.append((process / name).read_bytes().decode(errors="replace"))
        return "\n".join(texts)

    def refuse_strangers(self, place):
        """Neither a program of another kind nor one with another secret is answered."""
        stranger = ("import socket, sys\n"
                    "for hello in (b'GET / HTTP/1.1\\r\\nHost: pool\\r\\n\\r\\n' + bytes(100), bytes.fromhex(sys.argv[3])):\n"
                    "    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20) as wire:\n"
                    "        wire.sendall(hello)\n"
                    "        try:\n            answer = wire.recv(1000)\n"
                    "        except ConnectionResetError:\n            answer = b''\n"
                    "        print(len(answer))\n")
        answers = self.cluster.ask(sys.executable, "-c", stranger, self.cluster.address(0), place["port"],
                                   secrets.token_hex(64), machine=1)
        self.assertEqual(answers, "0\n0")

    def test_in_a_job_the_pool_has_its_workers_and_nothing_is_submitted(self):
        expected = self.here("custom_loop", self.digits, "--processes", 2)
        before = len(self.states())
        self.finish(self.start(*runs.command("batch", "--profile", "ours", "--name", "inside", "--",
                                             EXAMPLES["custom_loop"], self.digits, "--processes", 4)))
        self.finish(self.start(*runs.command("job", "wait", "inside")))
        diary, _ = self.finish(self.start(*runs.command("job", "diary", "inside")))
        self.assertEqual([line for line in diary.splitlines(keepends=True) if re.search("Epoch|weights", line)],
                         [f"0: {line}" for line in expected.splitlines(keepends=True)], diary)
        self.assertIn("4 processes, the launcher's ranks on several machines,", diary)
        self.assertEqual(len(self.states()), before + 1)

    def test_in_an_allocation_the_pool_has_its_tasks(self):
        expected = self.here("custom_loop", self.digits, "--processes", 2)
        before = len(self.states())
        client = self.start("salloc", "--nodes=2", "--ntasks=4", "sh", "-c",
                            f"cd {self.folder} && {EXAMPLES['custom_loop']} {self.digits} --processes 4")
        output, errors = self.finish(client)
        self.assertEqual(output, expected)
        self.assertIn("starting a pool of 4 processes of this job of Slurm", errors)
        self.assertEqual(len(self.states()), before + 1)
        self.check_all_over()

    def test_sweep_parfor(self):
        def table(printed):
            return [re.sub(r" +\S+$", "", line) for line in printed.splitlines()]  # without the seconds
        expected = self.here("sweep_parfor", self.digits)
        output, errors = self.finish(self.start_example("sweep_parfor", self.digits, "processes"))
        self.assertEqual(table(output), table(expected))
        self.assertIn("rate 0.050000  finished, held-out accuracy ", errors)
        self.check_all_over()

    def test_background_parfeval(self):
        def lines(printed):
            return {line for line in printed.splitlines() if "digits_cnn" not in line}
        expected = self.here("background_parfeval", self.digits)
        output, errors = self.finish(self.start_example("background_parfeval", self.digits))
        self.assertEqual(lines(output), lines(expected))
        self.assertIn("connected to 3 processes", errors)
        self.check_all_over()

    def test_white_paper(self):
        """fit and predict, with images that the client has chosen."""
        words = [self.digits, "--network", "digits_cnn", "--image-size", "28x28", "--mini-batch-size", 10,
                 "--learning-rate", 0.01, "--max-epochs", 2, "--drop-period", 1, "--workers", 4]
        expected = self.here("white_paper", *words, "--output", "runs/here").splitlines()[-1]
        output, _ = self.finish(self.start_example("white_paper", *words, "--output", "runs/there"))
        self.assertEqual(output.splitlines()[-1], expected)
        self.check_all_over()

    def test_white_paper_from_a_store_by_pool_and_by_batch(self):
        """On two machines, with the keys of a real S3 server in the client's environment alone: the weights from disk."""
        words = ["--network", "digits_cnn", "--image-size", "28x28", "--mini-batch-size", 10, "--learning-rate", 0.01,
                 "--max-epochs", 2, "--drop-period", 1, "--workers", 4, "--output"]
        expected = self.here("white_paper", self.digits, *words, "runs/here").splitlines()[-1]
        self.assertRegex(expected, "accuracy .* 4 workers, weights [0-9a-f]{16}")
        with s3_on_cluster.ServerOnCluster(self.folder / "server", self.cluster) as server:
            server.make_bucket("photos")
            keys = {name: text for name, text in server.environment().items() if name.startswith("AWS_")}
            where = keys.pop("AWS_ENDPOINT_URL")
            self.write_profile("ours", **self.PROFILE, secrets=["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"],
                               environment=[f"AWS_ENDPOINT_URL={where}", "AWS_EC2_METADATA_DISABLED=true"])
            self.addCleanup(self.write_profile, "ours", **self.PROFILE)
            self.more_environment = {**keys, "AWS_ENDPOINT_URL": where}
            self.addCleanup(self.more_environment.clear)
            self.finish(self.start(*runs.command("copy", self.digits, "s3://photos/digits")))
            client = self.start_example("white_paper", "s3://photos/digits", *words, "runs/pool")
            self.place()
            listed = self.command_lines()
            output, errors = self.finish(client)
            self.assertEqual(output.splitlines()[-1], expected)
            self.assertIn('4 processes of the profile "ours"', errors)
            self.finish(self.start(*runs.command("batch", "--profile", "ours", "--name", "paper", "--",
                                                 EXAMPLES["white_paper"], "s3://photos/digits", *words, "runs/batch")))
            self.finish(self.start(*runs.command("job", "wait", "paper")))
            listed += self.command_lines()
            diary, _ = self.finish(self.start(*runs.command("job", "diary", "paper")))
            self.assertIn(f"0: {expected}", diary.splitlines())
        found = subprocess.run(["grep", "-r", "-l", s3_server.SECRET, self.folder, self.cluster.folder,
                                "--exclude-dir=server", "--exclude-dir=state"], capture_output=True, text=True, check=False)
        self.assertEqual(found.stdout, "", "files with the key; what Slurm itself keeps of a job is in its state folder")
        self.assertNotIn(s3_server.SECRET, listed)
        self.assertEqual(self.cluster.nodes_of_jobs()[-1], "machine-[0-1]")

    def command_lines(self):
        """Of all processes here and on the nodes, as ps shows them."""
        lines = []
        for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                lines.append(process.read_bytes().decode(errors="replace"))
        return "\n".join(lines)

    def test_the_job_ends_when_its_client_is_killed(self):
        client = self.start_example("custom_loop", self.digits, "--processes", 4, "--epochs", 1000)
        self.assertIn("Epoch: 1,", client.stdout.readline())
        for process in self.clients(EXAMPLES["custom_loop"]):
            os.kill(process, signal.SIGKILL)
        client.communicate()
        self.check_all_over()

    def test_while_it_opens_the_queue_is_shown_and_interrupting_cancels_the_job(self):
        other = self.cluster.srun("--nodes=2", "--ntasks=2", "--exclusive", "sleep", "60")
        runs.wait_for(lambda: "RUNNING" in self.states())
        client = self.start_example("custom_loop", self.digits, "--processes", 4)
        said = []
        while "waits in the queue" not in (said or [""])[-1]:
            said.append(client.stderr.readline())
            self.assertNotEqual(said[-1], "", said)
        for process in self.clients(EXAMPLES["custom_loop"]):
            os.kill(process, signal.SIGINT)
        client.communicate(timeout=30)
        self.assertNotEqual(client.returncode, 0)
        other.kill()
        other.communicate()
        self.check_all_over()
        self.assertIn("CANCELLED", self.states())


if __name__ == "__main__":
    slurm.require(*slurm.PROGRAMS)
    unittest.main()
