#!/usr/bin/env python3
"""The program loads LibTorch only for commands that need it, and then in the same process.

usage: light_test.py
"""

import os
import shutil
import subprocess
import unittest

import runs

TORCH = ("libtorch", "libc10")


def loaded_by(*arguments, stdin=subprocess.DEVNULL):
    """What the loader of the program says: every library that it or dlopen loads. And the exit status."""
    done = subprocess.run(runs.command(*arguments), stdin=stdin, capture_output=True, timeout=runs.SECONDS_PER_RUN,
                          check=False,
                          env={**os.environ, "LD_DEBUG": "libs"})
    return done.stderr.decode(errors="replace"), done.returncode


class Light(unittest.TestCase):
    def test_commands_without_tensors_do_not_load_libtorch(self):
        with runs.temporary_folder() as folder:
            source = os.path.join(folder, "source")
            os.mkdir(source)
            with open(os.path.join(source, "file"), "w", encoding="ascii") as file:
                file.write("text")
            for arguments, status in ((["--version"], 0), (["completion", "zsh"], 0), (["--help"], 0), (["train", "--help"], 0),
                                      (["help", "predict"], 0), (["trian"], 2), (["train"], 2),
                                      (["train", "x", "--workers", "-1"], 2),
                                      (["copy", source, os.path.join(folder, "copy")], 0), (["bench"], 0),
                                      (["runs", folder], 0), (["runs", "show", folder], 1),
                                      (["runs", "remove", folder], 1), (["stop", folder], 1)):
                with self.subTest(arguments):
                    loaded, ended = loaded_by(*arguments)
                    self.assertEqual(ended, status, loaded[-2000:])
                    self.assertIn("libc.so", loaded)
                    for library in TORCH:
                        self.assertNotIn(library, loaded)

    def test_the_test_sees_libtorch_where_it_is_loaded(self):
        self.assertIn("libtorch", loaded_by("network", "list")[0])

    def test_the_engine_is_the_same_process(self):
        started = subprocess.Popen(runs.command("run", "-n", 1, "sh", "-c",
                                                "readlink /proc/$PPID/exe; tr '\\0' ' ' </proc/$PPID/cmdline; echo; "
                                                "echo $PPID"),
                                   stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        executable, words, process = started.communicate(timeout=runs.SECONDS_PER_RUN)[0].decode().splitlines()
        self.assertEqual(started.returncode, 0)
        self.assertEqual(os.path.basename(executable), "lockstep-engine")
        self.assertTrue(words.startswith(f"{runs.PROGRAM} run -n 1 sh "), words)
        self.assertEqual(int(process), started.pid)

    def test_without_the_engine_there_is_one_error(self):
        with runs.temporary_folder() as folder:
            alone = shutil.copy(runs.PROGRAM, folder)
            done = subprocess.run([alone, "doctor"], capture_output=True, timeout=runs.SECONDS_PER_RUN, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr.decode(),
                             r"^lockstep: cannot run lockstep doctor: the program lockstep-engine is neither .*\n  "
                             r"hint: .*\n$")


if __name__ == "__main__":
    unittest.main()
