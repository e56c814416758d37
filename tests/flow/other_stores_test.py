#!/usr/bin/env python3
"""gs:// and abfss:// where there is no key or nobody answers: one error with a hint, in the time that docs/stores.md
says."""

import contextlib
import socket
import sys
import threading
import time
import unittest

import runs

NO_KEY_SECONDS = 2
NO_ANSWER_SECONDS = 15


@contextlib.contextmanager
def server(answer):
    """Takes connections and gives each `answer`, or stays mute where there is none; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken = []

        def take():
            while True:
                try:
                    taken.append(listening.accept()[0])
                except OSError:
                    return
                if answer is not None:
                    taken[-1].sendall(answer)
                    taken.pop().close()

        threading.Thread(target=take, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        for connection in taken:
            connection.close()


class OtherStores(runs.TestFolders, unittest.TestCase):
    def setUp(self):
        with socket.create_server(("127.0.0.1", 0)) as unused:
            nobody = f"127.0.0.1:{unused.getsockname()[1]}"
        # Neither this machine's keys nor its role, if it has any.
        self.environment = {"HOME": str(self.folder), "GOOGLE_APPLICATION_CREDENTIALS": "",
                            "GOOGLE_GCLOUD_ADC_PATH_OVERRIDE": "", "GCE_METADATA_ROOT": nobody}
        start = time.monotonic()
        runs.run("plan", "gs://hush@bucket/x", status=2)  # refused before anything is opened
        self.starting = time.monotonic() - start

    def fails(self, seconds, status, arguments, *expected, **variables):
        start = time.monotonic()
        printed = runs.run(*arguments, status=status, environment={**self.environment, **variables})
        taken = time.monotonic() - start - self.starting
        for text in expected:
            self.assertIn(text, printed)
        self.assertEqual((printed.count("lockstep: "), printed.count("hint:")), (1, 1), printed)
        self.assertLess(taken, seconds + 4 + self.starting, printed)  # the library itself has to be loaded

    def test_without_a_key(self):
        told = ("gs://bucket/x", "no key was found", "GOOGLE_APPLICATION_CREDENTIALS is not set",
                "gs://anonymous@BUCKET")
        self.fails(NO_KEY_SECONDS, 2, ["train", "gs://bucket/x", "--output", self.folder / "run"], *told)
        self.fails(NO_KEY_SECONDS, 2, ["copy", "gs://bucket/x", self.folder / "copy"], *told)
        self.fails(NO_KEY_SECONDS, 2, ["copy", self.digits, "gs://bucket/x"], *told)
        self.fails(NO_KEY_SECONDS, 2, ["plan", "gs://bucket/x"], "which is not there",
                   GOOGLE_APPLICATION_CREDENTIALS=str(self.folder / "none.json"))

    def test_a_machine_with_a_mute_service_or_that_of_another_cloud_has_no_role(self):
        for answer in (None, b"HTTP/1.1 200 OK\r\nServer: another\r\n\r\n"):
            with server(answer) as port:
                self.fails(NO_KEY_SECONDS, 2, ["plan", "gs://bucket/x"], "no key was found",
                           GCE_METADATA_ROOT=f"127.0.0.1:{port}")

    def test_a_server_that_is_mute_or_not_there(self):
        with server(None) as port:
            self.fails(NO_ANSWER_SECONDS, 1,
                       ["plan", f"abfss://account@127.0.0.1:{port}/box/x?enable_tls=false&credential_kind=anonymous"],
                       "does not answer", "check the network")
            mute, nobody = f"127.0.0.1:{port}", self.environment["GCE_METADATA_ROOT"]
            for address in runs.some([mute], [nobody]):
                self.fails(NO_ANSWER_SECONDS, 1,
                           ["plan", f"gs://anonymous@bucket/x?scheme=http&endpoint_override={address}"],
                           "does not answer", "check the network")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
