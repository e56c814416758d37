#!/usr/bin/env python3
"""Clusters in the cloud against moto's server: made, listed, changed, removed, killed, refused.

usage: cloud_test.py
"""

import collections
import json
import os
import pathlib
import random
import re
import subprocess
import time
import unittest

import aws_services
import runs

KINDS = {"i": "machines", "vol": "disks", "sg": "group", "lockstep": "bucket"}
FAILED_STACK = """<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>c1</StackName>
<StackId>arn:aws:cloudformation:us-east-1:123456789012:stack/c1/0</StackId><CreationTime>2026-01-01T00:00:00Z</CreationTime>
<StackStatus>ROLLBACK_COMPLETE</StackStatus><Tags><member><Key>lockstep-cluster</Key><Value>c1</Value></member></Tags>
</member></Stacks></DescribeStacksResult></DescribeStacksResponse>"""
EXAMPLE = os.environ.get("LOCKSTEP_CLOUD_CLUSTER", runs.PROGRAM.parent / "lockstep_example_cloud_cluster")
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
    @classmethod
    def setUpClass(cls):
        cls.moto = cls.enterClassContext(aws_services.moto())
        cls.boto = aws_services.Asker(cls.moto, "us-east-1")
        cls.addClassCleanup(cls.boto.close)

    def setUp(self):
        aws_services.forget_everything(self.moto)
        self.relay = self.enterContext(aws_services.Relay(self.moto))
        self.folder = self.enterContext(runs.temporary_folder())
        self.account = aws_services.Account(self.folder, self.relay.address, boto=self.boto)
        self.account.make_key()

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

    def cluster(self, *words, by=(runs.PROGRAM, "cluster")):
        return subprocess.run([*by, *words], capture_output=True, text=True, check=False, timeout=120,
                              stdin=subprocess.DEVNULL, env=self.account.environment)

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

        self.assertIn("already", self.error_of(account.run(*account.create_words("c1"))))

        self.check(account.run("resize", "c1", "--workers", "16", "--yes"))
        config = (account.folder / "state/lockstep/cloud/c1/parallelcluster.yaml").read_text()
        self.assertIn("MaxCount: 4", config)

        stopped = self.check(account.run("stop", "c1")).stdout
        self.assertIn("its disks go on costing $0.0", stopped)
        self.assertRegex(account.ssh_log.read_text(), re.escape(profile["login"]) + " -- sudo -n .*lockstep-save-jobs")
        states = {one["head"]: one["state"] for one in json.loads(account.run("list", "--json").stdout)[0]["machines"]}
        self.assertEqual(states, {True: "stopped"})
        self.check(account.run("start", "c1"))
        self.check(self.cluster("default", "c1"))
        self.assertIn("its disks go on costing", self.check(self.cluster("stop")).stdout)
        self.assertIn("c1 runs", self.check(self.cluster("start", "c1")).stdout)
        for word, said, state in (("stop", "its disks go on costing", "stopped"), ("start", "c1 runs", "running")):
            self.assertIn(said, self.check(self.cluster(word, "c1", by=[runs.PROGRAM.parent / "lockstep_job_tasks"])).stdout)
            listed, = json.loads(account.run("list", "--json").stdout)
            self.assertIn((True, state), [(one["head"], one["state"]) for one in listed["machines"]])
        self.assertIn('profile "local" cannot be started or stopped: it is this machine',
                      self.error_of(self.cluster("start", "local")))
        self.check(self.cluster("create", "ours", "--login", "me@there"))
        self.assertIn("no lockstep cloud create", self.error_of(self.cluster("stop", "ours")))

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

    def test_a_program_makes_uses_and_removes_a_cluster(self):
        """examples/cloud_cluster."""
        account = self.account

        def run(name, dollars, environment=None):
            return subprocess.run([EXAMPLE, name, account.package, dollars], capture_output=True, text=True, check=False,
                                  timeout=120, cwd=account.folder, env={**account.environment, **(environment or {})})

        done = self.check(run("c1", "20"))
        self.assertIn("2 x g5.12xlarge, $11.49 an hour with the prices of early 2026\nc1: 8 workers on g5.12xlarge\n",
                      done.stdout)
        self.assertRegex(done.stdout.splitlines()[-1], r"^c1 is removed, and has cost at most \$\d\.\d\d$")
        self.assertEqual([json.loads(line)[0] for line in account.log.read_text().splitlines()],
                         ["create-cluster", "update-cluster", "update-compute-fleet", "update-compute-fleet",
                          "delete-cluster"])
        self.assertIn("hint: give a higher number of DOLLARS", self.check(run("c2", "1"), 1).stderr)
        self.assertIn("ParallelCluster refused create-cluster: no",
                      self.check(run("c3", "20", {"FAKE_PCLUSTER_ERROR": "no"}), 1).stderr)
        for name in ("c1", "c2", "c3"):
            self.assertEqual(account.left(name), [])

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
        """At a random request to AWS, or at a random time."""
        kills = 50 if runs.IS_LONG else 6
        seed = random.randrange(1 << 30)
        rng = random.Random(seed)
        before = len(self.relay.actions)
        self.check(self.account.run(*self.account.create_words("whole")))
        requests = len(self.relay.actions) - before
        self.check(self.account.run("remove", "whole", "--yes"))
        seen = collections.Counter()
        for number in range(kills):
            with self.subTest(seed=seed, number=number):
                name = f"k{number}"
                environment = {"FAKE_PCLUSTER_SECONDS": "0.3",
                               **({"FAKE_PCLUSTER_ORPHAN": "1"} if rng.random() < 0.5 else {})}
                before, at = len(self.relay.actions), rng.randrange(requests + 2)
                process = self.account.start(*self.account.create_words(name), environment=environment)
                if rng.random() < 0.8:
                    while process.poll() is None and len(self.relay.actions) < before + at:
                        time.sleep(0.002)
                else:
                    time.sleep(rng.uniform(0, 5))
                process.kill()
                process.wait()
                time.sleep(1)  # a request that was on its way arrives
                seen[" ".join(sorted({KINDS.get(one.split("-")[0], "stack") for one in self.account.left(name)}))] += 1
                done = self.account.run("remove", name, "--region", "us-east-1", "--yes")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(self.account.left(name), [])
        print(f"{kills} kills of a creation of {requests} requests; what was there before it was removed: {dict(seen)}")

    def failed_stack(self, *rows):
        """The answers of AWS about a cluster whose parts failed so."""
        self.relay.recorded = {"DescribeStacks": (200, "text/xml", FAILED_STACK),
                               "DescribeStackEvents": (200, "text/xml", events(*rows))}

    def test_a_stack_that_fails_is_explained_with_the_line_of_the_log(self):
        account = self.account
        cancelled = ("HeadNode", "AWS::EC2::Instance", "Resource creation cancelled")
        for reason, text, hint in (
                ("We currently do not have sufficient m5.large capacity. (Error Code: InsufficientInstanceCapacity)",
                 "AWS has no such machines free in us-east-1 now", "try another --region, --type, or later"),
                ("You have requested more vCPU capacity than your current limit (Error Code: VcpuLimitExceeded)",
                 "the account's quota in us-east-1 is too small", "ask AWS for more in Service Quotas"),
                ("The security token included in the request is expired (Error Code: ExpiredToken)",
                 "the keys for AWS expired while it was made", "lockstep cloud remove c1"),
                ("User is not authorized to perform: iam:CreateRole", "a right is missing", "docs/cloud.md has the policy"),
                ("Address limit is not known", "Machines: Address limit is not known", "lockstep cloud remove c1")):
            with self.subTest(reason):
                self.failed_stack(cancelled, ("Machines", "AWS::EC2::Instance", reason))
                words = ["wait", "c1"] if account.log.exists() else account.create_words("c1")
                error = self.error_of(account.run(*words))
                self.assertEqual(error.splitlines()[0],
                                 f'lockstep: the cluster "c1" failed (ROLLBACK_COMPLETE): {text}')
                self.assertIn("  CloudFormation's log says: 2026-01-01 00:01:00 Machines (AWS::EC2::Instance) "
                              f"CREATE_FAILED: {reason}\n", error)
                self.assertIn(f"\n  hint: {hint}", error)
        self.assertEqual(json.loads(account.run("list", "--json").stdout)[0]["phase"], "failed")
        self.relay.recorded = {}
        self.check(account.run("remove", "c1", "--yes"))
        self.assertEqual(account.left("c1"), [])

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
        self.failed_stack(("HeadNodeWaitCondition20260101", "AWS::CloudFormation::WaitCondition",
                           "WaitCondition received failed message: 'Failed to run post-install'"))
        error = self.error_of(account.run(*account.create_words("c1")))
        self.assertIn('the cluster "c1" failed (ROLLBACK_COMPLETE): a machine could not be set up\n', error)
        self.assertIn("\n  ip-10-0-0-1.i-0123.cloud-init-output says: lockstep: error: lockstep.whl has another hash than "
                      "the one that was sent\n", error)

    def test_keys_that_expire_while_it_is_made(self):
        """The cluster goes on without them; with new ones `wait` goes on too."""
        account = self.account
        expired = "The security token included in the request is expired"
        self.assertIn(f"ParallelCluster refused create-cluster: {expired}", self.error_of(account.run(
            *account.create_words("c1"), environment={"FAKE_PCLUSTER_ERROR": expired})))
        self.check(account.run("remove", "c1", "--yes"))
        self.relay.recorded = {"DescribeStacks": sts_error("ExpiredToken", expired)}
        error = self.error_of(account.run(*account.create_words("c1")))
        self.assertIn("the keys for AWS have expired", error)
        self.assertIn(f"\n  AWS says: DescribeStacks: ExpiredToken: {expired}\n", error)
        self.relay.recorded = {}
        self.assertEqual(json.loads(account.run("list", "--json").stdout)[0]["phase"], "creating")
        self.assertIn("c1 is ready", self.check(account.run("wait", "c1")).stdout)

    def check_refused(self, text, line, hint, *more, environment=None):
        """create gives one error: what could not be done, the line that says why, and what to do."""
        error = self.error_of(self.account.run(*self.account.create_words("c1"), *more, environment=environment))
        self.assertIn(f"lockstep: {text}", error)
        self.assertRegex(error, rf"\n  {line}")
        self.assertIn(f"\n  hint: {hint}", error)

    def test_keys_quota_and_region_are_one_clear_error_each_with_the_line_that_says_why(self):
        self.check_refused("there are no keys for AWS", "boto3 says: Unable to locate credentials", "aws configure",
                           environment={"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""})
        self.relay.recorded = {"GetCallerIdentity": sts_error("ExpiredToken", "The security token is expired")}
        self.check_refused("the keys for AWS have expired",
                           "AWS says: GetCallerIdentity: ExpiredToken: The security token is expired\n", "get new ones")
        self.relay.recorded = {"GetCallerIdentity": sts_error("InvalidClientTokenId", "The token is invalid")}
        self.check_refused("AWS does not know the keys", "AWS says: GetCallerIdentity: InvalidClientTokenId: The token",
                           "aws sts get-caller-identity")
        self.relay.recorded = {"DescribeKeyPairs": ec2_error("UnauthorizedOperation", "You may not")}
        self.check_refused("the keys may not DescribeKeyPairs", "AWS says: DescribeKeyPairs: UnauthorizedOperation: You may",
                           "docs/cloud.md has the policy")
        self.relay.recorded = {"GetServiceQuota": (200, "application/x-amz-json-1.1", json.dumps(
            {"Quota": {"QuotaCode": "L-DB2E81BA", "Value": 8}}))}
        self.check_refused("the account may run 8 vCPUs of this kind in us-east-1, and 96 are needed",
                           "AWS says: GetServiceQuota: L-DB2E81BA is 8\n", "ask AWS for more in Service Quotas")
        self.relay.recorded = {}
        self.check_refused("cannot reach AWS", "boto3 says: Could not connect to the endpoint URL", "check the network",
                           environment={"AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
        prices = self.account.folder / "prices.csv"
        prices.write_text((runs.ROOT / "data/aws-prices.csv").read_text().replace("us-east-1", "us-east-9"))
        self.check_refused('AWS has no region "us-east-9"', r"boto3 [0-9.]+ knows \d+ regions, and not this one\n",
                           "did you mean us-east-", "--region", "us-east-9", "--prices", prices)
        self.nothing_was_made()

    def test_a_region_that_the_account_has_not_opened(self):
        prices = self.account.folder / "prices.csv"
        prices.write_text((runs.ROOT / "data/aws-prices.csv").read_text().replace("us-east-1", "ap-east-1"))
        self.relay.recorded = {
            "GetCallerIdentity": sts_error("InvalidClientTokenId", "The security token is invalid"),
            "DescribeRegions": (200, "text/xml", "<DescribeRegionsResponse><regionInfo><item><regionName>ap-east-1"
                                "</regionName><optInStatus>not-opted-in</optInStatus></item></regionInfo>"
                                "</DescribeRegionsResponse>")}
        self.check_refused('the account has not opened the region "ap-east-1"',
                           "AWS says: GetCallerIdentity: InvalidClientTokenId", "open it in AWS's console", "--region",
                           "ap-east-1", "--prices", prices)
        self.nothing_was_made()

    def nothing_was_made(self):
        self.assertEqual(self.account.left("c1"), [])
        self.assertFalse(self.account.log.exists())  # ParallelCluster was not called

    def test_mistakes_are_one_clear_error_each(self):
        account = self.account
        words = account.create_words("c1")
        error = self.error_of(account.run(*words, "--key", "other"))
        self.assertIn('there is no key pair "other" in us-east-1\n  hint: there is mine', error)
        self.assertIn("--workers-subnet", self.error_of(account.run(*words, "--type", "p4d.24xlarge")))
        self.assertIn("--package", self.error_of(account.run(*words, "--package", "")))
        self.assertIn('"/no/such/file": No such file', self.error_of(account.run(*words, "--package", "/no/such/file")))
        self.assertIn("nobody can be asked", self.error_of(account.run(*[word for word in words if word != "--yes"])))
        account.boto("ec2.create_key_pair(KeyName='second')")
        error = self.error_of(account.run(*words, "--key", ""))
        self.assertIn("--key is missing: us-east-1 has 2 key pairs", error)
        self.assertIn("hint: name one of them: mine, second", error)
        account.boto("ec2.delete_key_pair(KeyName='second'); ec2.delete_key_pair(KeyName='mine')")
        self.assertIn("there is no key pair in us-east-1", self.error_of(account.run(*words, "--key", "")))
        self.nothing_was_made()

    def test_the_only_key_pair_and_the_only_package_need_not_be_named(self):
        account = self.account
        words = ["create", "c1", "--region", "us-east-1", "--type", "c7i.8xlarge", "--workers", "16", "--yes"]
        self.check(account.run(*words))
        config = (account.folder / "state/lockstep/cloud/c1/parallelcluster.yaml").read_text()
        self.assertIn("KeyName: mine", config)
        self.assertIn(account.package.name, config)
        (account.folder / "dist").mkdir()
        (account.folder / "dist/lockstep-0.2-linux-x86_64.tar.gz").write_bytes(b"another one")
        self.assertIn("--package is missing, and there are 2 packages", self.error_of(account.run("create", "c2", *words[2:])))

    def test_a_cluster_is_not_removed_in_the_wrong_region(self):
        account = self.account
        self.check(account.run(*account.create_words("c1")))
        self.assertIn('the cluster "c1" is in us-east-1, not in us-west-2',
                      self.error_of(account.run("remove", "c1", "--region", "us-west-2", "--yes")))
        other = {"XDG_STATE_HOME": str(account.folder / "elsewhere")}
        error = self.error_of(account.run("remove", "c1", "--region", "us-west-2", "--yes", environment=other))
        self.assertIn('there is no cluster "c1" in us-west-2, and there is one in us-east-1', error)
        self.assertIn("hint: lockstep cloud remove c1 --region us-east-1", error)
        self.check(account.run("remove", "c1", "--region", "us-east-1", "--yes", environment=other))
        self.assertEqual(account.left("c1"), [])

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
