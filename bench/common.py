"""What the benches share: where files are, how Lockstep is run, how its events are read, and the name of this machine.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# As scripts/setup has it.
CACHE = Path(os.environ.get("LOCKSTEP_CACHE") or
             Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lockstep")
PEERS_PYTHON = CACHE / "peers" / "bin" / "python"
TORCHRUN = CACHE / "peers" / "bin" / "torchrun"
TEST_DATA = Path(os.environ.get("LOCKSTEP_TEST_DATA", ROOT / ".." / "shared" / "data")).resolve()
# An installed bench must not write beside itself.
WORK = ROOT / "build" / "bench" if (ROOT / "CMakeLists.txt").exists() else CACHE / "bench"
# SqueezeNet with ImageNet's weights, of which only a new head is trained.
NEW_HEAD = ("--network", ROOT / "examples" / "networks" / "squeezenet_deep_compression.json", "--weights",
            TEST_DATA / "squeezenet1_0-imagenet.safetensors", "--head", "new", "--freeze", "features.*")
# The process keeps freed blocks of up to 1 GiB, as Lockstep does, instead of returning them to the system.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}


def use_peers_python(program=Path(sys.argv[0]).name):
    """Starts the script again in the Python that scripts/setup --peers installs, unless torch is already here."""
    if importlib.util.find_spec("torch"):
        return
    if not PEERS_PYTHON.exists():
        sys.exit(f"{program}: there is no PyTorch to compare with\n  hint: run scripts/setup --peers")
    if "LOCKSTEP_BENCH_RESTARTED" in os.environ:
        sys.exit(f"{program}: {PEERS_PYTHON} has no torch\n  hint: run scripts/setup --peers again")
    os.environ["LOCKSTEP_BENCH_RESTARTED"] = "1"
    os.execv(PEERS_PYTHON, [str(PEERS_PYTHON), *sys.argv])


def parser(description, **more):
    result = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     **more)
    result.add_argument("--lockstep", type=Path, default=ROOT / "build" / "release" / "bin" / "lockstep",
                        help="the program to measure")
    return result


def digits_folder():
    """10,000 digits as PNG files in ten folders, unpacked once."""
    folder = WORK / "digits"
    if not (WORK / "digits.done").exists():
        WORK.mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-xzf", str(ROOT / "data" / "digits-png.tar.gz"), "-C", str(WORK)], check=True)
        (WORK / "digits.done").touch()
    return folder


def extracted(work, name, place_of):
    """The images of one of the test data's archives below a work folder, once: place_of(path in the archive, count so far
    in its class)."""
    folder = WORK / work / name.split(".")[0]
    if not (folder / "done").exists():
        counts = {}
        with tarfile.open(TEST_DATA / name) as tar:
            for member in sorted((member for member in tar if member.isfile()), key=lambda member: member.name):
                path = Path(member.name)
                if path.suffix.lower() not in (".jpg", ".jpeg", ".png"):
                    continue
                key = str(path.parent)
                counts[key] = counts.get(key, 0) + 1
                target = folder / place_of(path, counts[key])
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(tar.extractfile(member).read())
        (folder / "done").touch()
    return folder


def train(lockstep, folder, output, *options):
    """One run of `lockstep train` with the plain recipe, as peers are given its values; returns its events."""
    command = [str(lockstep), "train", str(folder), "--output", str(output), "--recipe", "plain", *map(str, options)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}")
    return read_events(output)


def read_events(output):
    events = []
    for path in sorted(Path(output).glob("events/rank-0-attempt-*.jsonl")):
        for line in path.read_text().splitlines():
            events.append(json.loads(line))
    return events


def values_of(events, kind):
    return [event["values"] for event in events if event["kind"] == kind]


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def machine():
    """CPU, cores that this process may use, vector units that affect the speed, memory, system."""
    flags = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "")
    units = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags.split()]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores, {'+'.join(units)}, {memory:.0f} GiB, Linux "
            f"{'.'.join(platform.release().split('.')[:2])}")


def versions(lockstep):
    parts = [subprocess.run([str(lockstep), "--version"], capture_output=True, text=True).stdout.strip().splitlines(
        )[0]]
    # Without the commit that the program was built from, a table can't be repeated.
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True,
                            text=True).stdout.strip()
    changed = subprocess.run(["git", "-C", str(ROOT), "status", "--porcelain", "src"], capture_output=True,
                             text=True).stdout.strip()
    if commit:
        parts.append(f"sources {commit}{' with changes' if changed else ''}")
    if importlib.util.find_spec("torch"):
        parts.append(f"PyTorch {importlib.metadata.version('torch')}, Python {platform.python_version()}")
    return "; ".join(parts)


def load_average():
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


def head(result, lockstep, trials):
    """The first line of a result file: the result, the machine, the versions and the number of trials."""
    return f"{result} | {machine()} | {versions(lockstep)} | {trials}\n"


def paragraph(text):
    """The text with lines of at most 136 characters, and a blank line after it."""
    return textwrap.fill(text, 136, break_long_words=False, break_on_hyphens=False) + "\n\n"


def item(text):
    """The same as an item of a list, without the blank line."""
    return textwrap.fill(text, 136, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False) + "\n"


def times(count, word):
    """\"1 trial\", \"3 trials\"."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def middle_and_spread(values, digits=2):
    """Median, and in brackets the smallest and the largest."""
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"
