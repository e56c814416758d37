#!/usr/bin/env python3
"""The table and the drawing of a sweep with many trials, in a real Chromium: pages, order and filter, and limits of
axes that only the keyboard moves."""

import json
import unittest

import browser
import runs

COUNT = 250


def write_sweep(folder, count):
    """A sweep that a program has left; the result of trial i is i / 1000, and each third one has another mode."""
    folder.mkdir(parents=True)
    (folder / "sweep.json").write_text(json.dumps({"command": ["sh", "{size}", "{mode}"], "parameters": {"size": "0..1000", "mode": "a,b,c"}}),
                                       encoding="utf-8")
    with open(folder / "log.jsonl", "w", encoding="utf-8") as log:
        for trial in range(count):
            log.write(json.dumps({"kind": "begin", "trial": trial, "parameters": [f"size={trial}", f"mode={'abc'[trial % 3]}"]}) + "\n")
            log.write(json.dumps({"kind": "outcome", "trial": trial, "state": "ended", "value": trial / 1000, "seconds": 1}) + "\n")


def write_places(folder):
    """A sweep that searches `place`; the second trial was stopped, and two have no result."""
    write_sweep(folder, 5)
    (folder / "sweep.json").write_text(json.dumps({"command": ["sh"], "parameters": {"place": "0..1000"}}), encoding="utf-8")
    results = [("ended", 0.5), ("stopped", 0.9), None, ("ended", 0.7), None]
    with open(folder / "log.jsonl", "w", encoding="utf-8") as log:
        for trial, result in enumerate(results):
            log.write(json.dumps({"kind": "begin", "trial": trial, "parameters": [f"place={100 + trial}"]}) + "\n")
            if result:
                log.write(json.dumps({"kind": "outcome", "trial": trial, "state": result[0], "value": result[1], "seconds": 1}) + "\n")


# Of a parameter with the name of a member of all objects.
CODES = ["1e-3", "0.001", "007", "7"]


class ListOfEqualNumbers(browser.Studio, unittest.TestCase):
    @classmethod
    def prepare(cls):
        folder = cls.root / "codes"
        write_sweep(folder, len(CODES))
        (folder / "sweep.json").write_text(json.dumps({"command": ["sh", "{toString}"], "parameters": {
            "toString": ",".join(CODES), "valueOf": "1..9:when=toString=7"}}), encoding="utf-8")
        with open(folder / "log.jsonl", "w", encoding="utf-8") as log:
            for trial, code in enumerate(CODES):
                log.write(json.dumps({"kind": "begin", "trial": trial, "parameters": [f"toString={code}", *(["valueOf=3"] if code == "7" else [])]}) + "\n")
                log.write(json.dumps({"kind": "outcome", "trial": trial, "state": "ended", "value": trial, "seconds": 1}) + "\n")

    def test_a_filter_tells_them_apart(self):
        self.browser.show(self.server, "/experiments", "tbody a")
        self.page.click("tbody a")
        self.page.wait_for_selector("table.trials tbody tr")
        for text, trials in (("toString=7", [3]), ("toString=007", [2]), ("toString=1e-3", [0]), ("toString!=0.001", [3, 2, 0]), ("toString=7.0", [3, 2]),
                             ("result<inf", [3, 2, 1, 0]), ("valueOf=", [2, 1, 0]), ("valueOf<4", [3])):
            shown = json.loads(runs.run("sweep", "show", self.root / "codes", "--json", "--filter", text))
            self.assertEqual(sorted(row["trial"] for row in shown), sorted(trials), text)
            self.page.fill("input[aria-label='Filter trials']", text)
            self.page.wait_for_function("trials => [...document.querySelectorAll('table.trials tbody td:nth-of-type(2)')]"
                                        ".map(one => parseInt(one.textContent)).join() === trials", arg=",".join(map(str, trials)))
        for text in ("toString=+7", "toString=0x7"):
            self.page.fill("input[aria-label='Filter trials']", text)
            self.page.wait_for_selector("#filter-mistake:has-text('of a trial is never')")


