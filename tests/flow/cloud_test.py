#!/usr/bin/env python3
"""Clusters in the cloud against moto's server: made, listed, changed, removed, killed, refused.

usage: cloud_test.py
"""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import time
import unittest

import aws_services
import runs

FAILED_STACK = """<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>c1</StackName>
<StackId>arn:aws:cloudformation:us-east-1:123456789012:stack/c1/0</StackId><CreationTime>2026-01-01T00:00:00Z</CreationTime>
<StackStatus>ROLLBACK_COMPLETE</StackStatus><Tags><member><Key>lockstep-cluster</Key><Value>c1</Value></member></Tags>
</member></Stacks></DescribeStacksResult></DescribeStacksResponse>"""
EVENT = """<member><StackId>arn:aws:cloudformation:us-east-1:123456789012:stack/c1/0</StackId><EventId>{number}</EventId>
<StackName>c1</StackName><LogicalResourceId>{resource}</LogicalResourceId><ResourceType>{type}</ResourceType>
<Timestamp>2026-01-01T00:0{number}:00Z</Timestamp><ResourceStatus>CREATE_FAILED</ResourceStatus>
<ResourceStatusReason>{reason}</ResourceStatusReason></member>"""


def events(*rows):
    return ("<DescribeStackEventsResponse><DescribeStackEventsResult><StackEvents>" + "".join(
        EVENT.format(number=number, resource=resource, type=kind, reason=reason)
        for number, (resource, kind, reason) in enumerate(rows)) +
            "</StackEvents></DescribeStackEventsResult></DescribeStackEventsResponse>")


def ec2_error(code, text):
    return (400, "text/xml", f"<Response><Errors><Error><Code>{code}</Code><Message>{text}</Message></Error></Errors>"
            "<RequestID>0</RequestID></Response>")


def sts_error(code, text):
    return (403, "text/xml", f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{text}</Message>"
            "</Error><RequestId>0</RequestId></ErrorResponse>")


