#!/usr/bin/env python3
"""The scripts say how they are used, from any folder, before they do anything, and refuse what they do not know."""

import subprocess
import unittest

import runs

SCRIPTS = ("build", "first-run", "format", "gpu-bundle", "gpu-test", "package", "setup", "test", "tidy")


def run(name, *words):
    return subprocess.run([runs.ROOT / "scripts" / name, *words], cwd="/", stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False, timeout=60)


class Scripts(unittest.TestCase):
    def test_help(self):
        for name in SCRIPTS:
            for word in ("--help", "-h"):
                done = run(name, word)
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)
                self.assertTrue(done.stdout.startswith(f"usage: scripts/{name} "), done.stdout)

    def test_unknown_options(self):
        for name in SCRIPTS:
            if name == "first-run":  # whose options are those of another program
                continue
            done = run(name, "--nonsense")
            self.assertEqual(done.returncode, 1, name)
            self.assertIn(f"hint: scripts/{name} --help lists the options", done.stderr)

    def test_a_test_is_named_by_an_option(self):
        """ctest runs all tests if it does not know a word."""
        for words, said in ((["checkpoint"], "unknown option 'checkpoint'"),
                            (["-Rcheckpoint"], "unknown option '-Rcheckpoint'"), (["-R"], "-R needs a value"),
                            (["--preset", "nonsense"], "unknown preset 'nonsense'")):
            done = run("test", *words)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn(f"scripts/test: {said}\n  hint: ", done.stderr)

    def test_a_package_takes_no_file(self):
        done = run("package", "wheel", "lockstep.whl")
        self.assertEqual((done.returncode, done.stderr),
                         (1, "scripts/package: wheel takes no word 'lockstep.whl'\n"
                             "  hint: --output FOLDER names where the package goes\n"))


if __name__ == "__main__":
    unittest.main()
