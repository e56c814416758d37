#!/usr/bin/env python3
"""The configuration that lockstep cloud writes, held against ParallelCluster's own schema and validators; broken
requests, which Lockstep must refuse with the field that ParallelCluster names; and JobSets against Kubernetes' schemas.

usage: cloud_config_test.py
"""

import json
import pathlib
import re
import subprocess
import unittest

import yaml_of
import aws_services
import runs

P4 = ["--type", "p4d.24xlarge"]
G5 = ["--type", "g5.12xlarge"]
ARN = "arn:aws:iam::123456789012:policy/"
# PUBLIC and PRIVATE stand for subnets of moto's, of which PRIVATE gives no addresses.
GOOD = [
    [], G5, ["--type", "g4dn.xlarge", "--workers", "1"], ["--type", "g5.xlarge", "--workers", "8"],
    ["--type", "g6.48xlarge", "--workers", "16"], ["--type", "g6e.12xlarge"], ["--type", "g4dn.12xlarge", "--workers", "32"],
    [*P4, "--workers-subnet", "PRIVATE"], [*P4, "--workers-subnet", "PRIVATE", "--workers", "64"],
    ["--type", "p4de.24xlarge", "--workers-subnet", "PRIVATE", "--spot"],
    ["--type", "p5.48xlarge", "--workers-subnet", "PRIVATE", "--workers", "16"],
    ["--type", "c7i.8xlarge", "--workers", "64"], ["--type", "c7a.8xlarge", "--workers", "32"],
    ["--type", "c7i.2xlarge", "--workers", "4", "--head-type", "t3.medium"],
    [*G5, "--spot"], [*G5, "--spot", "--spot-price", "3.5"], [*G5, "--idle", "5m", "--budget", "20"],
    [*G5, "--idle", "0"], [*G5, "--idle", "90s"], [*G5, "--data", "s3://photos"],
    [*G5, "--data", "s3://photos/train/set.1/"], [*G5, "--disk-gb", "1000", "--root-gb", "300"],
    [*G5, "--fsx-gb", "1200"], [*G5, "--fsx-gb", "4800"], [*G5, "--os", "alinux2023"], [*G5, "--os", "ubuntu2404"],
    [*G5, "--os", "rhel9"], [*G5, "--ssh-from", "203.0.113.0/24", "--key", "mine"],
    [*G5, "--policy", ARN + "more", "--boundary", ARN + "bound"],
    [*G5, "--tags", "team=vision,cost:centre=42/a@b"], [*G5, "--package", "PACKAGE", "--budget", "10"],
]
# Of which ParallelCluster's templates are made: CPUs, GPUs, many network cards with spot machines and all storage.
LINTED = [["--type", "c7i.8xlarge", "--workers", "64", "--package", "PACKAGE"],
          [*G5, "--package", "PACKAGE", "--budget", "10", "--tags", "team=vision"],
          [*P4, "--workers-subnet", "PRIVATE", "--workers", "64", "--spot", "--fsx-gb", "1200", "--data", "s3://photos/train",
           "--policy", ARN + "more", "--boundary", ARN + "bound", "--package", "PACKAGE"]]
