#!/usr/bin/env python3
"""The profile that `lockstep cloud create` writes, unchanged, on a real Slurm set up as ParallelCluster sets it up, from
a machine that only has ssh to its head node: jobs, pools, the notice of spot machines, the stop when nothing
progresses."""

import base64
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import unittest

import jobs_on_slurm
import laptop
import parallel_cluster
import runs
import ssh

import aws_services
import yaml_of

OPTIONS = [*runs.SMALL, *runs.NO_MEETINGS, "--gradient-clip", "1", "--augment", "shift"]
MACHINE = ["--type", "c7i.2xlarge", "--workers", "8"]  # two machines of four cores
LONG = ["--max-epochs", "60"]  # 420 steps
STEP = 30
LIMITS = ["--idle", "30m", "--budget", "50"]
REAL_MINUTES = 3
METADATA = "169.254.169.254"
CUSTOM_LOOP, WHITE_PAPER = (runs.PROGRAM.parent / f"lockstep_example_{name}" for name in ("custom_loop", "white_paper"))
POOL_COMMANDS = runs.PROGRAM.parent / "lockstep_pool_commands"
# Where the image's and Lockstep's files of a machine are, besides those that all machines share.
OWN_FOLDERS = ["/usr/local/bin", "/usr/local/sbin", "/etc/systemd", "/etc/profile.d", "/etc/slurm", "/var/lib", "/opt",
               "/home", "/shared"]
# The metadata service of a spot machine that AWS takes back.
NOTICE = """
import http.server
class Metadata(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"action": "terminate"}')
    do_PUT = do_GET
http.server.HTTPServer(("%s", 80), Metadata).serve_forever()
""" % METADATA


def console(key):
    """EC2's answer with the console of a machine that has this key of ssh: the recorded form of cloud-init's lines."""
    text = ("Cloud-init v. 25.2 finished\n-----BEGIN SSH HOST KEY KEYS-----\necdsa-sha2-nistp256 AAAAE2VjZHNh= root@ip\n" +
            key.read_text() + "-----END SSH HOST KEY KEYS-----\nlogin: ")
    return ("<GetConsoleOutputResponse><instanceId>i-0</instanceId><timestamp>2026-01-01T00:00:00Z</timestamp><output>" +
            base64.b64encode(text.encode()).decode() + "</output></GetConsoleOutputResponse>")


