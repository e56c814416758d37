#!/usr/bin/env python3
"""Published weights and data: downloads from a server on this machine, with its faults; training from them."""

import gzip
import hashlib
import json
import os
import pathlib
import pty
import random
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

import runs
import squeezenet_file
import web_server

DOWNLOAD = pathlib.Path(os.environ.get("LOCKSTEP_DOWNLOAD", runs.ROOT / "build/release/bin/lockstep_fetch"))
SMALL = bytes(range(256)) * 1200
HASH = hashlib.sha256(SMALL).hexdigest()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class InAFolder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="lockstep-test-weights-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.cache = self.folder / "cache"
        self.environment = dict(os.environ, LOCKSTEP_CACHE=str(self.cache), no_proxy="*")

    def lockstep(self, *words, expect=0, **more):
        run = subprocess.run([runs.PROGRAM, *map(str, words)], env=dict(self.environment, **more), capture_output=True,
                             text=True, stdin=subprocess.DEVNULL, timeout=runs.SECONDS_PER_RUN, check=False)
        self.assertEqual(run.returncode, expect, run.stdout + run.stderr)
        return run.stdout + run.stderr


class Downloads(InAFolder):
    """download::fetch, by a program that does nothing else."""

    def setUp(self):
        super().setUp()
        self.path = self.folder / "kept" / "small.bin"
        self.part = self.path.with_name("small.bin.part")

    def command(self, address, digest=HASH[:8], most=len(SMALL)):
        return [DOWNLOAD, address, digest, str(most), self.path]

    def fetch(self, *words, **named):
        run = subprocess.run(self.command(*words, **named), env=self.environment, capture_output=True, text=True,
                             timeout=60, check=False)
        self.assertIn(run.returncode, (0, 1), run.stderr)
        return run.stderr

    def kept(self):
        """What is in the folder; nothing else may stay there."""
        return sorted(path.name for path in self.path.parent.glob("*"))

    def test_a_file_is_downloaded_once(self):
        with web_server.serving({"small.bin": SMALL}) as (address, served):
            self.assertEqual(self.fetch(address + "small.bin"), "")
            self.assertEqual(self.fetch(address + "small.bin"), "")
            self.assertEqual(len(served.requests), 1)
        self.assertEqual(self.path.read_bytes(), SMALL)
        self.assertEqual(self.kept(), ["small.bin"])

    def test_another_file_is_refused_and_not_kept(self):
        with web_server.serving({"small.bin": SMALL[:-1] + b"!"}) as (address, _):
            said = self.fetch(address + "small.bin")
        self.assertIn(f'corrupt_data: "{address}small.bin" is not the published file: its SHA-256 begins with', said)
        self.assertIn(f"not {HASH[:8]}", said)
        self.assertEqual(self.kept(), [])

    def test_an_interrupted_download_continues(self):
        with web_server.serving({"small.bin": SMALL}) as (address, served):
            served.cut_after = 100_000
            said = self.fetch(address + "small.bin")
            self.assertIn("ended early, after 97.7 KB", said)
            self.assertIn("hint: repeat the command to continue", said)
            self.assertEqual(self.part.read_bytes(), SMALL[:100_000])
            served.cut_after = None
            self.assertEqual(self.fetch(address + "small.bin"), "")
            self.assertEqual(served.requests[-1], ("small.bin", "bytes=100000-"))
        self.assertEqual(self.path.read_bytes(), SMALL)
        self.assertEqual(self.kept(), ["small.bin"])

    def test_a_server_that_cannot_continue_sends_the_whole_file(self):
        self.path.parent.mkdir()
        self.part.write_bytes(SMALL[:5000])
        with web_server.serving({"small.bin": SMALL}) as (address, served):
            served.ranges = False
            self.assertEqual(self.fetch(address + "small.bin"), "")
        self.assertEqual(self.path.read_bytes(), SMALL)

    def test_a_beginning_of_another_file_is_given_up(self):
        for beginning in (b"x" * 5000, b"x" * len(SMALL), SMALL):
            self.path.parent.mkdir(exist_ok=True)
            self.part.write_bytes(beginning)
            with web_server.serving({"small.bin": SMALL}) as (address, _):
                self.assertEqual(self.fetch(address + "small.bin"), "", len(beginning))
            self.assertEqual(self.path.read_bytes(), SMALL)
            self.path.unlink()

    def test_a_file_that_is_too_large_is_refused(self):
        with web_server.serving({"small.bin": SMALL}) as (address, _):
            said = self.fetch(address + "small.bin", most=len(SMALL) - 1)
        self.assertIn("it sends more than the 300.0 KB that this file may have", said)
        self.assertFalse(self.path.exists())

    def test_what_a_server_refuses_is_said_with_the_address(self):
        with web_server.serving({}) as (address, _):
            said = self.fetch(address + "small.bin")
        self.assertIn(f'communication: cannot download "{address}small.bin": the server answers with status 404', said)
        self.assertEqual(self.kept(), ["small.bin.part"])
        nobody = f"http://127.0.0.1:{free_port()}/small.bin"
        said = self.fetch(nobody)
        self.assertIn(f'cannot download "{nobody}": Failed to connect to 127.0.0.1', said)
        said = self.fetch("http://no.such.host.invalid/small.bin")
        self.assertIn("Could not resolve host: no.such.host.invalid", said)

    def test_redirections_lead_to_web_servers_only(self):
        secret = self.folder / "secret"
        secret.write_bytes(SMALL)
        with web_server.serving({"small.bin": SMALL}) as (address, served):
            served.redirects = {"moved": address + "small.bin", "file": f"file://{secret}", "round": address + "round"}
            self.assertIn("cannot download", self.fetch(address + "file"))
            self.assertFalse(self.path.exists())
            self.assertIn("Maximum (5) redirects followed", self.fetch(address + "round"))
            self.assertEqual(self.fetch(address + "moved"), "")
        self.assertEqual(self.path.read_bytes(), SMALL)

    def test_a_certificate_that_nobody_trusts_is_refused(self):
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                               "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key", "-out",
                               "certificate"], cwd=self.folder, capture_output=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self.folder / "certificate", self.folder / "key")
        with web_server.serving({"small.bin": SMALL}, tls) as (address, served):
            self.assertIn("SSL certificate problem", self.fetch(address + "small.bin"))
            self.assertEqual(served.requests, [])
        self.assertFalse(self.path.exists())

    def test_two_processes_download_one_file(self):
        with web_server.serving({"small.bin": SMALL}) as (address, served):
            served.slow.clear()
            both = [subprocess.Popen(self.command(address + "small.bin")) for _ in range(2)]
            runs.wait_for(lambda: served.requests)
            time.sleep(0.3)  # the other one comes to the lock
            served.slow.set()
            self.assertEqual([one.wait(60) for one in both], [0, 0])
            self.assertEqual(len(served.requests), 1)
        self.assertEqual(self.kept(), ["small.bin"])
        self.assertEqual(self.path.read_bytes(), SMALL)

    def test_a_killed_download_leaves_what_can_continue(self):
        with web_server.serving({"small.bin": SMALL}) as (address, served):
            served.slow.clear()
            one = subprocess.Popen(self.command(address + "small.bin"))
            runs.wait_for(lambda: self.part.exists() and self.part.stat().st_size > 0)
            one.kill()
            one.wait()
            served.slow.set()
            self.assertEqual(self.fetch(address + "small.bin"), "")
        self.assertEqual(self.path.read_bytes(), SMALL)
        self.assertEqual(self.kept(), ["small.bin"])

    def test_a_folder_that_cannot_be_written_is_named(self):
        self.path.parent.write_text("a file")
        with web_server.serving({"small.bin": SMALL}) as (address, _):
            said = self.fetch(address + "small.bin")
        self.assertIn(f'cannot create folder "{self.path.parent}"', said)


