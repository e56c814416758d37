#!/usr/bin/env python3
"""Studio's pages of runs that are not as usual: logs with objects where texts should be, a run without curves, and more
runs than a window shows."""

import json
import re
import unittest

import browser


class OddRuns(browser.Studio, unittest.TestCase):
    @classmethod
    def prepare(cls):
        browser.write_run(cls.root / "calm", [1.0, 0.5])
        for number in range(9):
            browser.write_run(cls.root / "many" / str(number), [1.0, 0.5])
        markup = [{"innerHTML": "<h6>x</h6>"}, {"tag": "iframe", "attrs": {}}, None]
        browser.write_run(cls.root / "objects", [1.0, 0.5], classes=markup,
                          lines=[markup, [["a", markup], markup, markup], markup])
        with open(cls.root / "objects/events/rank-0-attempt-0.jsonl", "a", encoding="utf-8") as log:
            for number, (kind, values) in enumerate([
                    ("message", {"text": markup[1]}), ("skipped", {"files": 5}), ("shards", {"owners": [0, markup[0]]}),
                    ("failed", {"error": markup[0], "hint": markup[1]})], 100):
                log.write(json.dumps({"kind": kind, "step": 2, "sequence": number, "values": values}) + "\n")
        (cls.root / "silent/events").mkdir(parents=True)
        (cls.root / "silent/events/rank-0-attempt-0.jsonl").touch()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ids = browser.Client(cls.server).run_ids()

    def test_objects_in_a_log_are_text(self):
        self.browser.show(self.server, "/run/" + self.ids["objects"], "section:has(h2:text-is('Plan'))")
        self.assertIn('{"innerHTML":"<h6>x</h6>"}', self.page.inner_text("section:has(h2:text-is('Plan'))"))
        self.assertIn('{"tag":"iframe"', self.page.inner_text("ul.messages"))
        self.assertEqual(self.page.locator("main h6, main iframe").count(), 0)
        self.browser.show(self.server, f"/compare/{self.ids['objects']},{self.ids['calm']}", "th.part")
        self.assertEqual(self.page.locator("main h6, main iframe").count(), 0)

    def test_a_run_without_curves_says_so(self):
        self.browser.show(self.server, "/run/" + self.ids["silent"], ".card.empty")
        self.assertIn("ogged", self.page.inner_text(".card.empty"))

    def test_runs_of_one_colour_have_other_dashes_also_in_the_table(self):
        ids = [self.ids[f"many/{number}"] for number in range(9)]
        self.browser.show(self.server, "/compare/" + ",".join(ids), "table.side th:nth-child(10)")
        swatches = [self.page.locator(f"thead th:nth-child({at}) .swatch").evaluate("one => one.outerHTML") for at in range(2, 11)]
        self.assertEqual(len(set(swatches)), 9)

    def test_a_long_list_fits_a_narrow_window_and_keeps_its_head(self):
        run = {"state": "ended", "network": "lenet", "data": "/data/photos", "accuracy": 0.5, "step": 1, "seconds": 1,
               "started": 1}
        answer = {"version": -1, "whole": True, "ready": True, "removed": [], "warnings": [],
                  "runs": [{**run, "id": str(number), "name": f"group/run-{number:03}"} for number in range(300)]}
        self.page.route(re.compile(r"/api/runs\?"), lambda route: route.fulfill(json=answer))
        self.browser.show(self.server, "/runs", "h1:text-is('Runs')")
        self.page.wait_for_selector("main p:text-is('300 runs')")
        try:
            for width in (390, 500, 1100):
                self.page.set_viewport_size({"width": width, "height": 700})
                self.page.evaluate("scrollTo(0, 3000)")
                name = self.page.locator("tbody bdi:text-is('group/run-060')")
                name.wait_for()
                beyond = "bdi => bdi.getBoundingClientRect().right - bdi.closest('td').getBoundingClientRect().right"
                self.assertLessEqual(name.evaluate(beyond), 0, width)
                self.assertAlmostEqual(self.page.locator("th.c-name").bounding_box()["y"],
                                       self.page.locator("header.top").bounding_box()["height"], delta=1)
        finally:
            self.page.unroute(re.compile(r"/api/runs\?"))
            self.page.set_viewport_size({"width": 1280, "height": 900})


if __name__ == "__main__":
    unittest.main(verbosity=2)
