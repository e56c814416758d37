#!/usr/bin/env python3
"""A disk that fills up during training: one clear error, the last checkpoint intact, and the same bits after space is
freed. A full disk of jobs: they can be read, cancelled and deleted, and no result is lost."""

import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "flow"))
import runs
from job_commands import Jobs

INSIDE = "--inside"


def mount_is_possible():
    return subprocess.run(["unshare", "--map-root-user", "--mount", "true"], check=False,
                          capture_output=True).returncode == 0


def inside(folder):
    """In a mount namespace of its own: the tmpfs goes with it."""
    train, held_out, disk = folder / "train", folder / "held_out", folder / "disk"
    runs.write_digits({train: 203, held_out: 40})
    options = ["--validation", held_out, *runs.SMALL, "--max-epochs", "4", "--checkpoint-every", "3"]
    runs.train(train, folder / "whole", *options)
    checkpoint = sum(path.stat().st_size for path in runs.checkpoints(folder / "whole")[-1].iterdir())
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)], check=True)

    # Room for one checkpoint, the best weights and the logs, and not for a second checkpoint beside them.
    ballast, output = disk / "ballast", disk / "run"
    runs.train(train, output, *options, "--max-time", "0.001")
    assert runs.checkpoint_step(runs.checkpoints(output)[-1]) == 1
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    ballast.write_bytes(bytes(free - checkpoint // 2))
    printed = runs.train(train, output, "--resume", status=1)
    assert printed.count(
        "lockstep: ") == 1 and "No space left on device" in printed and "hint: free some space" in printed, printed
    assert [runs.checkpoint_step(path)
            for path in runs.checkpoints(output)] == [1], "the checkpoint of before must be there"
    # Its space was reserved at the start.
    state = json.loads(runs.run("runs", output, "--json"))[0]
    assert state["state"] == "failed" and "No space left on device" in state["reason"], state
    printed = runs.train(train, output, "--resume", status=1)
    assert "No space left on device" in printed, printed
    assert [runs.checkpoint_step(path) for path in runs.checkpoints(output)] == [1]
    ballast.unlink()
    printed = runs.train(train, output, "--resume", "--workers", "1")
    assert "continuing after step 1" in printed, printed
    assert runs.weights(output) == runs.weights(folder / "whole"), "other weights than a run whose disk was never full"
    full_of_jobs(folder / "jobs-disk")
    print("all as expected")


def full_of_jobs(disk):
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=True)
    with Jobs(disk) as jobs:
        good = jobs.batch("--", "sh", "-c", "echo good")
        assert jobs.wait_until(good, "ended")["status"] == 0
        fills = ["--", "sh", "-c", "sleep 1; head -c 5000000 /dev/zero; exit 0"]
        cancelled = jobs.batch(*fills)
        runs.wait_for(lambda: "waits for space" in jobs.show(cancelled).get("reason", ""))
        assert {job: view["state"] for job, view in jobs.list().items()} == {good: "ended", cancelled: "running"}
        assert jobs.run("job", "diary", good) == "good\n"
        assert "cancelled" in jobs.run("job", "cancel", cancelled)
        assert jobs.show(cancelled)["state"] == "cancelled" and not list(jobs.root.rglob("*.part"))
        jobs.run("job", "delete", cancelled)

        ends = jobs.batch(*fills)
        runs.wait_for(lambda: "waits for space" in jobs.show(ends).get("reason", ""))
        (jobs.root / ends / "attempt-1" / "diary").unlink()
        view = jobs.wait_until(ends, "ended")
        assert view["status"] == 0 and view["reason"] == "", view
        jobs.run("job", "delete", ends)

        # Files to fetch for which there is no space are named.
        here = disk.parent / "here"
        here.mkdir()
        fetched = jobs.batch("--fetch", "kept.csv", "--", "sh", "-c",
                             "echo 1,2 >kept.csv; head -c 5000000 /dev/zero; exit 0", cwd=here)
        runs.wait_for(lambda: "waits for space" in jobs.show(fetched).get("reason", ""))
        (jobs.root / fetched / "attempt-1" / "diary").unlink()
        view = jobs.wait_until(fetched, "ended", "failed")
        assert view["state"] == "ended" and "cannot fetch" in view["reason"] and "kept.csv" in view["reason"], view
        assert not (jobs.root / fetched / "attempt-1" / "files" / "kept.csv").exists()


def main():
    if sys.argv[1:2] == [INSIDE]:
        inside(pathlib.Path(sys.argv[2]))
    elif not mount_is_possible():
        runs.skip(
            "anything, for unshare --map-root-user --mount is refused here, and this needs a file system of its own",
            "run it as root")
    else:
        with runs.temporary_folder() as name:
            sys.exit(subprocess.run(["unshare", "--map-root-user", "--mount", sys.executable, __file__, INSIDE, name],
                                    check=False).returncode)


if __name__ == "__main__":
    main()
