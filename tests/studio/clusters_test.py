#!/usr/bin/env python3
"""Profiles and clusters in a real Chromium: a profile is made, changed, validated, exported, imported, made the default
and removed by commands that the page shows; a cluster's price is seen before it is asked for."""

import json
import os
import socket
import subprocess
import unittest

import browser
import runs


class Clusters(browser.Studio, unittest.TestCase):
    @classmethod
    def prepare(cls):
        os.environ["LOCKSTEP_JOBS"] = str(cls.folder / "jobs")
        os.environ["XDG_CONFIG_HOME"] = str(cls.folder / "config")
        os.environ["XDG_STATE_HOME"] = str(cls.folder / "state")
        cls.profiles = cls.folder / "config/lockstep/clusters"

    def setUp(self):
        self.browser.show(self.server, "/clusters", "tbody tr")

    def press(self, label):
        self.page.click(f"button[aria-label='{label}']")

    def test_a_profile_from_its_form_to_its_removal(self):
        self.page.click("button:text-is('New profile…')")
        self.page.fill("#form-word", "gpus")
        self.page.fill("#form-nodes", "many")
        self.page.wait_for_selector("dialog .problem:has-text('nodes')")
        self.browser.complaints.clear()  # a number was refused
        self.page.fill("#form-nodes", "4")
        self.page.fill("#form-login", "me@<b>here</b>")
        self.page.wait_for_selector("dialog .command:has-text('nodes=4')")
        self.assertEqual(self.browser.axe_findings(), [])
        self.assertEqual(self.answer_question("Save"),
                         ["lockstep", "cluster", "create", "gpus", "--login=me@<b>here</b>", "--nodes=4"])
        self.page.wait_for_selector("pre.output:has-text('\"login\" of a profile cannot be \"me@<b>here</b>\"')")
        self.page.click("button:text-is('New profile…')")
        self.page.fill("#form-word", "gpus")
        self.page.fill("#form-nodes", "4")
        self.page.wait_for_selector("dialog .command:has-text('nodes=4')")
        self.answer_question("Save")
        self.press("Edit gpus")
        self.check_changes()

    def check_changes(self):
        self.assertEqual(self.page.input_value("#form-nodes"), "4")
        self.page.fill("#form-gpus", "2")
        self.page.wait_for_selector("dialog .command:has-text('gpus=2')")
        self.answer_question("Save")
        self.page.wait_for_selector("td:has-text('4 nodes, 2 GPUs each')")
        self.assertEqual(json.loads((self.profiles / "gpus.json").read_text())["gpus"], 2)
        exported = self.page.evaluate("() => fetch('/api/profile-file?name=gpus').then(answer => answer.text())")
        (self.folder / "copied.json").write_text(exported, encoding="utf-8")
        self.press("Use gpus")
        self.assertEqual(self.answer_question("Make default"), ["lockstep", "cluster", "default", "gpus"])
        self.page.wait_for_selector("tr:has-text('gpus') >> text=the default")
        self.page.click("button:text-is('Import…')")
        self.page.fill("#form-word", str(self.folder / "copied.json"))
        self.page.wait_for_selector("dialog .command:has-text('copied.json')")
        self.answer_question("Import")
        self.page.wait_for_selector("tr:has-text('copied')")
        self.assertEqual(json.loads((self.profiles / "copied.json").read_text()), json.loads(exported))
        self.press("Remove copied")
        self.assertEqual(self.answer_question("Remove"), ["lockstep", "cluster", "remove", "copied"])
        self.page.wait_for_selector("tr:has-text('copied')", state="detached")
        self.press("Use local")
        self.answer_question("Make default")
        self.page.wait_for_selector("tr:has-text('local') >> text=the default")

    def test_a_profile_that_cannot_be_read_is_there_with_the_reason(self):
        self.profiles.mkdir(parents=True, exist_ok=True)
        (self.profiles / "torn.json").write_text("{")
        self.page.wait_for_selector("tr:has-text('torn') >> text=cannot read the profile")
        self.assertEqual(self.browser.axe_findings(), [])
        self.press("Remove torn")
        self.assertEqual(self.answer_question("Remove"), ["lockstep", "cluster", "remove", "torn"])
        self.page.wait_for_selector("tr:has-text('torn')", state="detached")

    def test_a_profile_of_this_machine_stays_one(self):
        self.page.click("button:text-is('New profile…')")
        self.assertEqual(self.page.input_value("#form-scheduler") or self.page.get_attribute("#form-scheduler", "placeholder"), "slurm")
        self.page.fill("#form-word", "here")
        self.page.fill("#form-scheduler", "local")
        self.page.wait_for_selector("dialog .command:has-text('scheduler=local')")
        self.assertEqual(self.answer_question("Save"), ["lockstep", "cluster", "create", "here", "--scheduler=local"])
        self.page.wait_for_selector("tr:has-text('here.json') >> text=this machine")
        self.press("Edit here")
        self.page.fill("#form-workers", "3")
        self.page.wait_for_selector("dialog .command:has-text('workers=3')")
        self.assertEqual(self.answer_question("Save"), ["lockstep", "cluster", "create", "here", "--scheduler=local", "--workers=3"])
        runs.wait_for(lambda: json.loads((self.profiles / "here.json").read_text())["workers"] == 3)
        self.assertEqual(json.loads((self.profiles / "here.json").read_text())["scheduler"], "local")
        runs.run("cluster", "remove", "here")

    def test_stages_are_shown_as_they_pass(self):
        self.press("Validate local")
        self.assertEqual(self.answer_question("Validate"), ["lockstep", "cluster", "validate", "local"])
        self.page.wait_for_selector("ol.stages li:has-text('Running')")
        self.page.wait_for_selector("ol.stages li:has-text('Passed')")
        self.page.wait_for_selector("section.card:has-text('the profile local works')", timeout=90_000)
        self.assertEqual(self.page.locator("ol.stages li:not(:has-text('Passed'))").count(), 0)
        self.assertEqual(self.browser.axe_findings(), [])

    def test_open_pools_with_their_workers_and_their_end(self):
        self.assertIn("No program of yours", self.page.inner_text("main"))
        client = subprocess.Popen([os.environ["LOCKSTEP_POOL_CLIENT"]], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            self.page.wait_for_selector("section.pool:has-text('3 processes of the profile local')", timeout=60_000)
            [pool] = json.loads(runs.run("pools", "--json"))
            self.assertEqual(pool["process"], client.pid)
            rows = self.page.locator("section.pool tbody tr").all()
            self.assertEqual(len(rows), 3)
            for row, worker in zip(rows, pool["workers"]):
                cells = row.locator("td").all_inner_texts()
                self.assertEqual([cells[0], *cells[2:5]], [str(worker["index"]), socket.gethostname(), str(worker["process"]),
                                                           worker["cores"]])
            self.page.wait_for_selector("section.pool tbody td:has-text('Busy')")
            self.assertEqual(self.browser.axe_findings(), [])
            self.press(f"Close pool {pool['id']}")
            self.assertEqual(self.answer_question("Close the pool"), ["lockstep", "pool", "close", pool["id"]])
            self.page.wait_for_selector("section.pool", state="detached", timeout=60_000)
            self.assertEqual(json.loads(runs.run("pools", "--json")), [])
            said = client.communicate(timeout=60)[1]  # its call failed, which ends this program
            self.assertIn("the pool is closed, as lockstep pool close asked for", said)
        finally:
            client.kill()
            client.communicate()

    def test_discovery_says_what_is_there(self):
        self.page.click("button:text-is('Discover…')")
        self.assertEqual(self.answer_question("Discover"), ["lockstep", "cluster", "discover"])
        self.page.wait_for_selector("pre.output:has-text('this machine, ')")

    def test_machines_of_a_profile(self):
        self.page.click("tr td a:has-text('local')")
        self.page.wait_for_selector("section:has(h2:text-is('Machines')) tbody tr")
        self.assertEqual(self.browser.axe_findings(), [])

    def test_the_price_is_seen_before_a_cluster_is_made(self):
        self.page.click("button:text-is('New cluster…')")
        self.page.fill("#form-word", "big")
        self.page.fill("#form-type", "p5.48xlarge")
        self.page.fill("#form-workers", "16")
        self.page.wait_for_selector("dialog .price:has-text('2 x p5.48xlarge')")
        self.page.wait_for_selector("dialog .command:has-text('workers=16')")
        self.assertEqual(self.page.inner_text("dialog .command code"), "lockstep cloud create big --type=p5.48xlarge --workers=16 --yes")
        plan = json.loads(runs.run("cloud", "plan", "aws", "--type", "p5.48xlarge", "--workers", "16", "--json"))
        self.assertIn(f"${plan['dollars_per_hour']:.2f} an hour", self.page.inner_text("dialog .price"))
        self.assertEqual(self.browser.axe_findings(), [])
        self.page.click("dialog button:text-is('Cancel')")

    def test_the_price_is_that_of_all_machines_that_are_made(self):
        """Without a number of workers a plan is of one machine, and a cluster has eight workers."""
        self.page.click("button:text-is('New cluster…')")
        self.page.fill("#form-word", "small")
        self.page.fill("#form-type", "g5.xlarge")
        self.page.wait_for_selector("dialog .price:has-text('8 x g5.xlarge')")
        self.page.wait_for_selector("dialog .command:has-text('g5.xlarge')")
        self.assertEqual(self.page.inner_text("dialog .command code"), "lockstep cloud create small --type=g5.xlarge --yes")
        self.page.click("dialog button:text-is('Cancel')")

    def test_clusters_of_the_cloud_and_what_can_be_done_with_them(self):
        mine = {"name": "mine", "region": "us-east-1", "known": True, "phase": "running", "stack": "CREATE_COMPLETE", "state": "stopped",
                "type": "g5.12xlarge", "machines": [{"id": "i-1", "type": "m5.large", "state": "stopped", "head": True}], "most_dollars": 3}
        other = {**mine, "name": "other", "region": "eu-west-1", "known": False, "state": "create_complete", "most_dollars": 0}
        asked = []

        def answer(route):
            asked.append(route.request.url)
            route.fulfill(status=200, content_type="application/json", body=json.dumps([mine, other]))
        self.page.route("**/api/clouds", answer)
        self.page.click("button:text-is('Ask AWS')")
        rows = self.page.locator("section:has(h2:text-is('In the cloud')) tbody tr")
        rows.nth(1).wait_for()
        self.assertEqual(rows.nth(0).locator("td").nth(3).inner_text(), "stopped")
        self.assertEqual([row.locator("td.act button").all_inner_texts() for row in rows.all()],
                         [["Resize", "Start", "Stop", "Remove"], ["Remove"]])
        self.press("Start mine")  # fails: nothing of AWS is installed here, or no cluster has the name
        self.assertEqual(self.answer_question("Start"), ["lockstep", "cloud", "start", "mine"])
        runs.wait_for(lambda: self.page.wait_for_timeout(100) or len(asked) == 2)
        self.press("Remove other")
        self.page.wait_for_selector("dialog .command")
        self.assertEqual(self.page.inner_text("dialog .command code"), "lockstep cloud remove other --region=eu-west-1 --yes")
        self.page.click("dialog button:text-is('Cancel')")
        self.page.unroute("**/api/clouds")

    def test_pages_are_readable_narrow_and_dark(self):
        try:
            for scheme, width in browser.LOOKS:
                type(self).page = self.browser.open(self.server, width=width, scheme=scheme)
                for path, selector in (("/clusters", "tbody tr"), ("/cluster/local", "tbody tr")):
                    self.browser.show(self.server, path, selector)
                    self.assertEqual(self.browser.axe_findings(), [], f"{path}, {width} pixels, {scheme}")
                    self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"), 0, path)
        finally:
            type(self).page = self.browser.open(self.server)

    def test_only_names_reach_the_command_line(self):
        for body in ({"command": "cluster create", "word": "--help"}, {"command": "cluster create", "word": ""},
                     {"command": "cluster create", "word": "x", "options": {"json": "true"}},
                     {"command": "cloud create", "word": "x", "options": {"yes": "true"}}, {"command": "cloud setup"},
                     {"command": "cluster show", "word": "local"}):
            status = self.page.evaluate("""body => fetch('/api/shown', {method: 'POST', headers: {'Content-Type': 'application/json'},
              body: JSON.stringify(body)}).then(answer => answer.status)""", body)
            self.assertEqual(status, 400, body)
        for name in ("--help", "", "-x"):
            status = self.page.evaluate("name => fetch('/api/profile?name=' + name).then(answer => answer.status)", name)
            self.assertEqual(status, 400, name)
        self.browser.complaints.clear()


if __name__ == "__main__":
    unittest.main(verbosity=2)