# Words of a broken request; where ParallelCluster has the value; and the field that both name.
QUEUE = "Scheduling/SlurmQueues/0/"
BROKEN = [
    (["--subnet", "subnet-1"], "HeadNode/Networking/SubnetId", "SubnetId"),
    (["--subnet", "vpc-12345678"], "HeadNode/Networking/SubnetId", "SubnetId"),
    (["--subnet", "subnet-1234567g9"], "HeadNode/Networking/SubnetId", "SubnetId"),
    (["--workers-subnet", "subnet-ABCDEFGH"], QUEUE + "Networking/SubnetIds/0", "SubnetIds"),
    (["--workers-subnet", "12345678"], QUEUE + "Networking/SubnetIds/0", "SubnetIds"),
    (["--security-group", "sg-1"], "HeadNode/Networking/AdditionalSecurityGroups/0", "AdditionalSecurityGroups"),
    (["--security-group", "group"], "HeadNode/Networking/AdditionalSecurityGroups/0", "AdditionalSecurityGroups"),
    (["--image", "ami-1"], "Image/CustomAmi", "CustomAmi"),
    (["--image", "ubuntu"], "Image/CustomAmi", "CustomAmi"),
    (["--ssh-from", "everywhere"], "HeadNode/Ssh/AllowedIps", "AllowedIps"),
    (["--ssh-from", "10.0.0.1"], "HeadNode/Ssh/AllowedIps", "AllowedIps"),
    (["--ssh-from", "10.0.0.0/99"], "HeadNode/Ssh/AllowedIps", "AllowedIps"),
    (["--ssh-from", "300.1.1.1/8"], "HeadNode/Ssh/AllowedIps", "AllowedIps"),
    (["--policy", "AdministratorAccess"], QUEUE + "Iam/AdditionalIamPolicies/0/Policy", "Policy"),
    (["--policy", "arn:aws:iam::1:role/x"], QUEUE + "Iam/AdditionalIamPolicies/0/Policy", "Policy"),
    (["--boundary", "arn:aws:iam::1:role/x"], "Iam/PermissionsBoundary", "PermissionsBoundary"),
    (["--boundary", "bound"], "Iam/PermissionsBoundary", "PermissionsBoundary"),
    (["--data", "s3://Photos/x"], QUEUE + "Iam/S3Access/0/BucketName", "BucketName"),
    (["--data", "s3://a_b/x"], QUEUE + "Iam/S3Access/0/BucketName", "BucketName"),
    (["--data", "s3://"], QUEUE + "Iam/S3Access/0/BucketName", "BucketName"),
    (["--fsx-gb", "1000"], "SharedStorage/1/FsxLustreSettings/StorageCapacity", "StorageCapacity"),
    (["--fsx-gb", "3000"], "SharedStorage/1/FsxLustreSettings/StorageCapacity", "StorageCapacity"),
    (["--tags", "parallelcluster:x=1"], "Tags/2/Key", "Tag"),
    (["--tags", "a=1,a=2"], "Tags/2/Key", "Tag"),
    (["--tags", "key=" + "v" * 257], "Tags/2/Value", "Value"),
    (["--tags", "k" * 129 + "=v"], "Tags/2/Key", "Key"),
    (["--idle", "-2m"], "Scheduling/SlurmSettings/ScaledownIdletime", "ScaledownIdletime"),
    (["--spot", "--spot-price", "-1"], QUEUE + "ComputeResources/0/SpotPrice", "spot-price"),
    (["--os", "windows"], "Image/Os", "os"),
    (["--workers", "0"], QUEUE + "ComputeResources/0/MaxCount", "workers"),
]
# What ParallelCluster is given in the place of a value of the command line that differs from it.
VALUES = {"-2m": -2, "1000": 1000, "3000": 3000, "-1": -1, "0": 0, "s3://Photos/x": "Photos", "s3://a_b/x": "a_b",
          "s3://": "", "parallelcluster:x=1": "parallelcluster:x", "a=1,a=2": "lockstep-id", "key=" + "v" * 257: "v" * 257,
          "k" * 129 + "=v": "k" * 129}


def put(config, path, value):
    """Sets a value in the configuration, and makes what is above it."""
    *above, last = path.split("/")
    for part, below in zip(above, [*above[1:], last]):
        empty = [] if below.isdigit() else {}
        if part.isdigit():
            while len(config) <= int(part):
                config.append(empty)
            config = config[int(part)]
        else:
            config = config.setdefault(part, empty)
    if last.isdigit():
        config[:] = [value]
    else:
        config[last] = value


