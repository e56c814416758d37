#!/usr/bin/env python3
"""Training from an S3 server: the same weights as from disk, clear errors, no key in what a run leaves, a server that
goes and comes back."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
from unittest import mock

import idx
import runs
import sequences

sys.path.insert(0, str(runs.ROOT / "bench"))

import s3_server  # noqa: E402
from s3_services import Between, role_service  # noqa: E402

EPOCHS_TO_STOP = "12"  # enough for a run to be at work when its server is killed
FAST = ["--image-size", "12x12", "--mini-batch-size", "32", "--max-epochs", "2", "--patience", "0"]


class OnPortsOfItsOwn(runs.TestFolders, unittest.TestCase):
    def test_the_server_starts_though_another_program_took_a_port_it_chose(self):
        chosen = s3_server.free_ports(4)
        with socket.create_server(("127.0.0.1", chosen[-1] + s3_server.TO_NEIGHBOUR)):
            with mock.patch.object(s3_server, "free_ports", side_effect=[chosen, s3_server.free_ports(4)]):
                with s3_server.Server(self.folder / "server-on-other-ports") as server:
                    self.assertTrue(server.answers())
                    server.make_bucket("photos")


def contents(folder):
    return {str(path.relative_to(folder)): runs.sha256(path) for path in folder.rglob("*.png")}


class S3(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = s3_server.Server(cls.folder / "server")
        cls.addClassCleanup(cls.server.kill)
        cls.server.make_bucket("photos")
        cls.run_here("copy", cls.digits, "s3://photos/digits")

    @classmethod
    def run_here(cls, *arguments, status=0, **variables):
        return runs.run(*arguments, status=status, environment=cls.server.environment(**variables))

    def setUp(self):
        if not self.server.answers():
            self.server.start()

    def train(self, source, output, *options, **variables):
        self.run_here("train", source, "--output", self.folder / output, *FAST, *options, **variables)
        return runs.weights(self.folder / output)

    def from_disk(self):
        if not (self.folder / "disk").exists():
            self.train(self.digits, "disk", "--validation", self.held_out)
        return runs.weights(self.folder / "disk")

    def test_the_weights_are_those_from_disk(self):
        expected = self.from_disk()
        self.assertEqual(self.train("s3://photos/digits", "s3", "--validation", self.held_out), expected)
        listing = [json.loads(line) for line in (self.folder / "s3" / "listing.jsonl").read_text().splitlines()]
        self.assertEqual(sum(part == "train" for part, _, _ in listing), 203)
        self.assertIn(["train", "0", f"s3://photos/digits/0/{sorted((self.digits / '0').iterdir())[0].name}"], listing)
        self.assertEqual(self.train("s3://photos/digits/", "s3-2", "--validation", self.held_out, "--workers", "2",
                                    "--memory-share", "0", "--cache", "off"), expected)
        self.run_here("copy", "s3://photos/digits", self.folder / "digits.tar.gz")
        self.assertEqual(self.train(self.folder / "digits.tar.gz", "tar", "--validation", self.held_out), expected)

    def trained_alike(self, folder, names, options, archive, more):
        """Trains on what the names say below a folder, and on the same on the server and in an archive of this kind, or
        also of more kinds; all give these weights."""
        found = {}
        archives = [f"{folder}{end}" for end in runs.some([archive], [more])]
        for place in (folder, f"s3://photos/{folder.name}", *archives):
            if place != folder:
                self.run_here("copy", folder, place)
            for name in names:
                output = self.folder / "alike" / str(time.monotonic())
                self.run_here("train", f"{place}{name}", "--output", output, *options)
                found[f"{place}{name}"] = runs.weights(output)
        self.assertEqual(len(set(found.values())), 1, found)
        return found[f"{folder}{names[0]}"]

    def test_other_kinds_of_data_give_the_weights_of_their_folder(self):
        idx.write_idx(self.digits, self.folder / "idx")
        from_idx = self.trained_alike(self.folder / "idx", ["", "/train-images-idx3-ubyte.gz"],
                                      [*FAST, "--validation", self.held_out], ".tar.gz", ".tar")
        self.assertEqual(from_idx, self.from_disk(), "the same images in the same order")
        shutil.copytree(self.digits, self.folder / "tables")
        runs.write_table(self.folder / "tables")
        from_table = self.trained_alike(self.folder / "tables", ["", "/labels.csv"],
                                        [*FAST, "--validation", self.held_out], ".tar.gz", ".tar")
        self.assertEqual(from_table, self.from_disk())
        options = ["--mini-batch-size", "16", "--max-epochs", "2", "--patience", "0"]
        sequences.write_ts(self.folder / "waves" / "waves.ts", 60, seed=1)
        self.trained_alike(self.folder / "waves", ["/waves.ts"], options, ".tar", ".tar.gz")
        sequences.write_csv(self.folder / "csv", 60, seed=1)
        self.trained_alike(self.folder / "csv", [""], options, ".tar.gz", ".tar")

    def test_a_place_is_listed_once(self):
        idx.write_idx(self.held_out, self.folder / "once")
        self.run_here("copy", self.folder / "once", "s3://photos/once")
        for place in ("digits", "once"):
            with Between(self.server) as way:
                self.run_here("plan", f"s3://photos/{place}", *FAST, "--cache", "off", AWS_ENDPOINT_URL=way.endpoint)
            self.assertEqual(sum("list-type=2" in request for request in way.requests), 1, way.requests)

    def test_ranks_have_the_keys_too(self):
        self.run_here("run", "-n", "2", runs.PROGRAM, "train", "s3://photos/digits", "--output", self.folder / "ranks",
                      "--validation", self.held_out, *FAST)
        self.assertEqual(runs.weights(self.folder / "ranks"), self.from_disk())

    def test_decoded_images_are_kept_until_an_object_changes(self):
        cache, source = self.folder / "cache", "s3://photos/changing"
        self.run_here("copy", self.digits, source)
        options = ["--validation", self.held_out, "--cache", cache, "--memory-share", "0"]
        for output in ("filled", "used"):
            self.assertEqual(self.train(source, output, *options), self.from_disk())
        self.assertIn(str(cache), self.run_here("plan", source, *FAST, *options))
        changed = self.folder / "changed" / "0"
        changed.mkdir(parents=True)
        first, other = sorted((self.digits / "0").iterdir())[0], sorted((self.digits / "1").iterdir())[0]
        (changed / first.name).write_bytes(other.read_bytes())
        self.run_here("copy", changed, f"{source}/0")
        self.assertIn("of other files", self.run_here("plan", source, *FAST, *options))

    def test_a_cache_among_the_users_own_is_found_until_an_object_changes(self):
        source, own = "s3://photos/cached", {"XDG_CACHE_HOME": str(self.folder / "own")}
        options = ["--validation", self.held_out, "--memory-share", "0"]
        self.run_here("copy", self.digits, source)
        with Between(self.server) as way:
            self.run_here("plan", source, *FAST, *options, AWS_ENDPOINT_URL=way.endpoint, **own)
        looked_at = way.objects()  # for the sizes of the images
        with Between(self.server) as way:
            self.assertEqual(self.train(source, "not-cached", *options, "--cache", "off", AWS_ENDPOINT_URL=way.endpoint,
                                        **own), self.from_disk())
        self.assertEqual(len(way.objects() - looked_at), 203)
        self.run_here("cache", source, *FAST, **own)
        self.assertIn(own["XDG_CACHE_HOME"], self.run_here("plan", source, *FAST, *options, **own))
        with Between(self.server) as way:
            self.assertEqual(self.train(source, "cached", *options, AWS_ENDPOINT_URL=way.endpoint, **own),
                             self.from_disk())
        self.assertEqual(way.objects(), looked_at)

        changed = self.folder / "changed-digits"
        shutil.copytree(self.digits, changed)
        first, other = sorted((changed / "0").iterdir())[0], sorted((changed / "1").iterdir())[0]
        first.write_bytes(other.read_bytes())
        expected = self.train(changed, "changed-disk", *options)
        self.assertNotEqual(expected, self.from_disk())
        self.run_here("copy", changed, source)
        self.assertIn("of other files", self.run_here("plan", source, *FAST, *options, **own))
        self.assertEqual(self.train(source, "changed-not-cached", *options, "--cache", "off", **own), expected)
        self.run_here("cache", source, *FAST, **own)
        self.assertEqual(self.train(source, "changed-cached", *options, **own), expected)

    def test_what_every_epoch_would_fetch_is_fetched_once(self):
        source, own = "s3://photos/digits", {"XDG_CACHE_HOME": str(self.folder / "made")}
        options = ["--validation", self.held_out, "--memory-share", "0"]
        with Between(self.server) as way:
            self.assertIn("training makes one",
                          self.run_here("plan", source, *FAST, *options, AWS_ENDPOINT_URL=way.endpoint, **own))
        looked_at = way.objects()  # for the sizes of the images
        for output, count in (("making", 203), ("using", 0)):
            with Between(self.server) as way:
                self.assertEqual(self.train(source, output, *options, AWS_ENDPOINT_URL=way.endpoint, **own),
                                 self.from_disk())
            self.assertEqual(len(way.objects() - looked_at), count, output)

    def test_plan_evaluate_and_predict_read_it(self):
        self.from_disk()
        self.assertIn("203 images", self.run_here("plan", "s3://photos/digits", "--validation-split", "0"))
        from_server = self.run_here("evaluate", self.folder / "disk", "s3://photos/digits")
        self.assertIn("may have been trained on them: they have the names of its training data", from_server)
        scores = from_server.replace("s3://photos/digits/", f"{self.digits}/").partition("\n\n")[2]
        self.assertEqual(scores, self.run_here("evaluate", self.folder / "disk", self.digits).partition("\n\n")[2])
        self.assertIn("s3://photos/digits/0/", self.run_here("predict", self.folder / "disk", "s3://photos/digits"))

    def fails(self, source, *expected, **variables):
        start = time.monotonic()
        output = self.folder / "failed" / str(time.monotonic())
        printed = self.run_here("train", source, "--output", output, status=variables.pop("status", 2), **variables)
        for text in expected:
            self.assertIn(text, printed)
        self.assertEqual(printed.count("hint:"), 1, printed)
        self.assertNotIn(s3_server.SECRET, printed)
        self.assertLess(time.monotonic() - start, 40)
        self.assertFalse(output.exists() and any(output.rglob("*.safetensors")))
        return printed

    def test_errors_are_clear(self):
        self.fails("s3://photos/digits", "does not know the key id", "AWS_ACCESS_KEY_ID",
                   AWS_ACCESS_KEY_ID="SOMEBODYELSE")
        self.fails("s3://photos/digits", "secret key does not fit", AWS_SECRET_ACCESS_KEY="wrong")
        self.fails("s3://nowhere/digits", "no such bucket", status=1)
        self.fails("s3://photos/none", "no such object or folder", status=1)
        self.fails("s3://photos/none.ts", "\"s3://photos/none.ts\"", "no such object or folder", status=1)
        self.fails("s3://photos/digits/none-images-idx3-ubyte.gz", "no such object or folder", status=1)
        self.fails("s3://photos/none.ts", "access denied", AWS_SECRET_ACCESS_KEY="wrong")
        self.fails("s3://photos/digits", "does not answer", "AWS_ENDPOINT_URL", status=1,
                   AWS_ENDPOINT_URL=f"http://127.0.0.1:{s3_server.free_ports(1)[0]}")
        self.fails("ftp://photos/digits", "cannot be read")
        self.fails("s3://", "names no bucket")
        self.fails("s3://bu cket/digits", "syntax error")
        printed = self.fails(f"s3://{s3_server.KEY_ID}:{s3_server.SECRET}@photos/digits", "contains a key or password")
        self.assertNotIn(s3_server.KEY_ID, printed)

    def test_keys_are_found_as_the_aws_tools_find_them(self):
        home = self.folder / "home"
        (home / ".aws").mkdir(parents=True)
        (home / ".aws" / "credentials").write_text(
            f"[lab]\naws_access_key_id = {s3_server.KEY_ID}\naws_secret_access_key = {s3_server.SECRET}\n")
        nothing = {"HOME": str(home), "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
        self.assertIn("203 images",
                      self.run_here("plan", "s3://photos/digits", "--validation-split", "0", **nothing,
                                    AWS_PROFILE="lab"))
        with role_service() as port:
            role = {**nothing, "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{port}/role"}
            self.assertIn("203 images", self.run_here("plan", "s3://photos/digits", "--validation-split", "0", **role))

    def test_a_mute_server_is_given_up(self):
        with socket.create_server(("127.0.0.1", 0)) as mute:
            self.fails("s3://photos/digits", "does not answer", status=1,
                       AWS_ENDPOINT_URL=f"http://127.0.0.1:{mute.getsockname()[1]}")

    def test_a_server_that_goes_while_it_is_listed_is_given_up(self):
        with Between(self.server, kill_at=lambda requests: "list-type=2" in requests[-1]) as way:
            self.fails("s3://photos/digits", "cannot list", "does not answer", "AWS_ENDPOINT_URL", status=1,
                       AWS_ENDPOINT_URL=way.endpoint)
        self.assertTrue(way.killed)

    def test_no_key_is_left_anywhere(self):
        output = self.folder / "grep"
        printed = self.run_here("train", "s3://photos/digits", "--output", output, *FAST, "--verbose")
        for path in [path for path in output.rglob("*") if path.is_file()]:
            for secret in (s3_server.SECRET, s3_server.KEY_ID):
                self.assertNotIn(secret.encode(), path.read_bytes(), path)
        self.assertNotIn(s3_server.SECRET, printed)
        # Not even when it was typed where it should not be.
        address = f"s3://{s3_server.KEY_ID}:{s3_server.SECRET}@photos/digits"
        for words in (["train", address], ["train", self.digits, "--validation", address],
                      ["copy", self.digits, address], ["copy", address, output / "x"]):
            self.assertNotIn(s3_server.SECRET,
                             self.run_here(*words, *(["--output", output] if words[0] == "train" else []), status=2))

    def start_reading(self, output):
        """A run that reads every image in every epoch, when its first epoch has ended."""
        command = runs.command("train", "s3://photos/digits", "--output", output, "--validation", self.held_out, *FAST,
                               "--max-epochs", EPOCHS_TO_STOP, "--memory-share", "0", "--cache", "off")
        started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   env={**os.environ, **self.server.environment()})
        self.addCleanup(started.kill)
        end = time.monotonic() + 60
        while not (output / "events").exists() or not runs.of_kind(output, "validation"):
            self.assertIsNone(started.poll())
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        return started

    def test_a_server_that_comes_back_changes_nothing(self):
        output = self.folder / "restarted"
        started = self.start_reading(output)
        self.server.kill()
        self.assertIsNone(started.poll())
        self.server.start()
        printed = started.communicate(timeout=runs.SECONDS_PER_RUN)[0].decode()
        self.assertEqual(started.returncode, 0, printed)
        self.train(self.digits, "not-restarted", "--validation", self.held_out, "--max-epochs", EPOCHS_TO_STOP)
        self.assertEqual(runs.weights(output), runs.weights(self.folder / "not-restarted"))

    def test_a_run_without_its_server_can_be_stopped_and_goes_on_later(self):
        output = self.folder / "stopped"
        started = self.start_reading(output)
        self.server.kill()
        started.send_signal(signal.SIGINT)
        printed = started.communicate(timeout=40)[0].decode()
        self.assertEqual(started.returncode, 130, printed)
        self.assertTrue(runs.checkpoints(output))
        self.server.start()
        self.run_here("train", "s3://photos/digits", "--output", output, "--resume")
        self.assertEqual(runs.of_kind(output, "end")[-1]["values"]["reason"], "finished")

    def restart(self):
        self.server.start()
        self.run_here("plan", "s3://photos/digits", "--validation-split", "0")  # waits until it gives objects, too

    def test_a_copy_to_a_server_that_goes_is_given_up_and_goes_on_later(self):
        destination = "s3://photos/interrupted"
        start = time.monotonic()
        with Between(self.server,
                     kill_at=lambda requests: sum(request.startswith("PUT ") for request in requests) == 60) as way:
            printed = self.run_here("copy", self.digits, destination, status=1, AWS_ENDPOINT_URL=way.endpoint)
        self.assertLess(time.monotonic() - start, 40)
        for text in ("does not answer", "AWS_ENDPOINT_URL", "of 203 files were copied"):
            self.assertIn(text, printed)
        self.assertEqual(printed.count("hint:"), 1, printed)
        self.restart()
        already = re.search(r"(\d+) already existed", self.run_here("copy", self.digits, destination, "--verify"))
        self.assertTrue(0 < int(already[1]) < 203, already[0])
        self.run_here("copy", destination, self.folder / "interrupted")
        self.assertEqual(contents(self.folder / "interrupted"), contents(self.digits))

    def test_a_copy_from_a_server_that_comes_back_is_complete(self):
        destination = self.folder / "came-back"
        with Between(self.server, kill_at=lambda requests: sum(".png" in request for request in requests) == 60) as way:
            copying = subprocess.Popen(runs.command("copy", "s3://photos/digits", destination),
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       env={**os.environ, **self.server.environment(AWS_ENDPOINT_URL=way.endpoint)})
            self.addCleanup(copying.kill)
            self.server.process.wait(timeout=60)
            self.assertIsNone(copying.poll())
            self.server.start()
            printed = copying.communicate(timeout=runs.SECONDS_PER_RUN)[0].decode()
        self.assertEqual(copying.returncode, 0, printed)
        self.assertEqual(contents(destination), contents(self.digits))

    def test_copies_are_complete_and_go_on(self):
        back = self.folder / "back"
        self.run_here("copy", "s3://photos/digits", back, "--verify")
        self.assertEqual(len([path for path in back.rglob("*.png")]), 203)
        next(back.rglob("*.png")).unlink()
        self.assertIn("202 already existed", self.run_here("copy", "s3://photos/digits", back))
        self.assertIn("203 already existed", self.run_here("copy", self.digits, "s3://photos/digits"))


if __name__ == "__main__":
    unittest.main()
