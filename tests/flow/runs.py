"""What the tests of whole runs share: small folders of digits, running the program, reading what a run leaves.

LOCKSTEP_PROGRAM and LOCKSTEP_DIGITS name the program and the archive of digits; by hand they may be left out.
"""

import collections
import csv
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("LOCKSTEP_PROGRAM", ROOT / "build/release/bin/lockstep"))
DIGITS = pathlib.Path(os.environ.get("LOCKSTEP_DIGITS", ROOT / "data/digits-png.tar.gz"))
SECONDS_PER_RUN = 120
SKIPPED = 77  # the exit status of a test that left something out
SANITIZED = bool(os.environ.get("LOCKSTEP_SANITIZE"))  # the program is built with sanitizers
IS_LONG = bool(os.environ.get("LOCKSTEP_LONG"))  # scripts/test --long

# The caches that runs keep automatically must not be in the user's folder.
CACHES = tempfile.TemporaryDirectory(prefix="lockstep-test-caches-")
os.environ["XDG_CACHE_HOME"] = CACHES.name
os.environ.pop("LOCKSTEP_CACHE", None)

# Small images and few steps: what is tested is the order of the arithmetic, not its amount. recipe_test.py is for the
# recipe.
SMALL = ["--recipe", "plain", "--image-size", "12x12", "--mini-batch-size", "32", "--shards", "8", "--max-epochs", "2",
         "--patience", "0"]
# Batch norms do not span ranks: for trainings that show how jobs begin and end, where several ranks share a core and
# seven meetings a step are most of the time.
NO_MEETINGS = ["--batch-norm-group", "4"]
# Layers of a network that ranks exchange in three buckets.
WIDE = [{"type": "flatten"}, {"type": "linear", "features": 2000}, {"type": "relu"},
        {"type": "linear", "features": 500}, {"type": "relu"},
        {"type": "linear", "features": 600}, {"type": "relu"}, {"type": "linear", "features": "classes"}]


def skip(what, hint):
    """Ends the test as skipped; the hint says how to get what is missing."""
    print(f"NOT TESTED: {what}; hint: {hint}", flush=True)
    sys.exit(SKIPPED)


def some(few, more):
    """What a test goes through: a few that show each kind, and with scripts/test --long more of the same."""
    return [*few, *more] if IS_LONG else few


def write_digits(sizes):
    """sizes: {folder: number of images}. Fills the folders from the archive, no image twice, all classes as evenly as
    can be."""
    names = collections.defaultdict(list)  # of each class; tar reads them ten times as fast as Python's tarfile
    for name in subprocess.check_output(["tar", "-tzf", DIGITS], text=True).splitlines():
        if name.endswith(".png"):
            names[pathlib.PurePosixPath(name).parent.name].append(name)
    for folder, count in sizes.items():
        taken = []
        for label, share in share_of(count).items():
            taken += names[label][:share]
            del names[label][:share]
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-xzf", DIGITS, "-C", folder, "--transform", r"s,.*/\([^/]*/[^/]*\)$,\1,", "--no-same-owner",
                        "--touch", "--files-from", "-"], input="\n".join(taken), text=True, check=True)


def write_table(folder):
    """Writes the table of a folder's images, whose class is their folder; returns its path."""
    table = folder / "labels.csv"
    with table.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["image", "label", "note"])
        for image in sorted(folder.rglob("*.png"), reverse=True):
            lines.writerow([image.relative_to(folder), image.parent.name, 'a "note", with more'])
    return table


def share_of(count):
    return {str(label): count // 10 + (1 if label < count % 10 else 0) for label in range(10)}


def temporary_folder():
    return tempfile.TemporaryDirectory(prefix="lockstep-test-")


def slow_fsync(milliseconds):
    """What a program's environment needs for every fsync to take so much longer."""
    shim = os.environ.get("LOCKSTEP_SLOW_FSYNC")
    if not shim:
        raise AssertionError(
            "LOCKSTEP_SLOW_FSYNC does not name the library that slows fsync (build lockstep_slow_fsync)")
    return {"LD_PRELOAD": shim, "ASAN_OPTIONS": "verify_asan_link_order=0",
            "LOCKSTEP_FSYNC_MILLISECONDS": str(milliseconds)}


def command(*arguments):
    return [str(PROGRAM), *(str(argument) for argument in arguments)]


def run(*arguments, status=0, environment=None, folder=None):
    """Runs the program, in this folder if one is named; gives everything it printed. Fails when its exit status is not
    `status`."""
    done = subprocess.run(command(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=SECONDS_PER_RUN,
                          check=False, env={**os.environ, **(environment or {})}, cwd=folder)
    printed = done.stdout.decode(errors="replace")
    if done.returncode != status:
        raise AssertionError(
            f"{' '.join(command(*arguments))}\nended with {done.returncode}, not {status}, and printed:\n{printed}")
    return printed


def checked(*words, **options):
    """Runs any program to its end and gives what it printed; ends the test with that where its status is not 0."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def train(folder, output, *options, status=0):
    return run("train", folder, "--output", output, *options, status=status)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def weights(output):
    """The hashes of the run's last and best weights."""
    return sha256(output / "model.safetensors"), sha256(output / "best.safetensors")


def results(output):
    """The same, and the hash of what the best weights answer."""
    return *weights(output), sha256(output / "confusion.csv")


def events(output):
    """All whole events of all attempts, in the order of attempts."""
    files = sorted((output / "events").glob("rank-0-attempt-*.jsonl"),
                   key=lambda path: int(path.stem.rsplit("-", 1)[1]))
    return [json.loads(line) for path in files for line in path.read_text().splitlines(keepends=True)
            if line.endswith("\n")]


def rest(began, shortest, longest):
    """Between two looks at something, of which the last one began then: four times as long as the look took. Looks that
    start programs or read long logs would otherwise take a core from what is waited for."""
    time.sleep(max(shortest, min(longest, 4 * (time.monotonic() - began))))


def wait_for(condition, seconds=60, pauses=(0.005, 0.25), error=lambda: AssertionError("waited in vain")):
    """Waits until the condition holds, with pauses of so many seconds; raises the error after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if condition():
            return
        if time.monotonic() > end:
            raise error()
        rest(began, *pauses)


def steps_done(output):
    """The last step that the run has logged; 0 before its first event."""
    try:
        return max((event["step"] for event in events(output)), default=0)
    except OSError:
        return 0


def of_kind(output, kind):
    return [event for event in events(output) if event["kind"] == kind]


def plan_line(output, name):
    """What a run's plan says of this: the value and its reason; empty where it says nothing."""
    return next((f"{value} {reason}" for line, value, reason in of_kind(output, "plan")[-1]["values"]["lines"]
                 if line == name), "")


def checkpoints(output):
    return sorted(path for path in (output / "checkpoints").glob("step-*") if (path / "DONE").exists())


def checkpoint_step(path):
    return int(path.name.split("-")[1])


class TestFolders:
    """A folder that is there for the whole test class, with `digits` (203 images) and `held_out` (40 images)."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = temporary_folder()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.digits = cls.folder / "digits"
        cls.held_out = cls.folder / "held_out"
        write_digits({cls.digits: 203, cls.held_out: 40})

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()
