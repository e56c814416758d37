"""What the tests of studio's pages share: runs that were never trained, a server on them, and a browser that logs
every request."""

import http.cookiejar
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "flow"))
import runs  # noqa: E402

try:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright
except ImportError as error:
    runs.skip(f"studio's pages: {error}", "scripts/setup --peers gets what is missing")

CHROMIUM = os.environ.get("LOCKSTEP_CHROMIUM") or shutil.which("chromium")
if not CHROMIUM:
    runs.skip("studio's pages: there is no chromium", "scripts/setup --peers installs it")


def write_run(folder, losses, *, network="lenet", data="/data/photos", ended=True, classes=(), arguments=None, lines=None):
    """The folder of a run that a program has left, with a logged step for each loss."""
    folder.mkdir(parents=True)
    (folder / "events").mkdir()
    now = time.time() - len(losses)

    def line(kind, step, values):
        line.number += 1
        return json.dumps({"kind": kind, "step": step, "epoch": 1, "time": now + step, "rank": 0, "attempt": 0,
                           "sequence": line.number, "values": values}) + "\n"
    line.number = -1
    with open(folder / "events/rank-0-attempt-0.jsonl", "w", encoding="utf-8") as log:
        log.write(line("environment", 0, {"arguments": arguments or ["lockstep", "train", data], "host": "here", "data": data,
                                          "workers": 2}))
        log.write(line("plan", 0, {"network": network, "folder": data, "steps_per_epoch": 10,
                                   "total_steps": len(losses), "classes": list(classes),
                                   "lines": lines or [["network", network, "as asked"], ["optimizer", "sgdm", "default"]]}))
        for step, loss in enumerate(losses, 1):
            log.write(line("step", step, {"loss": loss, "accuracy": 0.5, "learning_rate": 0.01, "samples": 32,
                                          "images_per_second": 1000.0, "forward_seconds": 0.01,
                                          "backward_seconds": 0.02}))
        log.write(line("validation", len(losses), {"loss": 0.25, "accuracy": 0.9, "samples": 10, "best": True}))
        if ended:
            log.write(line("end", len(losses), {"reason": "finished", "seconds": 12.0, "best_step": len(losses)}))


class Server:
    """lockstep studio on a free port."""

    def __init__(self, *roots, folder):
        self.process = subprocess.Popen(runs.command("studio", "--no-browser", "--port", str(free_port()), *map(str, roots)),
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)
        printed = ""
        while "http://" not in printed:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError("studio ended: " + printed)
            printed += line
        self.address = re.search(r"http://\S+", printed).group(0)
        self.base = self.address.split("?")[0]

    def close(self):
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()


class Client:
    """What a page asks, without a browser."""

    def __init__(self, server):
        self.server = server
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        self.opener.open(server.address, timeout=60).read()

    def get(self, path):
        with self.opener.open(self.server.base + path.lstrip("/"), timeout=60) as answer:
            return json.load(answer)

    def post(self, path, body):
        headers = {"Content-Type": "application/json", "Origin": self.server.base.rstrip("/")}
        request = urllib.request.Request(self.server.base + path.lstrip("/"), json.dumps(body).encode(), headers)
        with self.opener.open(request, timeout=60) as answer:
            return json.load(answer)

    def run_ids(self):
        """The ids of all runs, by name."""
        runs.wait_for(lambda: self.get("/api/runs")["ready"])
        return {run["name"]: run["id"] for run in self.get("/api/runs")["runs"]}


def free_port():
    import socket
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


# Each scheme and each width is among the first two.
LOOKS = runs.some([("light", 1280), ("dark", 390)], [("light", 390), ("dark", 1280)])


class Browser:
    """Chromium with one page; what it asks for and what it complains about is kept."""

    def __init__(self):
        self.playwright = sync_playwright().start()
        self.chromium = self.playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        self.requests = []
        self.complaints = []
        self.page = None
        self.context = None

    def open(self, server, *, width=1280, height=900, scheme="light"):
        if self.context:
            self.context.close()
        # Without motion: where no GPU draws, a dot that pulses takes a good part of a core from the trainings.
        self.context = self.chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme,
                                                 reduced_motion="reduce")
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.page = self.context.new_page()
        self.page.on("console", self.take_message)
        self.page.on("response", lambda answer: answer.status >= 400 and self.complaints.append(
            f"{answer.status} {answer.request.method} {answer.url}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(server.address)
        self.page.wait_for_selector("main h1")
        return self.page

    def take_message(self, message):
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.complaints.append(message.text)

    def show(self, server, place, selector):
        self.page.goto(server.base + "#!" + place)
        self.page.wait_for_selector(selector)
        self.page.wait_for_timeout(300)

    def axe_findings(self):
        results = Axe().run(self.page).response["violations"]
        return [f"{one['id']}: {one['help']}: {node['html'][:200]}" for one in results for node in one["nodes"]]

    def close(self):
        self.chromium.close()
        self.playwright.stop()


class Studio(runs.TestFolders):
    """Studio on the folder `root`, and a page of it in a browser, for the whole test class. After each test the
    browser must have had nothing to complain of."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.root = cls.folder / "roots"
        cls.root.mkdir()
        cls.prepare()
        cls.server = Server(cls.root, folder=cls.folder)
        cls.browser = Browser()
        cls.page = cls.browser.open(cls.server)

    @classmethod
    def prepare(cls):
        """What must be there before studio starts."""

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.server.close()
        super().tearDownClass()

    def tearDown(self):
        complaints, self.browser.complaints[:] = list(self.browser.complaints), []
        self.assertEqual(complaints, [])

    def answer_question(self, button):
        """Returns the command that the question showed."""
        self.page.wait_for_selector("dialog .command")
        command = self.page.inner_text("dialog .command code")
        self.page.click(f"dialog button:text-is('{button}')")
        self.page.wait_for_selector("dialog", state="detached")
        return shlex.split(command)
