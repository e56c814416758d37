#!/usr/bin/env python3
"""Studio's pages in a real Chromium: nobody gets in without the token, hostile names are text, a spike of one step can
be seen at every zoom, a run is stopped and resumed from its page, and axe finds nothing to complain about."""

import http.client
import json
import pathlib
import re
import subprocess
import unittest
import urllib.parse

import browser
import runs

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "src/lockstep/studio"
SPIKE, STEPS = 54_321, 130_000  # of a log that begins as a coarse picture
HOSTILE = ["<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "\u202egnp.exe", "\u05e9\u05dc\u05d5\u05dd run",
           "a" * 250, "%2e%2e%2f", "javascript:alert(1)", "{{7*7}} ${x}"]


class StudioPages(browser.Studio, unittest.TestCase):
    @classmethod
    def prepare(cls):
        browser.write_run(cls.root / "calm", [2 / (1 + step) for step in range(200)])
        browser.write_run(cls.root / "odd", [1.0, 0.5], arguments={"a": 1, "b": 2}, lines=5)
        browser.write_run(cls.root / "spike", [9.0 if step == SPIKE else 1.0 for step in range(1, STEPS + 1)])
        for name in HOSTILE:
            # A name of a file has at most 255 letters; others can have 10,000.
            long = name * (40 if len(name) == 250 else 1)
            browser.write_run(cls.root / "hostile" / name.replace("/", "\u2044"), [1.0, 0.5], network=long,
                              data="/data/" + long, classes=[long])

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        runs.wait_for(lambda: cls.ask("/api/runs")["ready"])
        cls.ids = {run["name"]: run["id"] for run in cls.ask("/api/runs")["runs"]}

    @classmethod
    def ask(cls, path):
        return cls.page.evaluate("path => fetch(path).then(answer => answer.json())", path)

    def status(self, *request):
        return self.answer(*request).status

    def answer(self, method, path, headers=None, body=None):
        parts = urllib.parse.urlsplit(self.server.base)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
        connection.putrequest(method, path, skip_host=True)
        for name, value in {"Host": parts.netloc, **(headers or {})}.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        answer.body = b"" if answer.getheader("Content-Type") == "text/event-stream" else answer.read()
        connection.close()
        return answer

    def cookie(self):
        return "; ".join(f"{one['name']}={one['value']}" for one in self.browser.context.cookies())

    def test_the_axis_of_steps_names_whole_steps_where_they_are(self):
        ticks = self.page.evaluate("import('/plot.js').then(plot => [plot.ticks(39, 41, 4, 1), plot.ticks(39, 41, 4)])")
        self.assertEqual(ticks, [[39, 40, 41], [39, 39.5, 40, 40.5, 41]])

    def test_an_axis_has_few_ticks_whatever_its_limits(self):
        """Also where steps are shorter than the distance of two numbers, or the axis is longer than any number."""
        ticks = self.page.evaluate("""import('/plot.js').then(({ ticks }) => [[0.7, 0.7 + 2 ** -53], [-1e308, 1e308], [0, 5e-324],
            [1e15, 1e15 + 1]].map(([low, high]) => ticks(low, high, 4)))""")
        self.assertEqual(ticks[:3], [[0.7], [-1e308], [0]])
        self.assertTrue(1 <= len(ticks[3]) <= 6 and all(1e15 <= one <= 1e15 + 1 for one in ticks[3]), ticks[3])

    def test_a_folder_is_trained_from_the_list_of_runs(self):
        self.browser.show(self.server, "/runs", "button:text-is('New training…')")
        self.page.click("button:text-is('New training…')")
        self.page.fill("#train-data", str(self.digits))
        self.page.fill("#train-network", "lenet")
        self.page.fill("#train-max-epochs", "1")
        self.page.click("dialog button:text-is('Show the plan')")
        self.page.wait_for_selector("dialog .plan >> text=lenet")
        self.assertEqual(self.browser.axe_findings(), [])
        self.page.click("dialog button:text-is('Train')")
        self.page.wait_for_selector("h1:has-text('digits-001')", timeout=60_000)
        self.page.wait_for_selector("text=Ended", timeout=60_000)
        self.assertTrue((self.root / "digits-001/model.safetensors").exists())

    def test_a_request_without_the_token_gets_401(self):
        known = set(re.findall(r'"(/api/[a-z-]+)"', (SOURCES / "routes.cpp").read_text(encoding="utf-8")))
        self.assertGreater(len(known), 25)
        pages = [f"/{page.name}" for page in (SOURCES / "pages").iterdir()]
        paths = ["/", *sorted(known), *pages, "/api/run?id=x", "/nothing", "/../../etc/passwd"]
        token = self.server.address.split("=")[1]
        for path in paths:
            for method in ("GET", "POST", "PUT", "OPTIONS"):
                self.assertEqual(self.status(method, path), 401, f"{method} {path}")
            self.assertEqual(self.status("GET", path, {"Cookie": f"lockstep={token}"}), 401, path)
        self.assertEqual(self.status("GET", "/?token=" + "0" * len(token)), 401)
        self.assertEqual(self.status("GET", "/api/runs?token=" + token), 401)
        mine = {"Cookie": self.cookie()}
        self.assertEqual(self.status("GET", "/api/runs", mine), 200)
        self.assertEqual(self.status("GET", "/api/runs", {**mine, "Host": "evil.example"}), 403)
        self.assertEqual(self.status("GET", "/api/runs", {**mine, "Origin": "http://evil.example"}), 403)
        post = {**mine, "Content-Type": "application/json"}
        body = json.dumps({"id": self.ids["calm"], "request": "stop"}).encode()
        self.assertEqual(self.status("POST", "/api/request", post, body), 403, "no Origin")
        self.assertEqual(self.status("POST", "/api/request", {**post, "Origin": "null"}, body), 403)
        own = {**post, "Origin": self.server.base.rstrip("/")}
        self.assertEqual(self.status("POST", "/api/request", own, body), 400, "the run is over")
        self.assertEqual(self.status("POST", "/api/request", {**own, "Content-Type": "text/plain"}, body), 415)
        cookie = self.browser.context.cookies()[0]
        self.assertTrue(cookie["httpOnly"])
        self.assertEqual(cookie["sameSite"], "Strict")

    def test_a_browser_may_keep_scripts_under_a_path_that_changes_with_them(self):
        mine = {"Cookie": self.cookie()}
        page = self.answer("GET", "/", mine)
        kept = re.search(r'"(/[0-9a-f]{16})/main\.js"', page.body.decode())[1]
        script = self.answer("GET", kept + "/main.js", mine)
        self.assertIn("immutable", script.getheader("Cache-Control"))
        self.assertEqual(script.body, self.answer("GET", "/main.js", mine).body)
        for path in ("/", "/main.js", "/api/runs"):
            self.assertEqual(self.answer("GET", path, mine).getheader("Cache-Control"), "no-store", path)
        self.assertEqual(self.status("GET", kept + "/main.js"), 401)
        for path in (kept, kept + "/nothing.js", kept + "/api/runs", "/0000000000000000/main.js"):
            self.assertEqual(self.status("GET", path, mine), 404, path)

    def test_paths_cannot_leave_the_roots(self):
        mine = {"Cookie": self.cookie()}
        for path in ("/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api/report?id=../../../etc", "/index.html/..",
                     "/api/report?id=" + urllib.parse.quote(str(self.folder)), "/api/run?id=", "/api/nothing", "/api/exported?name=nothing.onnx"):
            self.assertEqual(self.status("GET", path, mine), 404, path)
        for name in ("../calm/events/rank-0-attempt-0.jsonl", "/etc/passwd", "..", ".hidden", "-x", "", "a" * 300, "a%00b"):
            self.assertEqual(self.status("GET", "/api/exported?name=" + name, mine), 400, name)
        own = {**mine, "Content-Type": "application/json", "Origin": self.server.base.rstrip("/")}
        for name in ("../out.onnx", "/tmp/out.onnx", "-o.onnx", ""):
            body = json.dumps({"command": "export", "id": self.ids["calm"], "word": name}).encode()
            self.assertEqual(self.status("POST", "/api/shown", own, body), 400, name)
        for path, status in (("/etc/passwd", 400), ("/etc", 404), ("/dev/zero", 404), ("/nothing", 404), ("", 404)):
            self.assertEqual(self.status("POST", "/api/open", own, json.dumps({"path": path}).encode()), status, path)
        for path in ("/api/curves?ids=a&names=b&columns=x", "/api/curves?x=y", "/%zz", "/api/curves?from=nan"):
            self.assertEqual(self.status("GET", path, mine), 400, path)

    def test_hostile_names_are_shown_as_text(self):
        self.browser.show(self.server, "/runs", "tbody tr")
        text = self.page.inner_text("tbody")
        for name in HOSTILE:
            self.assertIn(name.replace("/", "\u2044"), text)
        for name in HOSTILE:
            run = self.ids["hostile/" + name.replace("/", "\u2044")]
            self.browser.show(self.server, "/run/" + run, "figure.chart")
            self.assertIn(name.replace("/", "\u2044"), self.page.inner_text("h1"))
            self.assertIn(name, self.page.inner_text("main"))
            self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"), 0, name)
        self.browser.show(self.server, "/compare/" + ",".join(self.ids.values()), "table.side")
        self.assertEqual(self.page.locator("main img, main script").count(), 0)

    def test_a_run_whose_log_says_odd_things_is_shown(self):
        self.browser.show(self.server, "/run/" + self.ids["odd"], "dl.tiles")
        self.browser.show(self.server, f"/compare/{self.ids['odd']},{self.ids['calm']}", "table.side")

    def test_an_address_without_a_page_says_so(self):
        self.browser.show(self.server, "/nopage", "h1:text-is('There is no page \"nopage\"')")
        self.page.click("main a")
        self.page.wait_for_selector("h1:text-is('Runs')")

    def test_a_dialog_closes_with_its_page_and_gives_the_focus_back(self):
        opener = "button:text-is('New training…')"
        self.browser.show(self.server, "/runs", opener)
        self.page.click(opener)
        self.page.wait_for_selector("dialog")
        self.page.keyboard.press("Escape")
        self.page.wait_for_selector("dialog", state="detached")
        self.page.wait_for_function("() => document.activeElement.textContent === 'New training…'")
        for leave in (self.page.go_back, lambda: self.browser.show(self.server, "/jobs", "h1:text-is('Jobs')")):
            self.browser.show(self.server, "/experiments", "h1:text-is('Experiments')")
            self.browser.show(self.server, "/runs", opener)
            self.page.click(opener)
            self.page.wait_for_selector("dialog")
            leave()
            self.page.wait_for_selector("dialog", state="detached")

    def test_the_list_has_the_loss_of_held_out_data(self):
        self.browser.show(self.server, "/runs", "tbody tr")
        self.assertEqual(self.page.inner_text("th.c-loss"), "Held-out loss")
        self.assertEqual(self.page.inner_text("tr:has(bdi:text-is('calm')) td.c-loss"), "0.25")

    def test_a_page_of_what_is_gone_says_so(self):
        for place, heading in (("/run/x", "Run"), ("/experiment/x", "Experiment"), ("/job/123456789", "Job 123456789"), ("/cluster/x", "x")):
            self.browser.show(self.server, place, ".problem:has-text('there is no ')")
            self.assertEqual(self.page.inner_text("h1"), heading)
            self.assertNotIn("hint:", self.page.inner_text(".problem"))
            self.assertNotEqual(self.page.inner_text(".problem p"), "")
            self.assertEqual(self.browser.axe_findings(), [], place)
        calm = self.ids["calm"]
        self.browser.show(self.server, f"/compare/{calm},x,{calm}", ".problem:has-text('there is no such run')")
        self.assertEqual(self.page.locator("table.side thead th").count(), 3, "each run once")
        self.assertEqual(self.page.locator("table.side th.part").count(), 0, "what is not known is not different")
        self.browser.show(self.server, "/runs", "tbody tr")
        self.browser.complaints[:] = [one for one in self.browser.complaints if not re.match("40[04] GET", one)]

    def says_that_it_cannot_be_read_anew(self, address, seen):
        """The page asks again every few seconds; what was read before stays."""
        self.page.route(address, lambda route: route.fulfill(status=500, content_type="application/json",
                                                             body='{"error": "the disk is away"}'))
        self.page.wait_for_selector(".problem:has-text('the disk is away')")
        self.assertTrue(self.page.is_visible(seen))
        self.page.unroute(address)
        self.page.wait_for_selector(".problem", state="detached")
        self.browser.complaints.clear()

    def test_a_list_that_cannot_be_read_anew_says_so(self):
        self.browser.show(self.server, "/runs", "tbody tr")
        self.says_that_it_cannot_be_read_anew(re.compile(r"/api/runs\?"), "tbody tr")

    def test_an_error_is_said_beside_what_was_read_before(self):
        self.browser.show(self.server, "/run/" + self.ids["calm"], "dl.tiles")
        self.says_that_it_cannot_be_read_anew(re.compile(r"/api/run\?"), "dl.tiles")

    def test_no_request_leaves_the_machine(self):
        self.browser.show(self.server, "/runs", "tbody tr")
        self.assertGreater(len(self.browser.requests), 10)
        self.assertEqual([url for url in self.browser.requests if not url.startswith(self.server.base)], [])

    def test_axe_finds_nothing(self):
        places = [("/runs", "tbody tr"), ("/run/" + self.ids["calm"], "figure.chart"),
                  (f"/compare/{self.ids['calm']},{self.ids['spike']}", "table.side")]
        try:
            for scheme, width in browser.LOOKS:
                self.page = self.browser.open(self.server, width=width, scheme=scheme)
                for place, selector in places:
                    self.browser.show(self.server, place, selector)
                    self.assertEqual(self.browser.axe_findings(), [], f"{place}, {width} pixels, {scheme}")
                    self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"), 0,
                                         f"{place} at {width} pixels")
        finally:
            type(self).page = self.browser.open(self.server)

    # The highest pixel of the curve's colour, as a share of the plot's height; 1 without any.
    TOP = """canvas => {
      const {width, height} = canvas, pixels = canvas.getContext('2d').getImageData(0, 0, width, height).data;
      for (let i = 0; i < pixels.length; i += 4)
        if (Math.abs(pixels[i] - 43) < 40 && Math.abs(pixels[i + 1] - 80) < 40 && Math.abs(pixels[i + 2] - 200) < 40
            && pixels[i + 3] > 90) return Math.floor(i / 4 / width) / height;
      return 1;
    }"""

    def test_a_spike_of_one_step_is_visible_at_every_zoom(self):
        self.browser.show(self.server, "/run/" + self.ids["spike"], "figure.chart canvas")
        plot = self.page.locator(".plot").first
        canvas = self.page.locator("figure.chart canvas").first
        self.page.wait_for_selector(".plot[aria-busy='false']")
        self.page.wait_for_function("() => document.querySelector('.legend b')?.textContent === '1'")
        box = plot.bounding_box()
        left, width = box["x"] + 56, box["width"] - 68
        self.page.mouse.move(left + width * SPIKE / STEPS, box["y"] + 100)
        plot.focus()
        for _ in range(14):
            self.page.wait_for_timeout(150)
            # The finer curve may still be under way on a busy machine.
            runs.wait_for(lambda: canvas.evaluate(self.TOP) < 0.15, 10)
            self.page.keyboard.press("+")
        self.page.keyboard.press("0")
        self.page.wait_for_timeout(300)
        # Away from the spike the axis is that of the calm part.
        answer = self.ask(f"/api/curves?ids={self.ids['spike']}&names=step.loss&from=1&to=50000&columns=300")
        self.assertEqual(max(answer[0]["raw"]["y"]), 1)

    # Whether the curve of this number, which has one point at the last step, is drawn right of the plot's edge too.
    DOT_IS_WHOLE = """(canvas, [red, green, blue]) => {
      const scale = devicePixelRatio, edge = canvas.clientWidth - 12;
      const {data} = canvas.getContext('2d').getImageData((edge + 1) * scale, 0, 1, canvas.height);
      for (let i = 0; i < data.length; i += 4)
        if (Math.abs(data[i] - red) + Math.abs(data[i + 1] - green) + Math.abs(data[i + 2] - blue) < 60 && data[i + 3] > 90) return true;
      return false;
    }"""

    def test_the_only_value_of_a_curve_is_a_whole_dot(self):
        self.browser.show(self.server, "/run/" + self.ids["calm"], ".plot[aria-busy='false']")
        canvas = self.page.locator("figure.chart:has(h2:text-is('Accuracy')) canvas")
        canvas.wait_for()
        runs.wait_for(lambda: canvas.evaluate(self.DOT_IS_WHOLE, [0xc2, 0x41, 0x0c]), 10)

    def test_keys_move_along_a_chart_and_its_values_are_said(self):
        self.browser.show(self.server, "/run/" + self.ids["calm"], ".plot[aria-busy='false']")
        chart = self.page.locator("figure.chart").first
        chart.locator(".plot").focus()
        for key, said in (("ArrowRight", "Step 1: training 2; held out 0.25"), ("ArrowRight", "Step 4: training 0.5; held out 0.25"),
                          ("ArrowLeft", "Step 1: training 2; held out 0.25"), ("Escape", "")):
            self.page.keyboard.press(key)
            chart.locator(f"[aria-live=polite]:text-is('{said}')").wait_for(state="attached")
        self.assertEqual(self.browser.axe_findings(), [])

    def test_a_share_is_rounded_as_the_reports_do(self):
        shares = [0.38125, 0.38375, 0.38135, 1, 1 / 3]
        texts = self.page.evaluate("shares => import('/format.js').then(format => shares.map(format.percent))", shares)
        self.assertEqual(texts, [f"{100 * share:.2f} %" for share in shares])

    def test_smoothing_keeps_the_raw_line(self):
        answer = self.ask(f"/api/curves?ids={self.ids['spike']}&names=step.loss&smoothing=0.99&columns=300")[0]
        self.assertEqual(max(answer["raw"]["y"]), 9)
        self.assertLess(max(answer["smooth"]["y"]), 2)

    def workers_and_process_are_shown(self, process):
        card = self.page.locator("section.card:has(h2:has-text('Workers in step'))")
        card.wait_for()
        rows = [[int(text) for text in row.locator("td.number").all_inner_texts()] for row in card.locator("tbody tr").all()]
        self.assertEqual([(worker, given) for worker, given, _ in rows], [(0, 4), (1, 4)])
        self.assertEqual(sum(computed for _, _, computed in rows), 8)
        card = self.page.locator("section.card:has(h2:text-is('Process of rank 0'))")
        card.locator("dt:text-is('Cores in use')").wait_for()
        facts = dict(zip(card.locator("dt").all_inner_texts(), card.locator("dd bdi").all_inner_texts()))
        self.assertEqual(facts["Process"], str(process))
        self.assertRegex(facts["Memory"], r"^[\d.]+ MB$")
        self.assertGreater(float(facts["Cores in use"]), 0.05)
        self.assertGreaterEqual(int(facts["Threads"]), 2)

    def a_layer_is_shown(self, run):
        self.page.click("button:text-is('Layers')")
        self.page.wait_for_selector("section[aria-label='What a layer sees'] .samples img", timeout=30_000)
        seen = self.page.locator("section[aria-label='What a layer sees']")
        seen.locator(".seen").wait_for()
        told = json.loads(runs.run("layer", "show", run, self.digits, "--sample=0", "--json"))
        self.assertEqual(seen.locator("option").count(), len(told["layers"]))
        last = told["layers"][-1]["name"]
        seen.locator("select").select_option(last)
        self.page.wait_for_selector("section[aria-label='What a layer sees']:has-text('gives 10') .values rect")
        self.assertEqual(seen.locator(".values rect").count(), 10)
        self.assertIn(f"--layer={last}", seen.locator(".command code").inner_text())
        seen.locator(".samples button").nth(3).click()
        self.page.wait_for_selector("section[aria-label='What a layer sees'][aria-busy=false]")
        self.assertRegex(seen.locator(".command code").inner_text(), r"--sample=\d+ ")
        self.assertEqual(self.browser.axe_findings(), [])
        self.page.click("button:text-is('Hide layers')")

    def test_a_run_is_stopped_and_resumed_from_its_page(self):
        run = self.root / "live"
        process = subprocess.Popen(runs.command("train", self.digits, "--output", run, *runs.SMALL, "--max-epochs", "100000",
                                                "--workers", "2", "--network", "mlp"),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, cwd=self.folder)
        try:
            self.browser.show(self.server, "/runs", "tbody tr")
            self.page.click("tbody bdi:text-is('live')")
            self.page.wait_for_selector("text=Running")
            self.page.wait_for_function("() => /[1-9]/.test(document.querySelectorAll('.tile dd')[2]?.textContent)")
            self.workers_and_process_are_shown(process.pid)
            self.page.click("button:text-is('Stop')")
            self.page.click("dialog button:text-is('Stop')")
            self.page.wait_for_selector("text=Stopped", timeout=20_000)
            self.assertEqual(process.wait(20), 0)
            before = runs.steps_done(run)
            self.page.click("button:text-is('Resume')")
            shown = self.page.inner_text("dialog .command code")
            self.assertTrue(re.fullmatch(r"lockstep train \S+ --output \S+/live --resume", shown), shown)
            self.page.click("dialog button:text-is('Resume')")
            self.page.wait_for_selector("p >> text=Running", timeout=20_000)
            runs.wait_for(lambda: runs.steps_done(run) > before)
            self.page.keyboard.press("Escape")
            self.page.click("button:text-is('Finish early')")
            self.page.click("dialog button:text-is('Finish')")
        finally:
            process.kill()
            process.wait()
        self.page.wait_for_selector("p >> text=Ended", timeout=20_000)
        self.assertTrue((run / "model.safetensors").exists())
        self.page.click("button:text-is('Weights')")
        self.page.wait_for_selector("section[aria-label=Weights] tbody tr", timeout=30_000)
        tensors = json.loads(runs.run("weights", "show", run, "--json"))["tensors"]
        self.assertEqual(self.page.locator("section[aria-label=Weights] tbody th").all_inner_texts(), [one["name"] for one in tensors])
        self.assertEqual(self.page.locator("svg.histogram").count(), len(tensors))
        self.assertEqual(sum(tensors[0]["histogram"]), tensors[0]["numbers"])
        self.assertEqual(self.browser.axe_findings(), [])
        self.a_layer_is_shown(run)
        self.page.click("button:text-is('Delete')")
        self.page.click("dialog button:text-is('Cancel')")
        self.assertTrue(run.exists())
        self.page.click("button:text-is('Delete')")
        self.page.click("dialog button:text-is('Delete')")
        self.page.wait_for_selector("h1:text-is('Runs')")
        runs.wait_for(lambda: not run.exists())
        # The page may have asked for the run once more.
        self.browser.complaints[:] = [one for one in self.browser.complaints if not one.startswith("404 GET")]


if __name__ == "__main__":
    unittest.main(verbosity=2)