class Weights(InAFolder):
    """lockstep weights, and training from published weights."""

    @classmethod
    def setUpClass(cls):
        cls.content = squeezenet_file.check(squeezenet_file.content())

    def kept(self):
        return self.cache / "weights" / squeezenet_file.NAME

    def keep(self):
        self.kept().parent.mkdir(parents=True)
        self.kept().write_bytes(self.content)

    def digits(self, count=24):
        folder = self.folder / "digits"
        runs.write_digits({folder: count})
        return folder

    def test_weights_are_listed_and_downloaded(self):
        with web_server.serving({squeezenet_file.NAME: self.content}) as (address, served):
            self.assertRegex(self.lockstep("weights", "list"), r"squeezenet1_1 +1,000 +58.2 % +80.6 % +4.7 MB +no")
            for _ in range(2):
                self.assertEqual(self.lockstep("weights", "get", "squeezenet1_1", "--mirror", address),
                                 f"{self.kept()}\n")
            self.assertEqual(len(served.requests), 1)
        self.assertRegex(self.lockstep("weights", "list"), r"squeezenet1_1 .* yes\n")
        listed = {one["network"]: one for one in json.loads(self.lockstep("weights", "list", "--json"))}
        self.assertEqual(listed["squeezenet1_1"]["path"], str(self.kept()))
        self.assertTrue(listed["squeezenet1_1"]["cached"])
        self.assertFalse(listed["resnet18"]["cached"])

    def test_errors_have_a_command_that_helps(self):
        with web_server.serving({}) as (address, _):
            said = self.lockstep("weights", "get", "vgg16", "--mirror", address, expect=1)
        self.assertIn(f'cannot download "{address}vgg16-397923af.pth": the server answers with status 404', said)
        said = self.lockstep("weights", "get", "vgg61", expect=2)
        self.assertIn('there are no published weights of "vgg61"\n  hint: did you mean vgg16?', said)
        said = self.lockstep("weights", "get", "vgg16", "--mirror", "ftp://somewhere", expect=2)
        self.assertIn('the mirror "ftp://somewhere" is no address of a web server', said)
        said = self.lockstep("train", self.digits(), "--pretrained", expect=1)
        self.assertIn("the weights of resnet18 are not in the cache", said)
        self.assertIn("hint: download them: lockstep weights get resnet18", said)

    def test_ctrl_c_stops_a_download(self):
        with web_server.serving({squeezenet_file.NAME: self.content}) as (address, served):
            served.slow.clear()
            one = subprocess.Popen([runs.PROGRAM, "weights", "get", "squeezenet1_1", "--mirror", address],
                                   env=self.environment, stderr=subprocess.PIPE, text=True)
            part = self.kept().with_name(squeezenet_file.NAME + ".part")
            runs.wait_for(lambda: part.exists() and part.stat().st_size > 0)
            one.send_signal(signal.SIGINT)
            said = one.communicate(timeout=60)[1]
            self.assertEqual(one.returncode, 130, said)
            self.assertIn("repeat the command to continue", said)
            served.slow.set()
            self.lockstep("weights", "get", "squeezenet1_1", "--mirror", address)
            self.assertRegex(served.requests[-1][1], "bytes=[0-9]+-")
        self.assertEqual(self.kept().read_bytes(), self.content)

    def test_training_starts_from_them(self):
        self.keep()
        digits = self.digits()
        plan = self.lockstep("plan", digits, "--pretrained", "squeezenet1_1")
        self.assertRegex(plan, r"network +squeezenet1_1 ")
        self.assertRegex(plan, rf"weights +{self.kept()} +trained on ImageNet, published by PyTorch\n")
        self.assertRegex(plan, r"new head +classifier.1 +for 10 classes\n")
        self.assertRegex(plan, r"image size +224x224 +the centre of images fitted to 256x256 \(crop\)\n")
        self.assertRegex(plan, r"color +rgb ")
        self.assertRegex(plan, r"normalize +imagenet ")
        small = ["--image-size", "64x64", "--mini-batch-size", "8", "--shards", "2", "--max-steps", "4", "--patience", "0",
                 "--checkpoint-every", "2", "--validation-count-per-class", "1"]
        # By name, by the network, and by the file with all that it means: one training.
        by = {"name": ["--pretrained", "squeezenet1_1"], "network": ["--pretrained", "--network", "squeezenet1_1"],
              "file": ["--weights", self.kept(), "--head", "new", "--resize-to", "64x64"]}
        for name, words in by.items():
            self.lockstep("train", digits, *small, *words, "--workers", "2" if name == "network" else "1", "--output",
                          self.folder / name)
        hashes = {name: runs.weights(self.folder / name) for name in by}
        self.assertEqual(len(set(hashes.values())), 1, hashes)
        # Stopped in the middle and continued.
        stopped = self.folder / "stopped"
        self.lockstep("train", digits, *small, *by["name"], "--max-time", "0.000001", "--output", stopped)
        self.lockstep("train", digits, "--max-time", "0", "--resume", "--output", stopped)
        self.assertEqual(runs.weights(stopped), hashes["name"])

    def photographs(self):
        """24 coloured noise images of 72x72 in two classes, as PPM."""
        draw = random.Random(2)
        for i in range(24):
            path = self.folder / "photographs" / ("cat", "dog")[i % 2] / f"{i:02}.ppm"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"P6 72 72 255\n" + draw.randbytes(3 * 72 * 72))
        return self.folder / "photographs"

    def test_few_photographs_start_from_those_in_the_cache(self):
        photographs = self.photographs()
        plan = self.lockstep("plan", photographs)
        self.assertRegex(plan, "network +resnet9 .*start from trained weights: --pretrained")
        self.assertNotIn("trained on ImageNet", plan)
        few = ["--mini-batch-size", "8", "--shards", "2", "--max-steps", "2", "--patience", "0", "--checkpoint-every", "1"]
        self.lockstep("train", photographs, *few, "--network", "resnet18", "--image-size", "72x72", "--output",
                      self.folder / "random")
        kept = self.cache / "weights" / "resnet18-f37072fd.pth"
        kept.parent.mkdir(parents=True)
        kept.write_bytes((self.folder / "random" / "model.safetensors").read_bytes())
        plan = self.lockstep("plan", photographs)
        self.assertRegex(plan, r"--pretrained +resnet18 +few photographs, and the weights are in the cache")
        self.assertRegex(plan, rf"weights +{kept} +trained on ImageNet")
        self.assertRegex(plan, r"new head +fc +for 2 classes")
        self.assertRegex(plan, r"image size +224x224 ")
        self.assertRegex(plan, r"normalize +imagenet ")
        self.assertRegex(plan, r"optimizer +adam +learning rate 1e-04,")
        for words in (["--network", "resnet18"], ["--recipe", "plain"], ["--image-size", "96x96"]):
            self.assertNotIn("trained on ImageNet", self.lockstep("plan", photographs, *words))
        hashes = set()
        for name, words in {"recipe": ["--workers", "1"], "two workers": ["--workers", "2"],
                            "given": ["--pretrained", "resnet18"]}.items():
            self.lockstep("train", photographs, *few, *words, "--output", self.folder / name)
            hashes.add(runs.weights(self.folder / name))
        stopped = self.folder / "stopped"
        self.lockstep("train", photographs, *few, "--max-time", "0.000001", "--output", stopped)
        self.lockstep("train", photographs, "--max-time", "0", "--resume", "--output", stopped)
        hashes.add(runs.weights(stopped))
        self.assertEqual(len(hashes), 1)

    def test_files_that_do_not_say_their_normalisation_are_asked_for_it(self):
        digits = self.digits(40)
        small = ["--image-size", "16x16", "--max-steps", "2", "--mini-batch-size", "20"]
        first = self.folder / "first"
        self.lockstep("train", digits, "--network", "lenet", *small, "--normalize", "mean-std", "--output", first)
        # In its run folder, its normalisation is known.
        plan = self.lockstep("plan", digits, "--network", "lenet", *small, "--weights", first / "model.safetensors")
        numbers = json.loads((first / "options.json").read_text())["plan"]["data"]
        self.assertIn(f"{numbers['mean'][0]!r},{numbers['deviation'][0]!r}", plan)
        alone = self.folder / "alone.safetensors"
        alone.write_bytes((first / "model.safetensors").read_bytes())
        for command in ("plan", "predict"):
            words = [digits, "--network", "lenet"] if command == "plan" else ["lenet", digits]
            said = self.lockstep(command, *words, "--image-size", "16x16", "--weights", alone, expect=2)
            self.assertIn("does not say how the samples of its training were normalised\n  hint: --normalize imagenet",
                          said)
        self.lockstep("plan", digits, "--network", "lenet", *small, "--weights", alone, "--normalize", "none")

    def test_a_terminal_is_asked(self):
        child, terminal = pty.fork()
        if child == 0:
            os.execve(runs.PROGRAM, ["lockstep", "plan", str(self.folder), "--pretrained", "vgg16"], self.environment)
        said = b""
        while b"[Y/n]" not in said:
            said += os.read(terminal, 4096)
        self.assertIn(b"download vgg16-397923af.pth (527.8 MB) from https://download.pytorch.org/models/", said)
        os.write(terminal, b"n\n")
        try:
            while more := os.read(terminal, 4096):
                said += more
        except OSError:
            pass  # the program has ended
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 1)
        self.assertIn(b"lockstep weights get vgg16", said)


class Data(InAFolder):
    """lockstep data get. The published files are not here: what is tested is that others are refused."""

    def test_other_files_than_the_published_are_refused(self):
        images = gzip.compress(b"not MNIST")
        with web_server.serving({"train-images-idx3-ubyte.gz": images}) as (address, _):
            said = self.lockstep("data", "get", "mnist", self.folder / "mnist", "--mirror", address, expect=1)
        self.assertIn("is not the published file: its SHA-256 begins with", said)
        self.assertIn("440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", said)
        self.assertEqual(list((self.folder / "mnist").iterdir()), [])
        said = self.lockstep("data", "get", "minst", expect=2)
        self.assertIn("hint: did you mean mnist?", said)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
