"""What bench/studio measures while much is going on: many tabs, and a training beside studio."""

import contextlib
import json
import os
import statistics
import subprocess
import threading
import time

import browser
import common
import studio_runs

ROUND = 0.3  # seconds: a page that shows a run asks for it this often at most
CURVES = ["step.loss,validation.loss", "step.accuracy,validation.accuracy", "step.learning_rate", "step.images_per_second"]


def times_of(ask, count):
    found = []
    for _ in range(count):
        began = time.perf_counter()
        ask()
        found.append((time.perf_counter() - began) * 1e3)
        time.sleep(0.02)
    return found


def said(found):
    found = sorted(found)
    return f"median {statistics.median(found):.1f} ms, 95 %: {found[int(len(found) * 0.95)]:.1f}, most: {found[-1]:.1f}"


class LiveRun:
    """Goes on logging 20 steps a second, as a training does."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "events").mkdir(parents=True)
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.write)
        self.thread.start()

    def write(self):
        began = time.time()
        with open(self.folder / "events/rank-0-attempt-0.jsonl", "w", encoding="ascii") as log:
            studio_runs.head_lines(log, 1_000_000, began)
            step = 0
            while not self.ends.wait(0.05):
                step += 1
                log.write(studio_runs.line("step", step, time.time(), step + 1, {
                    "loss": 1 / step, "accuracy": 0.5, "learning_rate": 0.1, "images_per_second": 1000.0}))
                log.flush()

    def close(self):
        self.ends.set()
        self.thread.join()


def measure_tabs(chromium, root, count):
    """Requests of a program and of a tab while so many tabs of one browser show runs."""
    studio_runs.write_short_runs(root / "short", 100)
    live = LiveRun(root / "live")
    server = browser.Server(root, folder=root)
    try:
        client = browser.Client(server)
        runs = client.run_ids()
        pages = [chromium.open(server)]
        pages += [chromium.context.new_page() for _ in range(count - 1)]
        for what, place, selector in (("a list of runs", "", "tbody tr a"),
                                      ("a run that logs 20 steps a second", "#!/run/" + runs["live"], "figure.chart canvas")):
            for page in pages:
                page.goto(server.base + place)
                page.wait_for_selector(selector, timeout=120_000)
            time.sleep(3)
            print(f"{count} tabs of one Chromium show {what}; a request of another program: "
                  + said(times_of(lambda: client.get("/api/runs?since=1"), 100)))
            print("  of a tab: " + said(pages[-1].evaluate("""async () => {
              const found = [];
              for (let i = 0; i < 100; ++i) {
                const began = performance.now();
                await (await fetch("/api/runs?since=1")).text();
                found.push(performance.now() - began);
                await new Promise((done) => setTimeout(done, 20));
              }
              return found;
            }""")), flush=True)
    finally:
        live.close()
        server.close()


def processor_seconds(process):
    with open(f"/proc/{process}/stat", encoding="ascii") as stat:
        words = stat.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def ask_as_a_page(client, run, ends):
    while not ends.wait(ROUND):
        client.get(f"/api/run?id={run}")
        for names in CURVES:
            client.get(f"/api/curves?ids={run}&names={names}&columns=800")
        client.get("/api/runs?since=1")


def children_of(process):
    """It and all processes below it."""
    found, below = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as stat:
                below.setdefault(int(stat.read().rsplit(")", 1)[1].split()[1]), []).append(int(entry))
    wanted = [process]
    while wanted:
        one = wanted.pop()
        found[one] = True
        wanted += below.get(one, [])
    return list(found)


def seconds_of_all(processes):
    total = 0.0
    for one in processes:
        with contextlib.suppress(OSError):
            total += processor_seconds(one)
    return total


class Watcher:
    """What looks at a training: nothing, a program that asks what a page asks, or a page in Chromium. Afterwards
    `share` is what studio took of the machine, and `looker` what the program or the browser took."""

    def __init__(self, how, chromium, folder):
        self.how, self.chromium, self.share, self.looker = how, chromium, 0.0, 0.0
        self.ends = threading.Event()
        if how == "alone":
            return
        self.server = browser.Server(folder, folder=folder)
        client = browser.Client(self.server)
        while "run" not in (runs := client.run_ids()):
            time.sleep(0.05)
        if how == "page":
            page = chromium.open(self.server)
            page.goto(f"{self.server.base}#!/run/{runs['run']}")
            page.wait_for_selector("figure.chart canvas", timeout=60_000)
            # Chromium is a child of the driver of playwright, which is one of this process.
            self.processes = [one for one in children_of(os.getpid()) if one != os.getpid()
                              and one not in children_of(self.server.process.pid)]
        else:
            self.processes = [os.getpid()]
            self.asking = threading.Thread(target=ask_as_a_page, args=(client, runs["run"], self.ends))
            self.asking.start()
        self.began = time.monotonic()
        self.used = processor_seconds(self.server.process.pid), seconds_of_all(self.processes)

    def close(self):
        if self.how == "alone":
            return
        machine = (time.monotonic() - self.began) * os.cpu_count()
        self.share = (processor_seconds(self.server.process.pid) - self.used[0]) / machine
        self.looker = (seconds_of_all(self.processes) - self.used[1]) / machine
        self.ends.set()
        if self.how == "program":
            self.asking.join()
        else:
            self.chromium.page.close()
        self.server.close()


def training_beside(lockstep, folder, epochs, how, chromium):
    """Images a second of a training with a worker for each of two cores, its processor seconds, studio's share of the
    machine, and that of what looks."""
    command = [str(lockstep), "train", str(common.digits_folder()), "--output", str(folder / "run"), "--recipe", "plain",
               "--network", "digits_cnn", "--workers", "2", "--patience", "0", "--max-epochs", str(epochs)]
    training = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    watcher = Watcher(how, chromium, folder)
    # The processes of the browser are listed without the training, which is a child of this one as well.
    if how == "page":
        watcher.processes = [one for one in watcher.processes if one != training.pid]
        watcher.used = watcher.used[0], seconds_of_all(watcher.processes)
    status, usage = os.wait4(training.pid, 0)[1:]
    watcher.close()
    if status != 0:
        raise RuntimeError("the training failed")
    rate = json.loads((folder / "run/result.json").read_text())["images_per_second"]
    return rate, usage.ru_utime + usage.ru_stime, watcher.share, watcher.looker


def measure_training(lockstep, make_folder, times, epochs):
    """Runs alternate, so that what changes on the machine meanwhile changes all of them."""
    chromium = browser.Browser()
    found = {"alone": [], "program": [], "page": []}
    try:
        for number in range(times):
            order = list(found) if number % 2 == 0 else list(reversed(found))
            for how in order:
                found[how].append(training_beside(lockstep, make_folder(), epochs, how, chromium))
    finally:
        chromium.close()
    names = {"alone": "nothing", "program": "studio and a program that asks what a page asks", "page": "studio and a page in Chromium"}
    for how, runs in found.items():
        ratios = [run[0] / alone[0] for run, alone in zip(runs, found["alone"])]
        without = [ratio / (1 - run[3]) for ratio, run in zip(ratios, runs)]
        print(f"training beside {names[how]}: {', '.join(f'{run[0]:,.0f}' for run in runs)} images/s; ratio "
              f"{statistics.median(ratios):.4f}, without the time of the {'browser' if how == 'page' else 'program'} "
              f"{statistics.median(without):.4f}; processor seconds of the training {statistics.median(run[1] for run in runs):.1f}; of "
              f"the machine studio takes {statistics.median(run[2] for run in runs) * 100:.2f} %, what looks "
              f"{statistics.median(run[3] for run in runs) * 100:.2f} %", flush=True)