def package():
    """A tarball with the program that was built, by a link."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        link = tarfile.TarInfo("lockstep-0.1/bin/lockstep")
        link.type, link.linkname = tarfile.SYMTYPE, str(runs.PROGRAM)
        tar.addfile(link)
    return data.getvalue()


class CloudCluster(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        moto = stack.enter_context(aws_services.moto())
        relay = stack.enter_context(aws_services.Relay(moto))
        cls.account = aws_services.Account(cls.folder / "account", relay.address)
        stack.callback(cls.account.close)
        cls.account.make_key()
        cls.account.package.write_bytes(package())
        cls.cluster = parallel_cluster.ParallelCluster()
        ssh.make_keys(cls.cluster.folder)
        relay.recorded["GetConsoleOutput"] = (200, "text/xml", console(cls.cluster.folder / "host_key.pub"))
        done = cls.account.run(*cls.account.create_words("c1", *MACHINE, *LIMITS))
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        cls.cluster.config = yaml_of.read((cls.account.folder / "state/lockstep/cloud/c1/parallelcluster.yaml").read_text())
        cls.profile = json.loads((cls.account.folder / "config/lockstep/clusters/c1.json").read_text())
        cls.cluster.files = cls.account.bucket()
        stack.enter_context(cls.cluster)
        user, address = cls.profile["login"].split("@")
        assert user == parallel_cluster.USER
        cls.laptop = laptop.Laptop(cls.cluster, cls.folder / "laptop", address, address)
        cls.laptop.environment = {"AWS_ACCESS_KEY_ID": aws_services.KEY_ID, "AWS_SECRET_ACCESS_KEY": aws_services.SECRET}
        cls.laptop.servers.forget_hosts()  # the profile has the head node's key
        shutil.copytree(cls.account.folder / "config/lockstep", cls.laptop.home / "lockstep")

    def start(self, name, *options):
        """A job from the laptop: its name there, and what the cluster knows of it."""
        printed = self.laptop.lockstep("batch", "--profile", "c1", "--name", name, "--", "train", self.digits, *OPTIONS,
                                       *options)
        job = printed.split()[1]
        folder = self.cluster.folder / "shared/lockstep-jobs" / job.split(":")[1]
        seen = jobs_on_slurm.Job(self.cluster, folder, json.loads((folder / "submission.json").read_text())["id"])
        seen.run = folder / seen.run  # which the job names from its folder
        return job, seen

    def alone(self, *options):
        folder = self.folder / f"alone{len(options)}"
        if not folder.exists():
            runs.train(self.digits, folder, *OPTIONS, *options)
        return runs.weights(folder)

    def watch(self, *time, **changed):
        """What the watchdog of the head node prints when it looks at a time such as +31m."""
        words = self.cluster.unit(0, "lockstep-watchdog")
        for option, value in changed.items():
            words[words.index("--" + option) + 1] = value
        if time:
            words = ["env", "NO_FAKE_STAT=1", "faketime", "-f", *time, *words]
        return self.cluster.ask(*words)

    def freeze(self, job):
        """The ranks live and make no step."""
        job.wait_for_step(STEP)
        ends = [subprocess.run(self.cluster.command(node, "pkill", "-STOP", "-x", "lockstep-engine"), check=False).returncode
                for node in self.cluster.machines_on()]  # a machine of an earlier job may still be on
        self.assertIn(0, ends)

    def check_stopped(self, job, printed):
        self.assertIn("no step, validation or checkpoint for", printed)
        self.assertRegex(self.cluster.said(), r"shutdown -h now lockstep: no step, validation or checkpoint for \d+:\d\d",
                         printed)
        self.cluster.wait("the workers' end", lambda: self.cluster.machines_on() == [])
        self.assertIn("held", self.cluster.ask("squeue", "-h", "-j", job.id, "-o", "%r").lower())

    def check_goes_on(self, job):
        """The head node starts again: its jobs go on by themselves. Before it has ended, a stop that is repeated and the
        watchdog's timer change nothing."""
        self.cluster.ask("/usr/local/sbin/lockstep-save-jobs")
        self.cluster.ask("/usr/local/sbin/lockstep-release-jobs")
        self.assertIn("held", self.cluster.ask("squeue", "-h", "-j", job.id, "-o", "%r").lower())
        self.cluster.ask("rm", "/var/lib/lockstep/saving")  # names a start, and the next one has another name
        self.cluster.ask("/usr/local/sbin/lockstep-release-jobs")
        self.assertEqual(job.wait_until_over()["end"], "ended", job.said())
        self.assertEqual(runs.weights(job.run), self.alone(*LONG))

    def files_with(self, pattern, node):
        """Files of the machine's own that contain it."""
        return self.cluster.ask("sh", "-c", 'grep -r -a -s -l -e "$@"; true', "-", pattern, *OWN_FOLDERS, machine=node)

    def check_no_key_is_there(self):
        """In no file of the cluster, of its machines or the laptop, and in no process of the cluster."""
        planted = f"{aws_services.KEY_ID}\\|{aws_services.SECRET}"
        found = subprocess.run(["grep", "-r", "-a", "-l", "-e", planted, self.cluster.folder, self.laptop.home],
                               capture_output=True, text=True, check=False)
        self.assertEqual(found.stdout, "")
        for node in (0, *self.cluster.machines_on()):
            self.assertIn("/usr/local/bin/lockstep", self.files_with("/opt/lockstep", node))
            self.assertEqual(self.files_with(planted, node), "")
            processes = self.cluster.ask("sh", "-c", "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline", machine=node)
            self.assertIn("munge" if node == 0 else "slurmd", processes)
            self.assertNotRegex(processes, planted.replace("\\|", "|"))

    def test_a_job_and_its_weights_back(self):
        job, seen = self.start("digits", *LONG)
        seen.wait_for_step(STEP)
        self.check_no_key_is_there()
        self.laptop.lockstep("job", "wait", job)
        self.assertIn("held-out accuracy", self.laptop.lockstep("job", "diary", job))
        self.assertIn("on each of 8 ranks", runs.plan_line(seen.run, "workers"))
        self.laptop.lockstep("job", "fetch", job, self.laptop.home / "here")
        fetched, = self.laptop.home.glob("here/**/model.safetensors")
        self.assertEqual(runs.sha256(fetched), self.alone(*LONG)[0])
        self.check_no_key_is_there()

    def test_the_notice_of_a_spot_machine_is_a_preemption(self):
        _, job = self.start("spot", *LONG)
        job.wait_for_step(STEP)
        node = self.cluster.machines_on()[-1]
        self.addCleanup(self.cluster.ask, "scontrol", "update", f"NodeName=machine-{node}", "State=RESUME")
        self.cluster.run(node, "ip", "address", "add", METADATA + "/32", "dev", "lo")
        self.cluster.daemon(node, sys.executable, "-c", NOTICE)
        self.cluster.daemon(node, *self.cluster.unit(node, "lockstep-spot-notice"))
        self.assertEqual(job.wait_until_over()["end"], "ended", job.said())
        self.assertEqual([attempt["end"] for attempt in job.attempts_ended()], ["stopped", "ended"], job.said())
        self.assertNotIn(f"machine-{node}", job.attempts_ended()[1]["nodes"])
        self.assertEqual(runs.weights(job.run), self.alone(*LONG))

    def test_without_progress_it_stops_and_after_a_start_the_job_goes_on(self):
        _, job = self.start("hangs", *LONG)
        self.freeze(job)
        self.assertEqual(self.watch(), "")
        self.assertEqual(self.watch("+29m"), "")
        self.check_stopped(job, self.watch("+31m"))
        self.check_goes_on(job)

    @unittest.skipUnless(runs.IS_LONG, f"waits {REAL_MINUTES} minutes")
    def test_without_progress_for_real_minutes_it_stops(self):
        """The clock is the real one, and the watchdog looks once a minute, as its timer on the head node makes it."""
        _, job = self.start("hangs-for-minutes", *LONG)
        self.freeze(job)
        begin, looks = time.monotonic(), []
        while not any(looks) and len(looks) < REAL_MINUTES + 2:
            time.sleep(60)
            looks.append(self.watch(idle=f"{REAL_MINUTES}m"))
        print(f"stopped {(time.monotonic() - begin) / 60:.1f} minutes after the last step, at look {len(looks)}")
        self.assertGreaterEqual(len(looks), REAL_MINUTES)
        self.check_stopped(job, looks[-1])
        self.check_goes_on(job)

    def test_machines_that_cannot_be_had_are_named_with_the_reason(self):
        """What ParallelCluster writes into Slurm when AWS has no capacity."""
        said = "(Code:InsufficientInstanceCapacity)Failure when resuming nodes"
        nodes = f"NodeName=machine-[1-{parallel_cluster.WORKERS}]"
        self.addCleanup(self.cluster.ask, "scontrol", "update", nodes, "State=RESUME")
        self.cluster.ask("scontrol", "update", nodes, "State=DOWN", f"Reason={said}")
        self.assertIn(said, self.laptop.lockstep("cluster", "show", "c1"))
        self.assertIn(f"0 of {parallel_cluster.WORKERS} are up; machine-1: {said}",
                      self.laptop.lockstep("cluster", "validate", "c1", status=1))

    def test_a_head_node_with_another_key_is_refused(self):
        other = self.folder / "stranger"
        shutil.copytree(self.laptop.home / "lockstep", other / "lockstep")
        (other / "lockstep/clusters/c1.json").write_text(json.dumps({
            **self.profile, "host-key": "ssh-ed25519 " + self.profile["host-key"].split()[1][:-8] + "AAAAAAAA"}))
        text = self.laptop.lockstep("batch", "--profile", "c1", "--", "true", status=1, environment={
            "XDG_CONFIG_HOME": str(other), "XDG_CACHE_HOME": str(other)})
        self.assertIn("Host key verification failed", text)

    def discovered(self):
        """The settings of a user who has found the cluster by its tag and made it the default."""
        other = self.folder / "other"
        subprocess.run([runs.PROGRAM, "cluster", "discover", "--region", "us-east-1", "--use", "c1"], check=True,
                       stdout=subprocess.DEVNULL, env={**self.account.environment, "XDG_CONFIG_HOME": str(other)})
        return {"XDG_CONFIG_HOME": str(other), "LOCKSTEP_JOBS": str(other / "jobs")}

    def test_found_by_its_tag_it_is_the_default(self):
        there = self.discovered()
        job = self.laptop.lockstep("batch", "--", "sh", "-c", "echo this is $(hostname)", environment=there).split()[1]
        self.assertTrue(job.startswith("c1:"), job)
        self.laptop.lockstep("job", "wait", job, environment=there)
        self.assertIn("this is machine-", self.laptop.lockstep("job", "diary", job, environment=there))

    def test_a_pool_has_its_workers(self):
        """Of a program that names no profile, with the weights that it has here."""
        expected = subprocess.run([CUSTOM_LOOP, self.digits, "--processes", "2"], cwd=self.folder, check=True, text=True,
                                  stdout=subprocess.PIPE, timeout=laptop.SECONDS).stdout
        there = self.discovered()
        printed = self.laptop.run("env", "-C", self.folder, CUSTOM_LOOP, self.digits, "--processes", 8, environment=there)
        self.assertIn(expected, printed)
        self.assertIn('starting a pool of 8 processes of the profile "c1"', printed)
        self.assertTrue(any(re.fullmatch(r"machine-\[\d-\d\]", nodes) for nodes in self.cluster.nodes_of_jobs()))

    def test_while_a_pool_is_open_no_key_is_there(self):
        client = subprocess.Popen(self.cluster.command(laptop.NAME, POOL_COMMANDS), stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, **self.laptop.environment, **self.discovered()})
        self.addCleanup(client.kill)
        print("where", file=client.stdin, flush=True)
        where = client.stdout.readline()
        self.assertEqual(len(set(re.findall(r"machine-\d", where))), 2, where)
        self.assertEqual(where.count(" 36 "), 8, where)  # all ranks' numbers, from 1 to 8
        self.check_no_key_is_there()
        client.communicate("quit\n", timeout=laptop.SECONDS)
        self.assertEqual(client.returncode, 0)

    def test_execution_parallel_is_on_its_workers(self):
        words = [self.digits, "--network", "digits_cnn", "--image-size", "28x28", "--mini-batch-size", 10,
                 "--learning-rate", 0.01, "--max-epochs", 2, "--drop-period", 1, "--workers", 8]
        alone = subprocess.run([WHITE_PAPER, *map(str, words), "--output", "runs/here"], cwd=self.folder, check=True,
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=laptop.SECONDS,
                               env={**os.environ, "XDG_CONFIG_HOME": str(self.folder / "none")}).stdout
        printed = self.laptop.run("env", "-C", self.folder, WHITE_PAPER, *words, "--output", "runs/there",
                                  environment=self.discovered())
        self.assertIn('starting a pool of 8 processes of the profile "c1"', printed)
        self.assertIn(alone.splitlines()[-1], printed)


if __name__ == "__main__":
    aws_services.need()
    parallel_cluster.require()
    unittest.main()