class ATrialsPlace(browser.Studio, unittest.TestCase):
    @classmethod
    def prepare(cls):
        write_places(cls.root / "places")

    def test_a_parameter_may_be_called_place_and_trials_without_a_result_are_last(self):
        self.browser.show(self.server, "/experiments", "tbody a")
        self.page.click("tbody a")
        self.page.wait_for_selector("table.trials tbody tr")

        def shown():
            return [(int(row.locator("td").nth(1).inner_text().split()[0]), row.locator("td").nth(6).inner_text())
                    for row in self.page.locator("table.trials tbody tr").all()]

        self.assertEqual(shown(), [(trial, str(100 + trial)) for trial in (3, 0, 1, 2, 4)])
        self.page.click("th button:has-text('result')")
        self.page.wait_for_selector("table.trials th[aria-sort=ascending]")
        self.assertEqual([trial for trial, _ in shown()[:3]], [1, 0, 3])
        self.assertEqual({trial for trial, _ in shown()[3:]}, {2, 4})
        self.assertEqual(self.page.locator(".tile").first.inner_text().split("\n"), ["result", "0.7000", "trial 3, the best"])
        # One that was stopped is drawn, and is not the best.
        self.assertEqual(self.page.locator("svg.history circle.dot").count(), 3)
        self.assertEqual(self.page.locator("svg.history circle.early").count(), 1)
        self.assertIn("Results of 3 trials, the best 0.7000;", self.page.get_attribute("svg.history", "aria-label"))
        self.page.fill("input[aria-label='Filter trials']", "place>102")
        self.page.wait_for_selector("table.trials tbody tr >> nth=2", state="detached")
        self.assertEqual({trial for trial, _ in shown()}, {3, 4})


def write_conditional(folder):
    """A sweep in which only trials with sgdm have a momentum."""
    write_sweep(folder, 2)
    (folder / "sweep.json").write_text(json.dumps({"command": ["sh"], "parameters": {
        "optimizer": "sgdm,adam", "momentum": "0.5..0.99:when=optimizer=sgdm"}}), encoding="utf-8")
    with open(folder / "log.jsonl", "w", encoding="utf-8") as log:
        for trial, values in enumerate((["optimizer=sgdm", "momentum=0.7"], ["optimizer=adam"])):
            log.write(json.dumps({"kind": "begin", "trial": trial, "parameters": values}) + "\n")
            log.write(json.dumps({"kind": "outcome", "trial": trial, "state": "ended", "value": trial, "seconds": 1}) + "\n")


class ConditionalParameter(browser.Studio, unittest.TestCase):
    @classmethod
    def prepare(cls):
        write_conditional(cls.root / "conditional")

    def test_a_line_without_a_value_passes_below_the_axis(self):
        self.browser.show(self.server, "/experiments", "tbody a")
        self.page.click("tbody a")
        self.page.wait_for_selector("path.trial", state="attached")
        points = [path.get_attribute("d").count("L") for path in self.page.locator("path.trial").all()]
        self.assertEqual(points, [2, 2], "each line has all three axes")
        self.assertEqual(self.page.locator(".parallel text:text-is('none')").count(), 1)
        self.assertEqual(self.page.locator("circle.none").count(), 1)
        # All axes are in the box, and fill it; all pages are in reach.
        for width in (1280, 700):
            self.page.set_viewport_size({"width": width, "height": 900})
            self.page.wait_for_function("""() => { const box = document.querySelector('.parallel'), svg = box.querySelector('svg');
              return svg.clientWidth <= box.clientWidth && svg.clientWidth > box.clientWidth - 10; }""")
            self.assertLessEqual(self.page.evaluate("(() => { const nav = document.querySelector('nav'); return nav.scrollWidth - nav.clientWidth; })()"), 0, width)
        self.assertEqual(self.browser.axe_findings(), [])


