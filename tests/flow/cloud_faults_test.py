#!/usr/bin/env python3
"""What goes wrong while a cluster in the cloud is made, stopped, started or removed, against moto's server.

usage: cloud_faults_test.py
"""

import fcntl
import json
import shutil
import signal
import subprocess
import unittest

import aws_services
import cloud_test
import runs
from cloud_test import Cloud

CHANGED_STACK = """<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>c1</StackName>
<StackId>arn:aws:cloudformation:us-east-1:123456789012:stack/c1/0</StackId><CreationTime>2026-01-01T00:00:00Z</CreationTime>
<StackStatus>{state}</StackStatus><Tags><member><Key>lockstep-cluster</Key><Value>c1</Value></member>
<member><Key>lockstep-workers</Key><Value>16</Value></member></Tags></member></Stacks></DescribeStacksResult>
</DescribeStacksResponse>"""


class CloudFaults(Cloud):
    """With the helpers of Cloud, without its tests."""

    def listed(self):
        one, = json.loads(self.check(self.account.run("list", "--json")).stdout)
        return one

    def head_state(self):
        state, = [machine["state"] for machine in self.listed()["machines"] if machine["head"]]
        return state

    def test_a_stop_turns_the_machines_off_although_parallel_cluster_refuses(self):
        account = self.account
        self.check(account.run(*account.create_words("c1")))
        done = self.check(account.run("stop", "c1", environment={"FAKE_PCLUSTER_ERROR": "busy"}))
        self.assertIn("warning: ParallelCluster refused update-compute-fleet: busy; the machines are turned off", done.stderr)
        self.assertIn("its disks go on costing", done.stdout)
        self.assertEqual((self.listed()["phase"], self.head_state()), ("stopped", "stopped"))

    def test_the_state_is_that_of_the_machines(self):
        """Whoever has stopped them: a watchdog, or a user of AWS's console."""
        account = self.account
        self.check(account.run(*account.create_words("c1")))
        self.assertEqual(self.listed()["state"], "running")
        head, = [machine["id"] for machine in self.listed()["machines"] if machine["head"]]
        account.boto(f"ec2.stop_instances(InstanceIds=['{head}'])")
        listed = self.listed()
        self.assertEqual((listed["phase"], listed["stack"], listed["state"]), ("running", "CREATE_COMPLETE", "stopped"))
        self.assertRegex(self.check(account.run("list")).stdout, r"c1 .* stopped +head stopped")
        self.check(account.run("stop", "c1"))
        account.boto(f"ec2.start_instances(InstanceIds=['{head}'])")
        self.assertEqual(self.listed()["state"], "running")

    def test_a_start_that_is_refused_half_way_is_known_to_run(self):
        account = self.account
        self.check(account.run(*account.create_words("c1")))
        self.check(account.run("stop", "c1"))
        profile = account.folder / "config/lockstep/clusters/c1.json"
        profile.unlink()
        self.assertIn("ParallelCluster refused update-compute-fleet: busy",
                      self.error_of(account.run("start", "c1", environment={"FAKE_PCLUSTER_ERROR": "busy"})))
        self.assertEqual((self.listed()["phase"], self.head_state()), ("running", "running"))
        self.assertTrue(profile.exists())
        self.check(account.run("start", "c1"))

    def test_prices_of_a_file_are_found_from_another_folder(self):
        """And where they are gone, nothing is switched on."""
        account = self.account
        prices = account.folder / "prices.csv"
        prices.write_text((runs.ROOT / "data/aws-prices.csv").read_text())
        self.check(account.run(*account.create_words("c1", "--prices", "prices.csv")))
        record = json.loads((account.folder / "state/lockstep/cloud/c1/cluster.json").read_text())
        self.assertEqual(record["request"]["prices"], str(prices))
        self.check(account.run("stop", "c1"))
        prices.rename(account.folder / "moved.csv")
        self.assertIn("prices.csv", self.error_of(account.run("start", "c1")))
        self.assertEqual((self.listed()["phase"], self.head_state()), ("stopped", "stopped"))

    def test_a_stack_that_is_there_is_no_place_for_another_cluster(self):
        """And its maker alone removes it."""
        account = self.account
        self.check(account.run(*account.create_words("c1")))
        elsewhere = account.folder / "elsewhere"
        other = {"XDG_STATE_HOME": str(elsewhere)}
        error = self.error_of(account.run(*account.create_words("c1"), environment=other))
        self.assertIn('AWS has a stack "c1" in us-east-1 already (CREATE_COMPLETE)', error)
        self.assertIn("hint: choose another name; lockstep cloud list --region us-east-1", error)
        self.assertFalse((elsewhere / "lockstep/cloud/c1/cluster.json").exists())
        # As a program left it that did not ask.
        shutil.copytree(account.folder / "state/lockstep/cloud/c1", elsewhere / "lockstep/cloud/c1", dirs_exist_ok=True)
        file = elsewhere / "lockstep/cloud/c1/cluster.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "id": "0123456789abcdef"}))
        for words in (("remove", "c1", "--yes"), ("wait", "c1")):
            self.assertIn('the stack "c1" is of another cluster', self.error_of(account.run(*words, environment=other)))
        self.assertEqual(self.listed()["phase"], "running")
        self.assertIn("c1", account.left("c1"))
        self.check(account.run("remove", "c1", "--yes"))
        self.assertEqual(account.left("c1"), [])

    def test_two_commands_that_make_or_remove_one_cluster(self):
        """The second is refused before anything is made."""
        account = self.account
        lock = account.folder / "state/lockstep/cloud/c1.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("w") as held:
            fcntl.lockf(held, fcntl.LOCK_EX)  # as a command that goes on
            for words in (account.create_words("c1"), ("remove", "c1", "--yes", "--region", account.region)):
                self.assertIn('another command makes, changes or removes the cluster "c1"', self.error_of(account.run(*words)))
        self.assertFalse(account.log.exists())
        self.assertEqual(account.left("c1"), [])
        self.check(account.run(*account.create_words("c1")))

    def test_two_commands_that_change_one_cluster(self):
        """The second is refused before it asks AWS for anything or writes."""
        account = self.account
        self.check(account.run(*account.create_words("c1")))
        file = account.folder / "state/lockstep/cloud/c1/cluster.json"
        before = file.read_text(), account.log.read_text()
        with (account.folder / "state/lockstep/cloud/c1.lock").open("w") as held:
            fcntl.lockf(held, fcntl.LOCK_EX)  # as a command that goes on
            for words in (("start", "c1"), ("stop", "c1"), ("resize", "c1", "--workers", "16", "--yes")):
                self.assertIn('another command makes, changes or removes the cluster "c1"',
                              self.error_of(account.run(*words)))
            self.assertEqual((file.read_text(), account.log.read_text()), before)
            self.assertEqual(self.head_state(), "running")

    def test_a_wait_judges_a_resize_by_what_aws_says_after_it(self):
        """Another command begins the resize, and ends, after `wait` has asked AWS, which saw nothing to wait for."""
        account = self.account
        self.check(account.run(*account.create_words("c1")))
        file = account.folder / "state/lockstep/cloud/c1/cluster.json"
        before = file.read_text()

        def aws_says(state):
            self.relay.recorded = {
                "DescribeStacks": (200, "text/xml", CHANGED_STACK.format(state=state)),
                "DescribeStackEvents": (200, "text/xml", cloud_test.events(("Compute", "AWS::EC2::Instance", "none left")))}

        for state, end, status in (("UPDATE_COMPLETE", 16, 0), ("UPDATE_ROLLBACK_COMPLETE", 8, 1)):
            file.write_text(before)
            self.relay.recorded = {}
            with (account.folder / "state/lockstep/cloud/c1.lock").open("w") as held:
                fcntl.lockf(held, fcntl.LOCK_EX)
                waiting = self.enterContext(account.start("wait", "c1", stderr=subprocess.PIPE))
                self.addCleanup(waiting.kill)
                self.said_by(waiting, "waiting for another command on the cluster")
                self.assertIsNone(waiting.poll())
                self.assertEqual(file.read_text(), before)
                file.write_text(json.dumps({**json.loads(before), "resize": {"workers": 16, "dollars_per_hour": 22.5}}))
                aws_says("UPDATE_IN_PROGRESS")
            self.said_by(waiting, "update_in_progress")
            self.assertEqual(json.loads(file.read_text())["resize"]["workers"], 16)
            aws_says(state)
            self.assertEqual(waiting.wait(timeout=120), status)
            record = json.loads(file.read_text())
            self.assertEqual((record["resize"]["workers"], record["request"]["workers"]), (0, end))

    def said_by(self, process, beginning):
        """Waits for a line of a command."""
        lines = []
        while not (lines and lines[-1].startswith(beginning)):
            lines.append(process.stderr.readline())
            self.assertTrue(lines[-1], lines)

    def test_a_cluster_is_stopped_and_removed_although_its_lock_cannot_be_taken(self):
        account = self.account
        self.check(account.run(*account.create_words("c1")))
        lock, = account.folder.glob("**/c1.lock")
        lock.unlink()
        lock.mkdir()
        self.assertIn("the machines are turned off all the same", self.check(account.run("stop", "c1")).stderr)
        self.assertEqual((self.listed()["phase"], self.head_state()), ("stopped", "stopped"))
        done = self.check(account.run("remove", "c1", "--yes"))
        self.assertIn("the cluster is removed all the same", done.stderr)
        self.assertIn("nothing with the tag lockstep-cluster=c1", done.stdout)

    def test_ctrl_c_while_files_are_copied_makes_no_cluster(self):
        account = self.account
        process = subprocess.Popen([runs.PROGRAM, "cloud", *account.create_words("c1")], cwd=account.folder, text=True,
                                   env=account.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        runs.wait_for((account.folder / "state/lockstep/cloud/c1/cluster.json").exists)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 128 + signal.SIGINT, said)
        self.assertIn("stopped before the cluster was made; lockstep cloud remove c1 removes its bucket", said)
        self.assertFalse(account.log.exists())  # ParallelCluster was not called
        self.check(account.run("remove", "c1", "--yes"))
        self.assertEqual(account.left("c1"), [])

    def rates(self):
        """(dollars an hour, whether the spell goes on) of each spell."""
        record = json.loads((self.account.folder / "state/lockstep/cloud/c1/cluster.json").read_text())
        return [(spell["dollars_per_hour"], spell["to"] == 0) for spell in record["spells"]]

    def test_each_time_costs_what_the_machines_of_it_cost(self):
        account = self.account
        self.check(account.run(*account.create_words("c1")))
        (small, _), = self.rates()
        self.check(account.run("resize", "c1", "--workers", "16", "--yes"))
        first, *_, (large, is_open) = self.rates()
        self.assertEqual((first, is_open), ((small, False), True))
        self.assertGreater(large, 1.9 * small)

    def test_a_resize_that_was_interrupted_is_known(self):
        """And ends as AWS says."""
        account = self.account
        self.check(account.run(*account.create_words("c1")))
        (small, _), = self.rates()
        with account.start("resize", "c1", "--workers", "16", "--yes",
                           environment={"FAKE_PCLUSTER_SECONDS": "600"}) as process:
            runs.wait_for(lambda: "update-cluster" in account.log.read_text())
            process.kill()
        self.assertEqual(self.listed()["state"], "running, resize to 16 workers begun")
        self.assertGreater(self.rates()[-1][0], 1.9 * small)
        self.assertIn("lockstep cloud wait c1", self.error_of(account.run("resize", "c1", "--workers", "4", "--yes")))
        # AWS had not heard of it.
        self.check(account.run("wait", "c1"))
        self.assertEqual((self.listed()["state"], self.rates()[-1]), ("running", (small, True)))
        # As a program leaves it that was killed while it waited for AWS.
        file = account.folder / "state/lockstep/cloud/c1/cluster.json"
        before = file.read_text()
        self.check(account.run("resize", "c1", "--workers", "16", "--yes"))
        large = self.rates()[-1][0]
        file.write_text(json.dumps({**json.loads(before), "resize": {"workers": 16, "dollars_per_hour": large}}))
        self.check(account.run("wait", "c1"))
        self.assertEqual((self.listed()["state"], self.rates()[-1]), ("running", (large, True)))
        self.assertIn("4 x g5.12xlarge", self.check(account.run("list")).stdout)

    def test_a_resize_that_is_refused_changes_nothing(self):
        account = self.account
        self.check(account.run(*account.create_words("c1")))
        (small, _), = self.rates()
        self.assertIn("refused update-cluster: busy", self.error_of(account.run(
            "resize", "c1", "--workers", "16", "--yes", environment={"FAKE_PCLUSTER_ERROR": "busy"})))
        self.assertEqual((self.listed()["state"], self.rates()[-1]), ("running", (small, True)))

    def test_a_stopped_cluster_is_not_resized(self):
        account = self.account
        self.check(account.run(*account.create_words("c1")))
        # Another machine of the user has the cluster, too, and neither knows what the other does.
        elsewhere = {"XDG_STATE_HOME": str(account.folder / "elsewhere")}
        shutil.copytree(account.folder / "state/lockstep/cloud/c1", account.folder / "elsewhere/lockstep/cloud/c1")
        self.check(account.run("stop", "c1", environment=elsewhere))
        before = self.rates()
        asked = account.log.read_text().count("update-cluster")
        for answer in (["--yes"], []):  # it is refused before anybody is asked
            error = self.error_of(account.run("resize", "c1", "--workers", "16", *answer))
            self.assertIn('cannot resize "c1": it is stopped', error)
            self.assertIn("lockstep cloud start c1", error)
        self.assertEqual((account.log.read_text().count("update-cluster"), self.rates()), (asked, before))
        self.check(account.run("stop", "c1"))
        self.check(account.run("start", "c1", environment=elsewhere))
        self.check(account.run("resize", "c1", "--workers", "16", "--yes"))
        self.assertEqual((self.listed()["state"], self.rates()[-1][1]), ("running", True))

    def test_ctrl_c_in_a_program_removes_its_cluster(self):
        """examples/cloud_cluster."""
        account = self.account
        process = subprocess.Popen([cloud_test.EXAMPLE, "c1", account.package, "20"], cwd=account.folder, text=True,
                                   env=account.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        runs.wait_for((account.folder / "state/lockstep/cloud/c1/cluster.json").exists)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 1, said)
        self.assertIn("ending; what was made is removed, unless you press Ctrl-C again", said)
        self.assertEqual(account.left("c1"), [])

    def test_a_program_refuses_a_price_that_is_no_number(self):
        done = subprocess.run([cloud_test.EXAMPLE, "c1", self.account.package, "cheap"], capture_output=True, text=True,
                              check=False, timeout=120, env=self.account.environment)
        self.assertEqual((done.returncode, done.stderr),
                         (2, "usage: cloud_cluster NAME PACKAGE DOLLARS, which is a number as in 12.50\n"))


def load_tests(loader, _tests, _pattern):
    """Those of this file only: the class has those of Cloud too."""
    names = [name for name in vars(CloudFaults) if name.startswith("test_")]
    return unittest.TestSuite(CloudFaults(name) for name in names)


if __name__ == "__main__":
    aws_services.need()
    unittest.main()
