"""What stands for AWS in the tests of lockstep cloud: moto's server, a relay that gives recorded answers where a test
wants a failure, and a command in the place of ParallelCluster's.

moto keeps instances, volumes, security groups, buckets, tags, key pairs and subnets, so that requests and what is left
behind are real. It has no ParallelCluster: `pcluster` is a small program here that makes a stack with the same tags in
moto's CloudFormation. It cannot fail a stack, so its events are recorded answers. The price list is a recording too.
"""

import contextlib
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import runs

CACHE = pathlib.Path(os.environ.get("LOCKSTEP_CLOUD_CACHE", pathlib.Path.home() / ".cache/lockstep"))
AWS_PYTHON = CACHE / "cloud-aws/bin/python"
PEERS_PYTHON = CACHE / "cloud-peers/bin/python"
# Planted: a test looks for them in everything that is written.
# Of this program alone: another test may pass its own in a command's words, and processes are looked at here.
KEY_ID, SECRET = f"AKIAPLANTED{os.getpid():09}", f"plantedSecretplantedSecret{os.getpid():014}"
SUBNET = "subnet-0123456789abcdef0"

PCLUSTER = r'''#!{python}
"""In the place of ParallelCluster's command: the same words and answers, and a stack in moto instead of a cluster."""
import json, os, sys, time
import boto3, yaml
words = sys.argv[1:]
def word(name):
    return words[words.index(name) + 1] if name in words else None
with open(os.environ["FAKE_PCLUSTER_LOG"], "a") as log:
    log.write(json.dumps(words) + "\n")
name, region = word("--cluster-name"), word("--region")
cfn = boto3.client("cloudformation", region_name=region)
ec2 = boto3.client("ec2", region_name=region)
def template(config):
    tags = config["Tags"]
    def machine(kind, node, count):
        return {{f"{{kind}}{{i}}": {{"Type": "AWS::EC2::Instance", "Properties": {{"ImageId": "ami-12c6146b",
                 "InstanceType": node, "Tags": tags + [{{"Key": "parallelcluster:node-type", "Value": kind}}]}}}}
                for i in range(count)}}
    queue = config["Scheduling"]["SlurmQueues"][0]["ComputeResources"][0]
    return json.dumps({{"Resources": {{**machine("HeadNode", config["HeadNode"]["InstanceType"], 1),
        **machine("Compute", queue["InstanceType"], 1),
        "Group": {{"Type": "AWS::EC2::SecurityGroup", "Properties": {{"GroupDescription": name, "Tags": tags}}}},
        "Disk": {{"Type": "AWS::EC2::Volume", "Properties": {{"AvailabilityZone": region + "a", "Tags": tags,
                  "Size": config["SharedStorage"][0]["EbsSettings"]["Size"]}}}}}}}})
def machines():
    return [one["InstanceId"] for group in ec2.describe_instances(Filters=[
        {{"Name": "tag:lockstep-cluster", "Values": [name]}}])["Reservations"] for one in group["Instances"]
        if one["State"]["Name"] != "terminated"]
try:
    if os.environ.get("FAKE_PCLUSTER_ERROR"):
        raise RuntimeError(os.environ["FAKE_PCLUSTER_ERROR"])
    if words[0] == "create-cluster":
        with open(word("--cluster-configuration")) as file:
            config = yaml.safe_load(file)
        time.sleep(float(os.environ.get("FAKE_PCLUSTER_SECONDS", "0")))
        cfn.create_stack(StackName=name, TemplateBody=template(config), Tags=config["Tags"])
        if os.environ.get("FAKE_PCLUSTER_ORPHAN"):  # what a stack can forget
            ec2.create_volume(AvailabilityZone=region + "a", Size=1, TagSpecifications=[
                {{"ResourceType": "volume", "Tags": config["Tags"]}}])
    elif words[0] == "update-cluster":
        with open(word("--cluster-configuration")) as file:
            config = yaml.safe_load(file)
        time.sleep(float(os.environ.get("FAKE_PCLUSTER_SECONDS", "0")))
        cfn.update_stack(StackName=name, TemplateBody=template(config).replace(name, name), Tags=config["Tags"])
    elif words[0] == "delete-cluster":
        cfn.delete_stack(StackName=name)
    print(json.dumps({{"cluster": {{"clusterName": name}}}}))
except Exception as error:
    print(json.dumps({{"message": str(error)}}))
    sys.exit(1)
'''


