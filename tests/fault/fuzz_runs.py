"""The runs of fuzz_weights.py: started, killed at random moments, and read."""
import collections
import hashlib
import json
import os
import signal
import subprocess
import tempfile
import time

ENDS = ("reason", "accuracy", "loss", "best_accuracy", "best_step", "test_accuracy", "test_loss")


class Runs:
    """Runs programs; a run that takes longer than `hang` seconds is killed, and its processes are in `stacks`."""

    def __init__(self, cache, hang):
        self.hang, self.counts, self.stacks = hang, collections.Counter(), ""
        self.env = dict(os.environ, XDG_CACHE_HOME=cache)
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "LOCKSTEP_CACHE"):
            self.env.pop(name, None)

    def run(self, command, kill=None, folder=None):
        """(status, text, seconds, killed). status: exit status, negative signal, or 'hang'.

        kill: (kind, moment, signal, whom); of the kind "events" the moment is a number of them in the run `folder`.
        """
        begin = time.time()
        with tempfile.TemporaryFile() as out:
            p = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                 start_new_session=True, env=self.env)
            status, killed = self.wait(p, kill, folder)
            if killed:
                self.end_leftovers(p.pid)
            out.seek(0)
            text = out.read().decode("utf-8", "replace")
        return status, text, time.time() - begin, killed

    def wait(self, p, kill, folder):
        begin, killed = time.time(), False
        while True:
            seconds = time.time() - begin
            if kill and not killed and is_time(kill, seconds, folder):
                killed = self.end(p, kill)
            if seconds > self.hang:
                self.stacks = processes_of(p.pid)
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()
                return "hang", killed
            try:
                return p.wait(0.002 if kill and not killed else 0.05), killed
            except subprocess.TimeoutExpired:
                pass

    def end_leftovers(self, group):
        """Ranks of a launcher that was killed end soon, or are a leftover that the resume must not meet."""
        until = time.time() + 15
        while time.time() < until and group_lives(group):
            time.sleep(0.02)
        if group_lives(group):
            self.counts["ranks that outlived their launcher"] += 1
            os.killpg(group, signal.SIGKILL)

    def end(self, p, kill):
        number, whom = kill[2:]
        try:
            if whom == "all":
                os.killpg(p.pid, number)
            elif whom == "first":
                os.kill(p.pid, number)
            else:
                with open("/proc/%d/task/%d/children" % (p.pid, p.pid)) as f:
                    children = [int(x) for x in f.read().split()]
                if not children:
                    return False
                os.kill(children[whom % len(children)], number)
            self.counts["kills" if number == signal.SIGKILL else "stops"] += 1
            return True
        except (ProcessLookupError, FileNotFoundError):
            return False


def group_lives(pid):
    try:
        os.killpg(pid, 0)
        return True
    except (ProcessLookupError, PermissionError):
        return False


def processes_of(pid):
    try:
        words = ["ps", "-o", "pid,stat,wchan:30,args", "-g", str(pid)]
        return subprocess.run(words, stdout=subprocess.PIPE, text=True).stdout
    except OSError:
        return ""


def attempt_of(name):
    return int(name.split("attempt-")[1].split(".")[0])


def is_time(kill, seconds, folder):
    kind, moment = kill[:2]
    if kind == "time":
        return seconds >= moment
    try:
        newest = max(os.listdir(os.path.join(folder, "events")), key=attempt_of)
        with open(os.path.join(folder, "events", newest), "rb") as f:
            return sum(1 for _ in f) >= moment
    except (OSError, ValueError, IndexError):
        return False


def result_of(folder):
    """What all variants must have alike: the bytes of the weights, and the scores at the end."""
    def sha(name):
        try:
            with open(os.path.join(folder, name), "rb") as f:
                return hashlib.sha256(f.read()).hexdigest()[:16]
        except FileNotFoundError:
            return None
    end = {}
    try:
        for name in sorted(os.listdir(os.path.join(folder, "events")), key=attempt_of):
            with open(os.path.join(folder, "events", name)) as f:
                for line in f:
                    try:
                        event = json.loads(line)
                    except ValueError:
                        continue
                    if event["kind"] == "end":
                        end = {k: event["values"].get(k) for k in ENDS}
                        end["step"] = event["step"]
    except (OSError, ValueError, IndexError):
        pass
    return {"model": sha("model.safetensors"), "best": sha("best.safetensors"), "end": end}


def left_behind(folder):
    """Files that a run must not leave."""
    return [n for root, folders, files in os.walk(folder) for n in folders + files
            if n.endswith(".part") or n.startswith(".unfinished")]
