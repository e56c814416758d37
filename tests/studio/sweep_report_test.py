#!/usr/bin/env python3
"""The page of a sweep in a real Chromium: it loads nothing, axe finds nothing in light and dark, and what others wrote
is text. The page of a run on paper."""

import unittest

import browser
import runs

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)> \u202egnp.exe"


class SweepReport(runs.TestFolders, unittest.TestCase):
    def test_page(self):
        sweep = self.folder / "sweep"
        runs.run("sweep", "--count", "12", "--trials", "2", "--seed", "1", "--search", "random", "--keep-weights", "2",
                 "--learning-rate", "0.001..0.1:log", "--network", "digits_cnn,lenet", "--momentum",
                 "0.5..0.9:when=network=lenet", "--output", sweep, "--", "train", self.digits, "--validation",
                 self.held_out, "--recipe", "plain", "--image-size", "20x20", "--optimizer", "sgdm", "--max-steps",
                 "6", "--validate-every", "2")
        runs.run("sweep", "annotate", sweep, "3", HOSTILE)
        printed = runs.run("report", sweep, "--trials", "3,0,1,2,4,5")
        self.assertIn("report.html", printed)
        with browser.sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=browser.CHROMIUM, args=["--no-sandbox"])
            for scheme in ("light", "dark"):
                page = chromium.new_context(color_scheme=scheme).new_page()
                asked = []
                page.on("request", lambda request: asked.append(request.url))
                page.goto((sweep / "report.html").as_uri())
                page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
                found = browser.Axe().run(page)
                self.assertEqual(found.violations_count, 0, found.generate_report())
                self.assertEqual(len(asked), 1, asked)
            self.check_content(page)
            chromium.close()
        self.assertIn("has no trial 99: ", runs.run("report", sweep, "--trials", "99", status=1))

    def test_nothing_of_a_runs_page_is_cut_off_on_paper(self):
        run = self.folder / "run"
        runs.train(self.digits, run, "--network", "mlp", "--max-steps", "4")
        runs.run("report", run, self.held_out)
        with browser.sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=browser.CHROMIUM, args=["--no-sandbox"])
            page = chromium.new_page(viewport={"width": 720, "height": 1000})  # A4 with margins
            page.goto((run / "report.html").as_uri())
            page.emulate_media(media="print")
            self.assertEqual(page.locator(".matrix").count(), 1)
            for part in page.locator(".scroll").all():
                self.assertEqual(part.evaluate("part => getComputedStyle(part).overflowX"), "visible")
            colours = page.locator(".matrix td.right, .matrix td.wrong").first
            self.assertEqual(colours.evaluate("cell => getComputedStyle(cell).printColorAdjust"), "exact")
            widest = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            self.assertLessEqual(widest, 0, "the page is not wider than the paper")
            chromium.close()

    def check_content(self, page):
        self.assertEqual(page.locator(".trials tbody tr").count(), 12)
        self.assertEqual(page.locator(".trials svg.small").count(), 12)  # a curve of each
        results = [float(text) for text in page.locator(".trials tbody td:nth-of-type(2)").all_inner_texts()]
        self.assertEqual(results, sorted(results, reverse=True))
        self.assertIn("<script>alert(1)</script>", page.locator(".trials").inner_text())
        self.assertEqual(page.locator("svg[aria-label='parallel coordinates of 12 trials'] > g > title").count(), 12)
        self.assertEqual(page.get_by_text("Too few trials: 12 trained in full").count(), 1)
        # Each trial has its matrix, of six chosen ones and of the others. Of the chosen ones, those that have kept their
        # weights are judged, and the others say why not.
        self.assertEqual(page.locator("#matrices .matrix").count(), 12)
        self.assertEqual(page.locator("#matrices details:has(summary:text-is('Open all: 6 more trials')) .matrix").count(), 6)
        self.assertEqual(page.locator("details").count(), 7)
        titles = page.locator("#matrices .sub").all_inner_texts()
        self.assertTrue(all("learning-rate 0.0" in title and "network " in title for title in titles), titles)
        page.set_viewport_size({"width": 1280, "height": 900})
        tops = {page.locator("#matrices .matrices h3").nth(at).bounding_box()["y"] for at in range(3)}
        self.assertEqual(len(tops), 1, "side by side")
        self.assertEqual(page.locator("svg[aria-label='results of 12 trials'] circle").count(), 12)
        self.assertGreaterEqual(page.get_by_text("has no weights").count(), 4)
        page.set_viewport_size({"width": 390, "height": 844})
        drawing = page.locator("div[aria-label='parallel coordinates'] > svg")
        self.assertGreaterEqual(drawing.bounding_box()["width"], 600, "a drawing scrolls and does not shrink")
        hint = "box => getComputedStyle(box, '::before').content"
        self.assertIn("scroll", page.locator("div[aria-label='parallel coordinates']").evaluate(hint))
        widest = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        self.assertLessEqual(widest, 0, "the page is not wider than its window")
        page.set_viewport_size({"width": 700, "height": 900})
        for box in page.locator(".wide:visible").all():
            self.assertLessEqual(box.evaluate("box => box.scrollWidth - box.clientWidth"), 0, "all of a drawing is in sight")
        self.assertEqual(page.locator("div[aria-label='parallel coordinates']").evaluate(hint), "none")


if __name__ == "__main__":
    unittest.main()
