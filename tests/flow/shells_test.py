#!/usr/bin/env python3
"""Real shells complete the program's commands, options and values, and man shows its pages without a warning.

usage: shells_test.py FOLDER-OF-THE-SHELL-FILES
"""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import time
import unittest

import runs

FILES = pathlib.Path(sys.argv.pop()).resolve() if len(sys.argv) > 1 else runs.ROOT / "build/release/share"
# What is typed before the tab key, and the words of the command line after it.
ANSWERS = {
    "tr": ["train"],
    "train --learn": ["train", "--learning-rate"],
    "train --resize pa": ["train", "--resize", "pad"],
    "train --resize=pa": ["train", "--resize=pad"],
    "train pho": ["train", "photos"],
    "network sh": ["network", "show"],
    "runs rem": ["runs", "remove"],
    "runs remove --y": ["runs", "remove", "--yes"],
    "bench scaling --rea": ["bench", "scaling", "--reach"],
    "help doc": ["help", "doctor"],
    "completion fi": ["completion", "fish"],
    "--ver": ["--version"],
    "cache --classes-are-not-an-option-of-this": ["cache", "--classes-are-not-an-option-of-this"],
}


def in_terminal(folder, words, lines):
    """What an interactive shell writes when these lines are typed, one after the answer to the other."""
    process, end = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execvpe(words[0], words, {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TERM": "dumb",
                                     "LC_ALL": "C.UTF-8"})
    seen, answers = b"", []
    for line in lines:
        os.write(end, line.encode() + b"\n")
        seen, ends = b"", time.monotonic() + 30
        while b"}\r\n" not in seen and time.monotonic() < ends:
            if select.select([end], [], [], 0.1)[0]:
                seen += os.read(end, 65536)
        answers.append(seen.decode(errors="replace"))
    os.kill(process, 9)
    os.waitpid(process, 0)
    os.close(end)
    return answers


class Shells(unittest.TestCase):
    left_out = None

    def check(self, shell, words, setup):
        """`setup` reads the completions, and makes lockstep a function that prints its words in braces."""
        if shutil.which(shell) is None:
            type(self).left_out = (f"completions in {shell}", "scripts/setup --peers")
            return
        with runs.temporary_folder() as folder:
            os.mkdir(os.path.join(folder, "photos"))
            typed = [setup + "; lockstep ready", *(f"lockstep {text}\t" for text in ANSWERS)]
            for text, answer in zip(["ready", *ANSWERS], in_terminal(folder, words, typed)):
                with self.subTest(text):
                    wanted = "".join(f"{{{word}}}" for word in ANSWERS.get(text, [text]))
                    # fish may put marks of the prompt before it; zsh drops the slash of a folder.
                    found = re.findall(r"(\{[^{}]*\}[^\r\n]*)\r\n", answer.replace("/}", "}"))
                    self.assertEqual(found[-1:], [wanted], answer)

    def test_bash(self):
        self.check("bash", ["bash", "--norc", "--noprofile", "-i"],
                   f"source '{FILES}/bash-completion/completions/lockstep'; "
                   "lockstep() { printf '{%s}' \"$@\"; echo; }")

    def test_zsh(self):
        self.check("zsh", ["zsh", "-f", "-i"],
                   f"fpath=('{FILES}/zsh/site-functions' $fpath); autoload -U compinit; compinit -u -D; "
                   "lockstep() { printf '{%s}' \"$@\"; echo; }")

    def test_fish(self):
        self.check("fish", ["fish", "--no-config", "-i"],
                   f"source '{FILES}/fish/vendor_completions.d/lockstep.fish'; function lockstep; "
                   "printf '{%s}' $argv; echo; end")

    def test_man(self):
        if shutil.which("man") is None:
            type(self).left_out = ("man pages", "scripts/setup --peers")
            return
        pages = sorted(FILES.glob("man/man1/*.1"))
        self.assertGreater(len(pages), 15)
        for page in pages:
            with self.subTest(page.name):
                shown = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, check=False,
                                       env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"})
                self.assertEqual((shown.returncode, shown.stderr), (0, ""))
                self.assertIn("SYNOPSIS", shown.stdout)
                if page.name == "lockstep-train.1":
                    self.assertIn("--learning-rate number|auto", shown.stdout)


if __name__ == "__main__":
    ended = unittest.main(exit=False)
    if not ended.result.wasSuccessful():
        sys.exit(1)
    if Shells.left_out:
        runs.skip(*Shells.left_out)
