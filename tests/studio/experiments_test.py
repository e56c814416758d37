#!/usr/bin/env python3
"""Sweeps in a real Chromium: one is started from the form with exactly the command shown, stopped, continued and
watched; its trials are sorted, filtered, hidden, annotated, restarted, drawn and exported from the page."""

import csv
import io
import json
import subprocess
import unittest

import browser
import runs

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)> \u202egnp.exe"


class Experiments(browser.Studio, unittest.TestCase):
    @classmethod
    def tearDownClass(cls):
        for sweep in cls.root.glob("sweep-*"):
            subprocess.run(runs.command("sweep", "stop", sweep), capture_output=True, check=False)
        super().tearDownClass()

    def results(self):
        return self.page.locator("table.trials tbody td:nth-of-type(4)").all_inner_texts()

    def start_from_the_form(self):
        self.page.click("button:text-is('New sweep…')")
        self.page.fill("#sweep-data", str(self.digits))
        self.page.fill("input[aria-label='Values of option 1']", "oops..1")
        self.assertEqual(self.page.input_value("select[aria-label='Option 1']"), "learning-rate")
        self.page.wait_for_selector("dialog .problem:has-text('learning-rate')")
        self.browser.complaints.clear()  # a request was refused
        self.page.fill("input[aria-label='Values of option 1']", "0.001..0.1:log")
        self.page.click("button:text-is('Add an option')")
        self.page.select_option("select[aria-label='Option 2']", "network")
        self.page.fill("input[aria-label='Values of option 2']", "digits_cnn,lenet")
        self.page.select_option("#sweep-search", "random")
        for name, text in (("sweep-count", "6"), ("sweep-trials", "1"), ("sweep-seed", "1")):
            self.page.fill(f"#{name}", text)
        self.page.fill("#trial-validation", str(self.held_out))
        self.page.click("dialog details:nth-of-type(2) summary")
        for name, text in (("image-size", "64x64"), ("max-steps", "24"), ("validate-every", "6")):
            self.page.fill(f"#trial-{name}", text)
        self.page.select_option("#trial-recipe", "plain")
        self.page.wait_for_selector("dialog .command:has-text('max-steps=24')")
        self.page.wait_for_selector("dialog .command:has-text('recipe=plain')")
        self.assertEqual(self.browser.axe_findings(), [])
        return self.answer_question("Start")

    def test_a_sweep_from_the_form_to_its_export(self):
        self.browser.show(self.server, "/experiments", "text=No sweeps")
        self.assertIn(str(self.root), self.page.inner_text(".empty"))
        self.assertEqual(self.browser.axe_findings(), [])
        words = self.start_from_the_form()
        folder = next(word.removeprefix("--output=") for word in words if word.startswith("--output="))
        self.page.click("tbody a")
        self.page.wait_for_selector("td >> text=Running")
        self.page.click(".tools button:text-is('Stop')")
        self.assertEqual(self.answer_question("Stop"), ["lockstep", "sweep", "stop", folder])
        self.page.wait_for_selector(".head >> text=Stopped", timeout=60_000)
        spec = json.loads((self.root / folder / "sweep.json").read_text(encoding="utf-8"))
        self.assertEqual(spec["command"], words[words.index("--") + 1:], "the command that was shown")
        self.page.click(".tools button:text-is('Continue')")
        self.answer_question("Continue")
        self.page.wait_for_selector(".head >> text=Over", timeout=300_000)
        self.check_table(folder)
        self.check_drawings()
        self.check_changes(folder)
        self.check_every_width_and_scheme()

    def wait_for_trials(self, count, selector="table.trials tbody tr"):
        self.page.wait_for_function(f"() => document.querySelectorAll('{selector}').length === {count}")

    def check_table(self, folder):
        self.wait_for_trials(6)
        shown = [float(text) for text in self.results()]
        self.assertEqual(shown, sorted(shown, reverse=True), "the best first")
        self.page.click("th button:has-text('best_accuracy')")
        self.page.wait_for_selector("th[aria-sort=ascending]:has-text('best_accuracy')")
        self.assertEqual([float(text) for text in self.results()], sorted(shown))
        table = runs.run("sweep", "show", folder, "--json", "--filter", "network=lenet")
        self.page.fill("input[aria-label='Filter trials']", "network=lenet")
        self.wait_for_trials(len(json.loads(table)))
        self.page.fill("input[aria-label='Filter trials']", f"result>{sorted(shown)[2] + 1e-9}")
        self.wait_for_trials(sum(one > sorted(shown)[2] for one in shown))
        self.page.fill("input[aria-label='Filter trials']", "")
        self.page.click("button[aria-label='Hide trial 3']")
        self.wait_for_trials(5)
        self.page.reload()
        self.page.wait_for_selector("label:has-text('1 hidden')")
        self.page.check("label:has-text('1 hidden') input")
        self.page.click("button[aria-label='Show trial 3']")
        self.wait_for_trials(6)
        self.page.click("button:text-is('Columns')")
        self.page.click("[aria-label='Columns that are shown'] button:has(bdi:text-is('Steps'))")
        self.page.wait_for_selector("th:has-text('Steps')", state="detached")
        cells = self.page.locator("table.trials tbody tr").first.locator("td").count()
        self.assertEqual(cells, self.page.locator("table.trials thead th").count())
        self.assertEqual(self.browser.axe_findings(), [])
        self.page.reload()
        self.page.click("button:has-text('Columns1 hidden')")
        self.assertEqual(self.page.locator("th:has-text('Steps')").count(), 0)
        self.page.click("[aria-label='Columns that are shown'] button:has(bdi:text-is('Steps'))")
        self.page.wait_for_selector("th:has-text('Steps')")
        self.wait_for_trials(6)
        text = self.page.evaluate("() => fetch(document.querySelector('a[download=\"sweep.csv\"]').href).then(answer => answer.text())")
        self.assertEqual(text, runs.run("sweep", "export", folder, "--csv", "-"))
        self.assertEqual(len(list(csv.DictReader(io.StringIO(text)))), 6)

    def check_drawings(self):
        self.wait_for_trials(6, "path.trial")
        self.assertEqual(self.page.locator("table.importance tr").count(), 2)
        self.page.locator("table.trials tbody tr").first.hover()
        self.wait_for_trials(1, ".parallel path.lit")
        # A drag over the upper half of the last axis keeps the better trials.
        axis = self.page.locator("rect.catch").last
        axis.scroll_into_view_if_needed()
        box = axis.bounding_box()
        middle = box["x"] + box["width"] / 2
        self.page.mouse.move(middle, box["y"] + 8)
        self.page.mouse.down()
        self.page.mouse.move(middle, box["y"] + box["height"] / 2, steps=4)
        self.page.mouse.up()
        self.page.wait_for_selector("button:text-is('Show all lines')")
        few = self.page.locator("table.trials tbody tr").count()
        self.assertTrue(0 < few < 6, few)
        self.wait_for_trials(few, "path.trial")
        self.page.click("button:text-is('Show all lines')")
        self.wait_for_trials(6)
        self.page.check("input[aria-label='Pick trial 0']")
        self.page.check("input[aria-label='Pick trial 4']")
        self.page.wait_for_selector("figure.chart .legend >> text=trial 4")
        # Each trial's curve comes with an answer of its own.
        self.page.wait_for_function("() => document.querySelector('figure.chart').querySelectorAll('.legend li').length === 2")

    def check_changes(self, folder):
        self.page.click("button[aria-label='Note on trial 2']")
        self.page.fill("#form-word", HOSTILE)
        self.page.wait_for_selector("dialog .command:has-text('alert')")
        self.assertEqual(self.answer_question("Keep"), ["lockstep", "sweep", "annotate", folder, "2", "--", HOSTILE])
        self.page.wait_for_selector("td.note:has-text('<script>alert(1)</script>')")
        self.assertEqual(self.page.locator("main img, main script").count(), 0)
        self.page.click(".tools button:text-is('Confusion matrices')")
        self.assertEqual(self.answer_question("Make report"), ["lockstep", "report", folder, "--trials=0,4"])
        self.page.wait_for_selector("iframe.report", timeout=60_000)
        report = self.page.frame_locator("iframe.report")
        report.locator("details").first.wait_for()
        for trial in (0, 4):
            self.assertEqual(report.locator(f"[aria-label='confusion matrix of trial {trial}'] table.matrix").count(), 1)
        self.page.click("button:text-is('Hide report')")
        self.page.click("button[aria-label='Restart trial 5']")
        self.assertEqual(self.answer_question("Restart"), ["lockstep", "sweep", "restart", folder, "5"])
        self.page.wait_for_selector("tr:has(input[aria-label='Pick trial 5']) >> text=Waiting")

    def check_every_width_and_scheme(self):
        place = self.page.url.split("#!")[1]
        try:
            for scheme, width in browser.LOOKS:
                type(self).page = self.browser.open(self.server, width=width, scheme=scheme)
                for path, selector in (("/experiments", "tbody tr"), (place, "path.trial")):
                    self.browser.show(self.server, path, selector)
                    self.assertEqual(self.browser.axe_findings(), [], f"{path}, {width} pixels, {scheme}")
                    self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"), 0, path)
        finally:
            type(self).page = self.browser.open(self.server)

    def test_words_of_others_reach_no_command_line(self):
        for body in ({"command": "sweep stop", "sweep": "../../etc"}, {"command": "sweep", "data": "x", "parameters": []},
                     {"command": "sweep", "data": "x", "parameters": [{"name": "output", "values": "a,b", "x": 1}],
                      "options": {"output": "/tmp/x"}}, {"command": "sweep", "data": "x", "parameters": [{"name": "--help", "values": "1..2"}]},
                     {"command": "sweep-runner"}, {"command": "sweep export"}):
            status = self.page.evaluate("""body => fetch('/api/shown', {method: 'POST', headers: {'Content-Type': 'application/json'},
              body: JSON.stringify(body)}).then(answer => answer.status)""", body)
            self.assertIn(status, (400, 404), body)
        self.browser.complaints.clear()


if __name__ == "__main__":
    unittest.main(verbosity=2)