def write_results(folder, results):
    write_sweep(folder, 0)
    with open(folder / "log.jsonl", "w", encoding="utf-8") as log:
        for trial, result in enumerate(results):
            log.write(json.dumps({"kind": "begin", "trial": trial, "parameters": [f"size={trial}", "mode=a"]}) + "\n")
            log.write(json.dumps({"kind": "outcome", "trial": trial, "state": "ended", "value": result, "seconds": 1}) + "\n")


class OddSweeps(browser.Studio, unittest.TestCase):
    @classmethod
    def prepare(cls):
        write_results(cls.root / "near", [0.7, 0.7000000000000001])
        write_results(cls.root / "far", [1e308, -1e308, 1.7e308])
        write_results(cls.root / "diverged", [0.5, -3e30, 0.45, 0.6, 0.03125, 0.000012345, 0.00123456])
        write_results(cls.root / "large", [123450, 99999, 1e12])
        write_results(cls.root / "copy", [0.5])
        (cls.root / "copy/fetched.json").write_text(json.dumps({"sweep": "far:/there/search", "begun": 0}), encoding="utf-8")

    def open(self, name):
        self.browser.show(self.server, "/experiments", "tbody a")
        self.page.click(f"tbody a:has-text('{name}')")
        self.page.wait_for_selector("table.trials tbody tr")

    def test_results_that_are_as_near_or_as_far_as_numbers_can_be(self):
        for name, count in (("near", 2), ("far", 3)):
            self.open(name)
            dots = self.page.locator("svg.history circle.dot")
            self.assertEqual(dots.count(), count)
            heights = [float(dots.nth(number).get_attribute("cy")) for number in range(count)]
            self.assertTrue(all(0 <= one <= 236 for one in heights), heights)
            self.assertEqual(len(set(heights)), count)

    def test_a_result_far_beyond_the_others_leaves_them_room(self):
        self.open("diverged")
        self.page.wait_for_selector("p:has-text('Triangles: 1 trial beyond the axis.')")
        self.page.wait_for_selector("p:has-text('1 result beyond the end of the last axis')")
        self.assertEqual(self.page.locator("svg.history path.dot").count(), 1)
        heights = [float(dot.get_attribute("cy")) for dot in self.page.locator("svg.history circle.dot").all()]
        self.assertEqual(len(heights), 6)
        self.assertGreater(max(heights) - min(heights), 100)
        self.assertEqual(self.browser.axe_findings(), [])

    def test_results_are_written_as_the_program_writes_them(self):
        for name, count in (("diverged", 7), ("large", 3)):
            self.open(name)
            printed = runs.run("sweep", "show", self.root / name)
            texts = self.page.locator("table.trials tbody td:nth-of-type(4)").all_inner_texts()
            self.assertEqual(len(texts), count)
            for text in texts:
                self.assertIn(f" {text} ", printed)

    def test_a_copy_offers_only_what_it_can_do(self):
        self.open("copy")
        self.page.wait_for_selector("p:has-text('A copy of far:/there/search, which can be continued and changed only there')")
        names = self.page.locator(".tools button, td.act button").all_inner_texts()
        self.assertFalse({"Continue", "Restart", "Note"} & set(names), names)
        self.assertTrue({"Make report", "Hide"} <= set(names), names)
        self.assertEqual(self.browser.axe_findings(), [])


