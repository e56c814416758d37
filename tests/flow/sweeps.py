"""What the tests of sweeps share: the table, the log, and the processes that work on a sweep."""

import json
import subprocess

import runs


def table(sweep):
    """All that the search has found; not the time that it took."""
    rows = json.loads(runs.run("sweep", "export", sweep, "--json", "-"))
    for row in rows:
        del row["seconds"]
    return rows


def lines(sweep, kind):
    """Whole lines of this kind in the sweep's log."""
    try:
        text = (sweep / "log.jsonl").read_text()
    except OSError:
        return []
    whole = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [line for line in whole if line["kind"] == kind]


def processes_of(verb, sweep):
    """Ids of processes with this command of Lockstep that are told the sweep, or whose parents are."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    words = {pid: args for pid, _, args in rows}
    return [int(pid) for pid, parent, args in rows
            if verb in args and "srun" not in args and str(sweep) in args + words.get(parent, "")]
