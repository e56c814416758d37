#!/usr/bin/env python3
"""The queue in a real Chromium: jobs with their diaries live, cancelled and started again from the page."""

import json
import os
import pathlib
import tempfile
import unittest

import browser
import runs


class Jobs(browser.Studio, unittest.TestCase):
    @classmethod
    def prepare(cls):
        os.environ["LOCKSTEP_JOBS"] = str(cls.folder / "jobs")
        os.environ["XDG_CONFIG_HOME"] = str(cls.folder / "config")
        programs = pathlib.Path(tempfile.mkdtemp(dir=cls.folder))
        (programs / "ssh").write_text('#!/bin/sh\n[ -e "$0.off" ] && { echo "far is off" >&2; exit 255; }\n'
                                      'for line; do :; done\nexec sh -c "$line"\n')
        (programs / "ssh").chmod(0o755)
        os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
        cls.far_is_off = programs / "ssh.off"

    @classmethod
    def tearDownClass(cls):
        runs.run("job", "cancel", "1", "2")
        super().tearDownClass()

    def test_a_job_is_followed_cancelled_and_started_again(self):
        self.browser.show(self.server, "/jobs", "text=No jobs")
        self.assertEqual(self.browser.axe_findings(), [])
        hostile = "<script>alert(1)</script>"
        runs.run("batch", "--name", "ticks", "sh", "-c", f"echo '{hostile}'; sleep 600")
        runs.run("batch", "--name", "quick", "sh", "-c", "echo done")
        self.page.wait_for_selector("tbody tr:nth-child(2)")
        self.page.wait_for_selector("tr:has-text('ticks') >> text=Running")
        self.page.wait_for_selector("tr:has-text('quick') >> text=Ended")
        self.assertEqual(self.browser.axe_findings(), [])
        self.page.click("tr:has-text('ticks') a")
        self.page.wait_for_selector(f"pre.diary:has-text('{hostile}')")
        self.check_an_error_beside_the_diary(hostile)
        self.assertEqual(self.browser.axe_findings(), [])
        self.page.click("button:text-is('Cancel')")
        self.assertEqual(self.page.inner_text("dialog .command code"), "lockstep job cancel 1")
        self.page.click("dialog button:text-is('Cancel the job')")
        self.page.wait_for_selector("p >> text=Cancelled", timeout=40_000)
        self.page.click("button:text-is('Requeue')")
        self.page.click("dialog button:text-is('Requeue')")
        self.page.wait_for_selector("p >> text=Running", timeout=40_000)
        self.page.click("button:text-is('Fetch…')")
        self.page.fill("#form-word", str(self.folder / "fetched"))
        self.page.wait_for_selector("dialog .command:has-text('fetched')")
        self.page.click("dialog button:text-is('Fetch')")
        runs.wait_for(lambda: any((self.folder / "fetched").glob("*")), 40)
        self.assertEqual(self.browser.complaints, [])

    def check_an_error_beside_the_diary(self, text):
        """What was read before stays."""
        self.page.route("**/api/diary*", lambda route: route.fulfill(status=504, content_type="application/json",
                                                                     body='{"error": "the diary is away"}'))
        self.page.wait_for_selector(".problem:has-text('the diary is away')")
        self.assertIn(text, self.page.inner_text("pre.diary"))
        self.page.unroute("**/api/diary*")
        self.page.wait_for_selector(".problem", state="detached")
        self.browser.complaints.clear()

    def test_of_a_long_diary_the_end_is_shown(self):
        job = runs.run("batch", "--name", "loud", "sh", "-c", "yes 0123456789 | head -n 2000000; echo the last line").split()[1]
        self.browser.show(self.server, f"/job/{job}", "pre.diary:has-text('the last line')")

    def test_an_answer_that_is_no_json_is_said(self):
        self.page.route("**/api/jobs", lambda route: route.fulfill(status=200, content_type="application/json", body="[{"))
        self.browser.show(self.server, "/jobs", ".problem:has-text('not JSON')")
        self.page.unroute("**/api/jobs")
        self.page.wait_for_selector(".problem", state="detached")

    def test_jobs_behind_a_login_node(self):
        profiles = self.folder / "config/lockstep/clusters"
        profiles.mkdir(parents=True)
        (profiles / "far.json").write_text(json.dumps({
            "scheduler": "local", "login": "me@far", "program": str(runs.PROGRAM), "job-folder": str(self.folder / "far-jobs")}))
        self.assertEqual(runs.run("batch", "--profile", "far", "--name", "away", "sh", "-c", "echo far; sleep 600").strip(), "job far:1")
        self.browser.show(self.server, "/jobs", "tr:has-text('away') >> text=Running")
        self.page.click("tr:has-text('away') a")
        self.page.wait_for_selector("pre.diary:has-text('far')")
        self.page.click("button:text-is('Cancel')")
        self.assertEqual(self.page.inner_text("dialog .command code"), "lockstep job cancel far:1")
        self.page.click("dialog button:text-is('Cancel the job')")
        self.page.wait_for_selector("p >> text=Cancelled", timeout=60_000)
        self.far_is_off.touch()
        self.browser.show(self.server, "/jobs", ".problem:has-text('the jobs of far are not shown: far is off')")
        (profiles / "far.json").unlink()
        self.browser.complaints.clear()

    def test_only_numbers_of_jobs_reach_the_command_line(self):
        for job in ("--help", "1;2", "../1", "", "ticks", ":1", "a/b:1", "-o:1", "far:", "far:1:2"):
            status = self.page.evaluate("job => fetch('/api/job?job=' + encodeURIComponent(job)).then(answer => answer.status)", job)
            self.assertEqual(status, 400, job)
        self.browser.complaints.clear()


if __name__ == "__main__":
    unittest.main(verbosity=2)