class ManyTrials(browser.Studio, unittest.TestCase):
    @classmethod
    def prepare(cls):
        write_sweep(cls.root / "many", COUNT)

    def setUp(self):
        self.browser.show(self.server, "/experiments", "tbody a")
        self.page.click("tbody a")
        self.page.wait_for_selector("table.trials tbody tr")

    def shown(self):
        return [int(text.split()[0]) for text in self.page.locator("table.trials tbody td:nth-of-type(2)").all_inner_texts()]

    def wait_for_page(self, text):
        self.page.wait_for_selector(f".pages >> nth=0 >> text='{text}'")

    def limit(self, name):
        found = self.page.locator(f"[role=slider][aria-label='{name}']")
        found.focus()
        return found

    def test_a_long_table_has_pages(self):
        self.wait_for_page(f"1 to 100 of {COUNT}")
        self.assertEqual(self.shown(), list(range(COUNT - 1, COUNT - 101, -1)), "the best first")
        self.assertEqual(self.page.locator("table.trials tbody td:nth-of-type(4)").first.inner_text(), "0.2490")
        following = self.page.locator(".pages").first.locator("button:text-is('Next')")
        following.focus()
        for text in (f"101 to 200 of {COUNT}", f"201 to {COUNT} of {COUNT}", f"201 to {COUNT} of {COUNT}"):
            self.page.keyboard.press("Enter")
            self.wait_for_page(text)
        self.assertEqual(self.shown(), list(range(49, -1, -1)))
        self.assertEqual(following.get_attribute("aria-disabled"), "true")
        self.assertEqual(self.page.evaluate("document.activeElement.textContent"), "Next", "the focus stays")
        self.assertEqual(self.browser.axe_findings(), [])
        # Another order begins at its first page, and a filter too.
        self.page.click("th button:has-text('Trial')")
        self.wait_for_page(f"1 to 100 of {COUNT}")
        self.assertEqual(self.shown(), list(range(100)))
        self.page.locator(".pages").last.locator("button:text-is('Next')").click()
        self.wait_for_page(f"101 to 200 of {COUNT}")
        self.page.fill("input[aria-label='Filter trials']", "size<120")
        self.wait_for_page("1 to 100 of 120")
        self.page.fill("input[aria-label='Filter trials']", "size<7")
        self.page.wait_for_selector(".pages", state="detached")
        self.assertEqual(self.shown(), list(range(7)))

    def test_a_filter_is_that_of_the_command_and_names_its_mistakes(self):
        box = self.page.locator("input[aria-label='Filter trials']")
        for text, trials in (("size>=247 mode!=b", [249, 248]), ("size<=1", [1, 0]), ("result=0.1230", [123]), ("'mode=b' size<5", [4, 1]), ("ended size<1", [0])):
            box.fill(text)
            self.page.wait_for_function("count => document.querySelectorAll('table.trials tbody tr').length === count", arg=len(trials))
            self.assertEqual(self.shown(), trials, text)
        for text, mistake in (("foo=3", 'There is no column "foo": the columns are trial, state'), ("mode=x", 'never "x": it is a, b, c'),
                              ("size>many", "compares with no number"), ("note='a b", "has no end")):
            box.fill(text)
            self.page.wait_for_selector(f"#filter-mistake:has-text('{mistake}')")
            self.wait_for_page(f"1 to 100 of {COUNT}")
            self.assertEqual(box.get_attribute("aria-invalid"), "true")
        self.assertEqual(self.browser.axe_findings(), [])
        box.fill("size<3")
        self.page.wait_for_selector("#filter-mistake:empty", state="attached")
        self.assertEqual(self.shown(), [2, 1, 0])

    def test_the_keyboard_chooses_parts_of_axes(self):
        upper = self.limit("Upper limit of mode")
        self.assertEqual(upper.get_attribute("aria-valuetext"), "c")
        self.page.keyboard.press("Control+ArrowDown")  # not a key of the limit
        self.page.keyboard.press("ArrowDown")
        self.page.wait_for_selector("[role=status]:text-is('167 of 250 lines')")
        self.assertEqual(upper.get_attribute("aria-valuetext"), "b")
        lower = self.limit("Lower limit of mode")
        for _ in range(5):  # it does not cross the other one
            self.page.keyboard.press("ArrowUp")
        value = upper.get_attribute("aria-valuenow")
        self.page.wait_for_selector(f"[aria-label='Lower limit of mode'][aria-valuenow='{value}']", state="attached")
        self.page.keyboard.press("ArrowDown")
        self.page.wait_for_selector("[role=status]:text-is('83 of 250 lines')")
        self.assertTrue(all(trial % 3 == 1 for trial in self.shown()))
        self.assertEqual(self.browser.axe_findings(), [])
        self.limit("Upper limit of size")
        self.page.keyboard.press("PageDown")
        self.page.keyboard.press("Escape")
        self.page.wait_for_selector("[role=status]:text-is('83 of 250 lines')")
        self.limit("Lower limit of mode")
        self.page.keyboard.press("Escape")
        self.page.wait_for_selector("button:text-is('Show all lines')", state="detached")
        self.wait_for_page(f"1 to 100 of {COUNT}")

    def test_charts_are_above_a_table_that_scrolls(self):
        """Both are in reach: the charts without scrolling, and the table in a box with its head in sight."""
        def top(selector):
            return self.page.locator(selector).first.bounding_box()["y"]

        self.page.wait_for_selector("svg.history circle.dot")
        self.assertEqual(self.page.locator("svg.history circle.dot").count(), COUNT)
        self.assertIn("the best 0.2490", self.page.get_attribute("svg.history", "aria-label"))
        self.assertEqual(self.page.locator("table.importance tr").count(), 2)
        self.assertRegex(self.page.locator("table.importance td.number").first.inner_text(), r"^\d+\.\d %$")
        self.assertEqual(self.page.locator("p:has-text('of all 250 trials that were trained in full')").count(), 1)
        self.assertLess(top("svg.history"), 600)
        self.assertLess(top("svg.history"), top(".parallel"))
        self.assertLess(top(".parallel"), top("table.trials"))
        box = self.page.locator("[role=region][aria-label=Trials]")
        self.assertLess(box.bounding_box()["height"], 900)
        box.focus()
        self.page.keyboard.press("End")
        self.page.wait_for_function("() => document.querySelector('.trials-box').scrollTop > 1000")
        self.assertAlmostEqual(top("table.trials thead th"), box.bounding_box()["y"], delta=3)
        self.assertEqual(self.browser.axe_findings(), [])
        self.page.locator(".pages").first.locator("button:text-is('Next')").click()
        self.page.wait_for_function("() => document.querySelector('.trials-box').scrollTop === 0")
        # Another order is seen from its beginning.
        self.page.evaluate("document.querySelector('.trials-box').scrollTop = 1000")
        self.page.click("th button:has-text('Trial')")
        self.page.wait_for_function("() => document.querySelector('.trials-box').scrollTop === 0")
        # A filter counts for the charts, too.
        self.page.fill("input[aria-label='Filter trials']", "size<7")
        self.page.wait_for_function("() => document.querySelectorAll('svg.history circle.dot').length === 7")
        self.page.fill("input[aria-label='Filter trials']", "size>2000")
        self.page.wait_for_selector("text='No trial that is shown has a result'")
        self.page.wait_for_selector("text='No trial fits the states and the filter above'")
        self.page.focus("details.charts summary")
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector(".parallel", state="hidden")
        self.assertLess(top("table.trials"), 600)
        self.assertEqual(self.browser.axe_findings(), [])

    def test_at_most_twenty_trials_can_be_picked(self):
        for trial in range(COUNT - 1, COUNT - 21, -1):
            self.page.check(f"input[aria-label='Pick trial {trial}']")
        other = f"input[aria-label='Pick trial {COUNT - 21}']"
        self.page.wait_for_selector(other + ":disabled")
        self.assertEqual(self.page.get_attribute(other, "title"), "At most 20 trials can be picked")
        self.page.uncheck(f"input[aria-label='Pick trial {COUNT - 1}']")
        self.page.wait_for_selector(other + ":enabled")


if __name__ == "__main__":
    unittest.main(verbosity=2)
