"""The sum of two workers' gradients: the tree of a training step between two threads, against gloo's all_reduce between
two processes.

Lockstep's time is from the moment when both have written their gradients until both may read the sum, with the barriers
of a step; a += b is the same addition by the same threads without any waiting, on arrays that they have just written
too. gloo repeats without a pause, which is best for it. """

import json
import statistics
import subprocess

import common
from cpu_link import Peer
from cpu_report import BARS, Limits, Result, spread

TRIALS = 5
SIZES = {"64 KB": (64 << 10, 500), "4 MB": (4 << 20, 50), "244 MB": (244 << 20, 2)}  # bytes, repeats of gloo's


def ours(lockstep):
    """{bytes: (all-reduce, a += b)}, seconds"""
    done = subprocess.run([str(lockstep), "bench-all-reduce", "--json"], check=True, stdout=subprocess.PIPE, text=True)
    return {line["bytes"]: (line["all_reduce_seconds"], line["add_seconds"]) for line in json.loads(done.stdout)}


def trial(options, peer, found):
    own = ours(options.lockstep)
    for size, (count, repeats) in SIZES.items():
        times = (*own[count], peer.ask(bytes=count, repeats=repeats)["seconds"])
        for side, seconds in zip(found[size], times):
            found[size][side].append(1e6 * seconds)
        told = ", ".join(f"{side} {1e6 * seconds:,.1f} us" for side, seconds in zip(found[size], times))
        print(f"  {size}: {told}, load {common.load_average()}", flush=True)


def run(options):
    trials = 1 if options.quick else TRIALS
    limits = Limits(options.lockstep, "add_64_kb", "add_4_mb", "add_64_mb")
    found = {size: {"Lockstep": [], "a += b": [], "gloo": []} for size in SIZES}
    with Peer("all-reduce") as peer:
        for count, _ in SIZES.values():
            peer.ask(bytes=count, repeats=1)
        for _ in range(trials):
            trial(options, peer, found)
    limits.again()
    figures, rows = {}, []
    for size, sides in found.items():
        middle = {side: statistics.median(times) for side, times in sides.items()}
        rows.append([size, *(common.middle_and_spread(times, 1) for times in sides.values())])
        figures[f"{size}: Lockstep's time over that of a += b"] = middle["Lockstep"] / middle["a += b"]
        figures[f"{size}: gloo's time over Lockstep's"] = middle["gloo"] / middle["Lockstep"]
    assert all(bar.figure in figures for bar in BARS["all-reduce"])
    tables = common.table(["size", "Lockstep, us", "a += b, us", "gloo, us"], rows) + "\n" + limits.table()
    spreads = ", ".join(f"{size} {spread(sides['Lockstep'])} and gloo {spread(sides['gloo'])}"
                        for size, sides in found.items())
    return Result(f"{trials} alternating trials of 1000, 100 and 5 sums", f"spread {spreads}", tables, figures)