def need():
    for python in (AWS_PYTHON, PEERS_PYTHON):
        if not python.exists():
            runs.skip(f"there is no {python}", "scripts/setup --peers")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextlib.contextmanager
def moto():
    """Yields the address of a moto server with nothing but what AWS gives every account."""
    port = free_port()
    server = subprocess.Popen([PEERS_PYTHON, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(address + "/moto-api/", timeout=5).close()
                break
            if time.monotonic() > deadline or server.poll() is not None:
                raise AssertionError("moto's server does not start")
            time.sleep(0.2)
        yield address
    finally:
        server.kill()
        server.wait()


def forget_everything(address):
    """A moto server that is as it was when it started."""
    urllib.request.urlopen(urllib.request.Request(address + "/moto-api/reset", method="POST"), timeout=60).close()


class Relay:
    """Passes requests on to moto, except those whose action has a recorded answer. `recorded`: action -> (status,
    content type, text)."""

    def __init__(self, target):
        relay = self
        self.recorded, self.actions = {}, []
        self.lacking = {"DescribePlacementGroups": (200, "text/xml", "<DescribePlacementGroupsResponse><placementGroupSet/></DescribePlacementGroupsResponse>")}  # of moto

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                action = re.search(rb"(?:^|&)Action=(\w+)", body)
                action = action[1].decode() if action else self.headers.get("X-Amz-Target", "").split(".")[-1]
                relay.actions.append(action)
                recorded = {**relay.lacking, **relay.recorded}
                if action in recorded and relay.is_time(action):
                    status, kind, text = recorded[action]
                    return self.send(status, {"Content-Type": kind}, text.encode())
                request = urllib.request.Request(target + self.path, data=body or None, method=self.command, headers={
                    "Content-Type": "application/octet-stream",  # else urllib names a kind that moto parses
                    **{key: value for key, value in self.headers.items() if key.lower() != "connection"}})
                try:
                    with urllib.request.urlopen(request, timeout=60) as said:
                        return self.send(said.status, dict(said.headers), said.read())
                except urllib.error.HTTPError as error:
                    return self.send(error.code, dict(error.headers), error.read())

            def send(self, status, headers, text):
                self.send_response(status)
                for key, value in headers.items():
                    if key.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                        self.send_header(key, value)
                self.send_header("Content-Length", "0" if self.command == "HEAD" else str(len(text)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *words):
                if not isinstance(sys.exc_info()[1], ConnectionError):  # of a program that a test has killed
                    super().handle_error(*words)

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def is_time(self, action):
        """A stack that has failed, or of which nobody may ask, was not there before it was made."""
        return action != "DescribeStacks" or "CreateStack" in self.actions

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Asker:
    """Runs lines of Python with clients of boto3, `ec2`, `s3`, `cfn`, `logs`, in one process, because boto3 takes its time
    to start."""
    PROGRAM = """
import boto3, contextlib, io, json, sys
ec2, s3, cfn, logs = (boto3.client(name, region_name=sys.argv[1]) for name in ("ec2", "s3", "cloudformation", "logs"))
for line in sys.stdin:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(json.loads(line), globals())
    print(json.dumps(said.getvalue()), flush=True)
"""

    def __init__(self, address, region):
        self.process = subprocess.Popen(
            [PEERS_PYTHON, "-c", self.PROGRAM, region], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={
                **os.environ, "AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_EC2_METADATA_DISABLED": "true"})

    def __call__(self, code):
        """What the lines print."""
        print(json.dumps(code), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise AssertionError("the program that asks AWS has ended; its error is above")
        return json.loads(answer)

    def close(self):
        self.process.communicate()


class Account:
    """A user's folder and environment for one test: keys by the environment, the fake pcluster, the real boto3."""

    def __init__(self, folder, address, region="us-east-1", boto=None):
        """boto: an Asker of the same server and region; otherwise the account has its own, until close()."""
        self.folder, self.region, self.own = pathlib.Path(folder), region, None
        self.boto = boto or self.ask
        tools = self.folder / "cache/cloud-aws/bin"
        tools.mkdir(parents=True)
        (tools / "python").write_text(f'#!/bin/sh\nexec "{AWS_PYTHON}" "$@"\n')
        (tools / "pcluster").write_text(PCLUSTER.format(python=AWS_PYTHON))
        for tool in tools.iterdir():
            tool.chmod(0o755)
        self.log = self.folder / "pcluster.log"
        # ssh is asked and says nothing: the machines are moto's.
        ssh = self.folder / "programs/ssh"
        ssh.parent.mkdir()
        ssh.write_text('#!/bin/sh\necho "$@" >>"$FAKE_SSH_LOG"\n')
        ssh.chmod(0o755)
        self.ssh_log = self.folder / "ssh.log"
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("AWS_")},
            "HOME": str(self.folder / "home"), "LOCKSTEP_CACHE": str(self.folder / "cache"),
            "XDG_STATE_HOME": str(self.folder / "state"), "XDG_CONFIG_HOME": str(self.folder / "config"),
            "AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_EC2_METADATA_DISABLED": "true", "FAKE_PCLUSTER_LOG": str(self.log),
            "FAKE_SSH_LOG": str(self.ssh_log), "PATH": f"{ssh.parent}:{os.environ['PATH']}", "COLUMNS": "120"}
        (self.folder / "home").mkdir()
        self.package = self.folder / "lockstep-0.1-linux-x86_64.tar.gz"
        self.package.write_bytes(b"not unpacked in these tests")

    def start(self, *words, environment=None, stderr=subprocess.DEVNULL):
        return subprocess.Popen([runs.PROGRAM, "cloud", *map(str, words)], cwd=self.folder, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=stderr, text=True,
                                env={**self.environment, **(environment or {})})

    def run(self, *words, environment=None, timeout=120):
        return subprocess.run([runs.PROGRAM, "cloud", *map(str, words)], cwd=self.folder, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=timeout, check=False,
                              env={**self.environment, **(environment or {})})

    def create_words(self, name, *more):
        return ["create", name, "--region", self.region, "--type", "g5.12xlarge", "--workers", "8", "--key", "mine",
                "--package", str(self.package), "--yes", *more]

    def ask(self, code):
        self.own = self.own or Asker(self.environment["AWS_ENDPOINT_URL"], self.region)
        return self.own(code)

    def close(self):
        if self.own is not None:
            self.own.close()

    def bucket(self):
        """{name: bytes} of what was put into all buckets."""
        folder = self.folder / "bucket"
        folder.mkdir(exist_ok=True)
        self.boto(f"""
for bucket in s3.list_buckets()['Buckets']:
    for item in s3.list_objects_v2(Bucket=bucket['Name'])['Contents']:
        s3.download_file(bucket['Name'], item['Key'], '{folder}/' + item['Key'])
""")
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    def make_key(self):
        self.boto("ec2.create_key_pair(KeyName='mine')")

    def left(self, name):
        """Everything with the cluster's tag, by other code than Lockstep's."""
        return self.boto(f"""
wanted = [{{'Name': 'tag:lockstep-cluster', 'Values': ['{name}']}}]
left = [one['InstanceId'] for group in ec2.describe_instances(Filters=wanted)['Reservations']
        for one in group['Instances'] if one['State']['Name'] not in ('terminated', 'shutting-down')]
left += [one['VolumeId'] for one in ec2.describe_volumes(Filters=wanted)['Volumes']]
left += [one['GroupId'] for one in ec2.describe_security_groups(Filters=wanted)['SecurityGroups']]
left += [one['StackName'] for one in cfn.describe_stacks()['Stacks']
         if any(tag['Value'] == '{name}' for tag in one['Tags'])]
left += [one['Name'] for one in s3.list_buckets()['Buckets']]
print(' '.join(left))
""").split()