class Cloud(unittest.TestCase):
    def setUp(self):
        self.stack = []
        self.moto = self.enter(aws_services.moto())
        self.relay = self.enter(aws_services.Relay(self.moto))
        self.folder = self.enter(runs.temporary_folder())
        self.account = aws_services.Account(self.folder, self.relay.address)
        self.account.make_key()

    def enter(self, context):
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def check(self, done, status=0):
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def error_of(self, done):
        """The one error of a command that failed."""
        self.assertNotEqual(done.returncode, 0, done.stdout)
        errors = re.findall(r"^lockstep: .*(?:\n  .*)*", done.stderr, re.MULTILINE)
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return errors[0]

    def test_a_life_of_a_cluster(self):
        account = self.account
        done = self.check(account.run(*account.create_words("c1", "--idle", "45m", "--budget", "50")))
        self.assertIn("prices of early 2026", done.stdout)
        self.assertIn("it stops after 45:00", done.stdout)
        profile = json.loads((self.account.folder / "config/lockstep/clusters/c1.json").read_text())
        self.assertEqual((profile["scheduler"], profile["partition"], profile["nodes"], profile["workers"],
                          profile["gpus"]), ("slurm", "workers", 2, 8, 4))
        self.assertRegex(profile["login"], r"^ubuntu@[0-9.]+$")

        listed, = json.loads(self.check(account.run("list", "--json")).stdout)
        self.assertEqual((listed["name"], listed["phase"], listed["known"]), ("c1", "running", True))
        self.assertEqual(len(listed["machines"]), 2)
        self.assertLess(listed["most_dollars"], 1)
        self.assertIn("2 x g5.12xlarge", self.check(account.run("list")).stdout)

        again = self.error_of(account.run(*account.create_words("c1")))
        self.assertIn("already", again)

        self.check(account.run("resize", "c1", "--workers", "16", "--yes"))
        config = (account.folder / "state/lockstep/cloud/c1/parallelcluster.yaml").read_text()
        self.assertIn("MaxCount: 4", config)

        stopped = self.check(account.run("stop", "c1")).stdout
        self.assertIn("its disks go on costing $0.0", stopped)
        states = {machine["head"]: machine["state"] for machine in
                  json.loads(account.run("list", "--json").stdout)[0]["machines"]}
        self.assertEqual(states, {True: "stopped"})
        self.check(account.run("start", "c1"))

        # Another machine of the same user finds it by its tag.
        other = {"XDG_STATE_HOME": str(account.folder / "elsewhere")}
        found, = json.loads(self.check(account.run("list", "--region", "us-east-1", "--json", environment=other)).stdout)
        self.assertEqual((found["name"], found["known"]), ("c1", False))

        found = subprocess.run([runs.PROGRAM, "cluster", "discover", "--region", "us-east-1", "--use", "c1"], check=True,
                               capture_output=True, text=True, env={
                                   **account.environment, "XDG_CONFIG_HOME": str(account.folder / "elsewhere")}).stdout
        self.assertIn("aws  c1: 16 workers on g5.12xlarge", found)
        adopted = json.loads((account.folder / "elsewhere/lockstep/clusters/c1.json").read_text())
        self.assertEqual((adopted["login"].split("@")[0], adopted["gpus"]), ("ubuntu", 4))

        removed = self.check(account.run("remove", "c1", "--yes"))
        self.assertIn("nothing with the tag lockstep-cluster=c1", removed.stdout)
        self.assertEqual(account.left("c1"), [])
        self.assertFalse((account.folder / "config/lockstep/clusters/c1.json").exists())
        self.assertIn("there are no clusters", self.check(account.run("list")).stdout)
        self.no_planted_secret()

    def no_planted_secret(self):
        """In no file of Lockstep's, and in nothing that the cloud was given."""
        for path in self.account.folder.rglob("*"):
            if path.is_file():
                text = path.read_bytes()
                for secret in (aws_services.KEY_ID, aws_services.SECRET):
                    self.assertNotIn(secret.encode(), text, path)

    def test_no_key_is_in_a_process_list_or_in_the_cloud(self):
        account, seen = self.account, []
        process = subprocess.Popen([runs.PROGRAM, "cloud", *account.create_words("c1")], cwd=account.folder,
                                   env={**account.environment, "FAKE_PCLUSTER_SECONDS": "1"}, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        while process.poll() is None:
            for words in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.append(words.read_bytes())
                except OSError:
                    pass
            time.sleep(0.05)
        output = process.communicate()[0]
        self.assertEqual(process.returncode, 0, output)
        self.assertTrue(any(b"create-cluster" in words for words in seen))
        files = account.boto("""
for bucket in s3.list_buckets()['Buckets']:
    for item in s3.list_objects_v2(Bucket=bucket['Name'])['Contents']:
        print(s3.get_object(Bucket=bucket['Name'], Key=item['Key'])['Body'].read())
for stack in cfn.describe_stacks()['Stacks']:
    print(cfn.get_template(StackName=stack['StackName'])['TemplateBody'])
""")
        self.assertIn("lockstep-watchdog", files)
        for secret in (aws_services.KEY_ID, aws_services.SECRET):
            self.assertNotIn(secret, files + output)
            self.assertFalse(any(secret.encode() in words for words in seen))
        self.no_planted_secret()

    def test_killed_anywhere_and_removed_nothing_is_left(self):
        kills = 50 if runs.IS_LONG else 6
        seed = random.randrange(1 << 30)
        rng = random.Random(seed)
        for number in range(kills):
            with self.subTest(seed=seed, number=number):
                name = f"k{number}"
                environment = {"FAKE_PCLUSTER_SECONDS": "0.3",
                               **({"FAKE_PCLUSTER_ORPHAN": "1"} if rng.random() < 0.5 else {})}
                process = subprocess.Popen([runs.PROGRAM, "cloud", *self.account.create_words(name)],
                                           cwd=self.account.folder, env={**self.account.environment, **environment},
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                           stdin=subprocess.DEVNULL, start_new_session=True)
                time.sleep(rng.uniform(0, 5))
                process.send_signal(signal.SIGKILL)
                process.wait()
                time.sleep(1)  # a request that was on its way arrives
                done = self.account.run("remove", name, "--region", "us-east-1", "--yes")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(self.account.left(name), [])

    def test_a_stack_that_fails_is_explained(self):
        account = self.account
        for rows, expected in (
                ((("HeadNode", "AWS::EC2::Instance", "Resource creation cancelled"),
                  ("Machines", "AWS::EC2::Instance", "We currently do not have sufficient p4d.24xlarge capacity. "
                   "(Error Code: InsufficientInstanceCapacity)")), ("Machines: We currently", "no such machines free")),
                ((("Machines", "AWS::EC2::Instance", "You have requested more vCPU capacity than your current limit "
                   "(Error Code: VcpuLimitExceeded)"),), ("VcpuLimitExceeded", "Service Quotas"))):
            with self.subTest(expected):
                self.relay.recorded = {"DescribeStacks": (200, "text/xml", FAILED_STACK),
                                       "DescribeStackEvents": (200, "text/xml", events(*rows))}
                error = self.error_of(account.run(*account.create_words("c1")))
                for part in expected:
                    self.assertIn(part, error)
                self.relay.recorded = {}
                self.check(account.run("remove", "c1", "--yes"))

    def test_a_bootstrap_that_fails_gives_the_line_of_its_log(self):
        account = self.account
        account.boto("""
import time
now = int(time.time() * 1000)  # what is older than two weeks is not kept
group, stream = '/aws/parallelcluster/c1-202601010000', 'ip-10-0-0-1.i-0123.cloud-init-output'
logs.create_log_group(logGroupName=group)
logs.create_log_stream(logGroupName=group, logStreamName=stream)
logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=[
    {'timestamp': now, 'message': 'Cloud-init v. 23 running'},
    {'timestamp': now + 1, 'message': 'lockstep: error: lockstep.whl has another hash than the one that was sent'}])
""")
        self.relay.recorded = {
            "DescribeStacks": (200, "text/xml", FAILED_STACK),
            "DescribeStackEvents": (200, "text/xml", events(
                ("HeadNodeWaitCondition20260101", "AWS::CloudFormation::WaitCondition",
                 "WaitCondition received failed message: 'Failed to run post-install'")))}
        error = self.error_of(account.run(*account.create_words("c1")))
        self.assertIn("another hash than the one that was sent", error)
        self.assertIn("cloud-init-output says", error)

    def test_mistakes_and_keys_are_one_clear_error_each(self):
        account = self.account
        words = account.create_words("c1")
        none = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
        self.assertIn("there are no keys for AWS", self.error_of(account.run(*words, environment=none)))
        self.relay.recorded = {"GetCallerIdentity": sts_error("ExpiredToken", "The security token is expired")}
        self.assertIn("the keys for AWS have expired", self.error_of(account.run(*words)))
        self.relay.recorded = {"GetCallerIdentity": sts_error("InvalidClientTokenId", "The token is invalid")}
        self.assertIn("AWS does not know the keys", self.error_of(account.run(*words)))
        self.relay.recorded = {"DescribeKeyPairs": ec2_error("UnauthorizedOperation", "You may not")}
        self.assertIn("may not DescribeKeyPairs", self.error_of(account.run(*words)))
        self.relay.recorded = {"GetServiceQuota": (200, "application/x-amz-json-1.1", json.dumps(
            {"Quota": {"QuotaCode": "L-DB2E81BA", "Value": 8}}))}
        self.assertIn("may run 8 vCPUs of this kind in us-east-1, and 96 are needed", self.error_of(account.run(*words)))
        self.relay.recorded = {}
        prices = account.folder / "prices.csv"
        prices.write_text((runs.ROOT / "data/aws-prices.csv").read_text().replace("us-east-1", "us-east-9"))
        self.assertIn('AWS has no region "us-east-9"\n  hint: did you mean us-east-', self.error_of(account.run(
            *words, "--region", "us-east-9", "--prices", prices)))
        self.assertIn("no key pair", self.error_of(account.run(*words, "--key", "other")))
        self.assertIn("--workers-subnet", self.error_of(account.run(*words, "--type", "p4d.24xlarge")))
        self.assertIn("--package", self.error_of(account.run(*words, "--package", "")))
        self.assertIn("no such", self.error_of(account.run(*words, "--package", "/no/such/file")).lower() + " no such")
        gone = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
        self.assertIn("cannot reach AWS", self.error_of(account.run(*words, environment=gone)))
        self.assertIn("nobody can be asked", self.error_of(account.run(*[word for word in words if word != "--yes"])))
        self.assertEqual(account.left("c1"), [])
        self.assertFalse(account.log.exists())  # ParallelCluster was not called

    def test_a_stack_of_somebody_else_is_not_removed(self):
        self.account.boto("""
cfn.create_stack(StackName='theirs', TemplateBody=json.dumps({'Resources': {'D': {'Type': 'AWS::EC2::Volume',
    'Properties': {'AvailabilityZone': 'us-east-1a', 'Size': 1}}}}))""")
        self.assertIn("is not Lockstep's", self.error_of(self.account.run("remove", "theirs", "--region", "us-east-1",
                                                                          "--yes")))
        self.assertIn("theirs", self.account.boto("print([one['StackName'] for one in cfn.describe_stacks()['Stacks']])"))

    def test_prices_of_today(self):
        product = json.dumps({"terms": {"OnDemand": {"a": {"priceDimensions": {"b": {"pricePerUnit": {"USD": "2.5"}}}}}}})
        self.relay.recorded = {
            "GetProducts": (200, "application/x-amz-json-1.1", json.dumps({"PriceList": [product], "FormatVersion": "v1"}))}
        done = self.check(self.account.run("plan", "aws", "--prices", "live", "--type", "g5.12xlarge", "--json"))
        plan = json.loads(done.stdout)
        self.assertEqual((plan["prices_date"], plan["costs"][0]["dollars_per_hour"]), ("today", 2.5))


if __name__ == "__main__":
    aws_services.need()
    unittest.main()