class Configuration(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.moto = aws_services.moto()
        cls.folder = runs.temporary_folder()
        cls.account = aws_services.Account(cls.folder.name, cls.moto.__enter__())
        cls.account.make_key()
        cls.public, cls.private = cls.account.boto("""
public = ec2.describe_subnets()['Subnets'][0]
private = ec2.create_subnet(VpcId=public['VpcId'], CidrBlock='172.31.200.0/24', AvailabilityZone=public['AvailabilityZone'])
policy = json.dumps({'Version': '2012-10-17', 'Statement': [
    {'Effect': 'Allow', 'Action': 's3:GetObject', 'Resource': '*'}]})
for name in ('more', 'bound'):  # which --policy and --boundary name below
    boto3.client('iam', region_name='us-east-1').create_policy(PolicyName=name, PolicyDocument=policy)
print(public['SubnetId'], private['Subnet']['SubnetId'])""").split()

    @classmethod
    def tearDownClass(cls):
        cls.account.close()
        cls.moto.__exit__(None, None, None)
        cls.folder.cleanup()

    def config_of(self, words):
        words = [{"PRIVATE": self.private, "PACKAGE": str(self.account.package)}.get(word, word) for word in words]
        if "--subnet" not in words:
            words += ["--subnet", self.public]
        return self.account.run("create", "c1", "--dry-run", *words)

    def validated(self, texts):
        files = []
        for number, text in enumerate(texts):
            files.append(pathlib.Path(self.folder.name) / f"config-{number}.yaml")
            files[-1].write_text(text)
        done = subprocess.run([aws_services.AWS_PYTHON, runs.ROOT / "tests/flow/cloud_validators.py", *files],
                              capture_output=True, text=True, timeout=300, check=False,
                              env={**self.account.environment, "AWS_DEFAULT_REGION": "us-east-1"})
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def test_parallel_cluster_accepts_what_is_written(self):
        texts = []
        for words in GOOD:
            done = self.config_of(words)
            self.assertEqual(done.returncode, 0, (words, done.stderr))
            texts.append(done.stdout)
        self.assertGreaterEqual(len(texts), 30)
        results = self.validated(texts)
        self.assertEqual(len(results), len(texts))
        for words, result in zip(GOOD, results):
            self.assertEqual(result["errors"], [], words)
        print(f"{len(texts)} configurations; {results[-1]['ran']} validators ran, {results[-1]['asked']} of them ask AWS")

    def test_cfn_lint_finds_nothing_in_the_templates_that_parallel_cluster_makes(self):
        files, folder = [], pathlib.Path(self.folder.name)
        for number, words in enumerate(LINTED):
            files.append(folder / f"linted-{number}.yaml")
            files[-1].write_text(self.config_of(words).stdout)
        environment = {**self.account.environment, "AWS_DEFAULT_REGION": "us-east-1"}
        made = subprocess.run([aws_services.AWS_PYTHON, runs.ROOT / "tests/flow/cloud_template.py", folder, *files],
                              capture_output=True, text=True, timeout=300, check=False, env=environment)
        self.assertEqual(made.returncode, 0, made.stderr[-3000:])
        templates = [file.with_suffix(".json") for file in files]
        done = subprocess.run([aws_services.PEERS_PYTHON, "-m", "cfnlint", "--regions", "us-east-1", "--format", "json",
                               *templates], capture_output=True, text=True, timeout=300, check=False)
        found = [f"{one['Rule']['Id']} {one['Location']['Path']['Path']}: {one['Message']}"
                 for one in json.loads(done.stdout or "[]")]
        self.assertEqual(found, [], done.stderr)
        resources = [json.loads(template.read_text())["Resources"] for template in templates]
        self.assertTrue(all(len(one) > 20 for one in resources))
        for secret in (aws_services.KEY_ID, aws_services.SECRET):
            self.assertNotIn(secret, json.dumps(resources))

    def test_broken_requests_are_refused_with_the_same_field(self):
        good, texts = self.config_of(G5).stdout, []
        for words, path, field in BROKEN:
            with self.subTest(words):
                done = self.config_of([*G5, *words] if words[0] != "--subnet" else [*G5, *words])
                self.assertEqual(done.returncode, 2, done.stdout[-500:])
                self.assertIn(field, done.stderr)
                option = next(word for word in reversed(words) if word.startswith("--"))
                self.assertIn(option.lstrip("-"), done.stderr)
            config = yaml_of.read(good)
            if "--fsx-gb" in words:
                config["SharedStorage"].append({"MountDir": "/fsx", "Name": "fsx", "StorageType": "FsxLustre"})
            if path.startswith("Tags"):
                config["Tags"].append({"Key": "key", "Value": "value"})
            put(config, path, VALUES.get(words[-1], words[-1]))
            texts.append(json.dumps(config))
        self.assertGreaterEqual(len(texts), 30)
        for (words, path, field), result in zip(BROKEN, self.validated(texts)):
            with self.subTest(words, field=field):
                named = [part for part in path.split("/") if not part.isdigit()][-1]
                said = re.sub(r"[^a-z]", "", " ".join(result["errors"]).lower())
                self.assertTrue(result["errors"], path)
                self.assertIn(re.sub(r"[^a-z]", "", named.lower())[:6], said)

    def job_set_problems(self, job_set):
        done = subprocess.run([aws_services.PEERS_PYTHON, runs.ROOT / "tests/flow/cloud_job_set.py"], text=True, timeout=60,
                              input=json.dumps(job_set), capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def made_job_set(self):
        done = self.account.run("create", "c1", "--provider", "kubernetes", "--dry-run", "--image", "registry/lockstep:1",
                                "--data", "s3://photos/train", *G5, "--workers", "16")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_the_first_start_of_a_job_set_resumes_nothing(self):
        replicated, = yaml_of.read(self.made_job_set().stdout)["spec"]["replicatedJobs"]
        container, = replicated["template"]["spec"]["template"]["spec"]["containers"]
        folder = pathlib.Path(self.folder.name) / "pod"
        run = folder / "run"
        run.mkdir(parents=True)
        (folder / "lockstep").write_text('#!/bin/sh\necho "$@"\n')
        (folder / "lockstep").chmod(0o755)

        def start():
            command = [str(run) if word == "/runs/c1" else word for word in container["command"]]
            return subprocess.run(command, env={"PATH": f"{folder}:/usr/bin:/bin"}, capture_output=True, text=True,
                                  timeout=60, check=True).stdout

        first = f"train s3://photos/train --output {run}"
        self.assertEqual(start(), first + "\n")
        (run / "options.json").write_text("{}")
        self.assertEqual(start(), first + " --resume\n")

    def test_job_sets_fit_the_schemas(self):
        done = self.made_job_set()
        self.assertIn("never run on Kubernetes", done.stdout)
        job_set = yaml_of.read(done.stdout)
        self.assertEqual((job_set["apiVersion"], job_set["kind"]), ("jobset.x-k8s.io/v1alpha2", "JobSet"))
        self.assertEqual(self.job_set_problems(job_set), [])
        for path, value in (("spec/replicatedJobs/0/replicas", "one"), ("spec/network/subDomain", "c1"),
                            ("spec/failurePolicy/maxRestarts", "10"), ("spec/replicatedJobs/0/template/spec/parallelism", "2")):
            broken = json.loads(json.dumps(job_set))
            put(broken, path, value)
            self.assertIn(path.rsplit("/", 1)[1], " ".join(self.job_set_problems(broken)), "the check sees what is wrong")
        replicated, = job_set["spec"]["replicatedJobs"]
        # The template is a Job's, which Kubernetes' own schema describes.
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "c1"}, **replicated["template"]}
        file = pathlib.Path(self.folder.name) / "job.yaml"
        file.write_text(json.dumps(job))
        checked = subprocess.run([aws_services.PEERS_PYTHON, "-m", "kubernetes_validate", "-k", "1.31", "--strict", file],
                                 capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.assertEqual(job["spec"]["completions"], 4)


if __name__ == "__main__":
    aws_services.need()
    unittest.main()
