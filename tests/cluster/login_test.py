#!/usr/bin/env python3
"""From a laptop that has no Slurm, no shared disk and no way to the nodes: jobs of a cluster through its login node, by
the system's ssh and a real sshd."""

import os
import subprocess
import unittest

import jobs_on_slurm
import runs
import slurm

OPTIONS = [*runs.SMALL, "--gradient-clip", "1", "--augment", "shift"]
LAPTOP = "laptop"
SECONDS = 150
SSHD = """\
Port 22
ListenAddress 10.78.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile {folder}/sshd.pid
StrictModes no
PermitRootLogin yes
UsePAM no
PasswordAuthentication no
SetEnv SLURM_CONF={folder}/slurm.conf LOCKSTEP_JOBS={folder}/jobs XDG_CONFIG_HOME={folder}/there \
XDG_CACHE_HOME={folder}/there
"""
SSH = """\
Host login
  HostName 10.78.0.1
  User root
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
"""


class Login(runs.TestFolders, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = jobs_on_slurm.Cluster()
        cls.enterClassContext(cls.cluster)
        for node in range(2):
            cls.cluster.know(node, {f"machine-{other}": cls.cluster.address(other) for other in range(2)})
        cls.home = cls.folder / "laptop"
        cls.home.mkdir()
        cls.connect_laptop()
        cls.start_sshd()

    @classmethod
    def connect_laptop(cls):
        cls.cluster.make(LAPTOP, LAPTOP)
        cls.cluster.connect(0, "office", LAPTOP, "office")
        for machine, number in ((0, 1), (LAPTOP, 2)):
            cls.cluster.run(machine, "sh", "-c",
                            f"ip address add 10.78.0.{number}/24 dev office && ip link set office up")

    @classmethod
    def start_sshd(cls):
        folder = cls.cluster.folder
        for key in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        (folder / "sshd_config").write_text(SSHD.format(folder=folder))
        (folder / "ssh_config").write_text(SSH.format(folder=folder))
        cls.cluster.run(LAPTOP, "mount", "--bind", folder / "ssh_config", "/etc/ssh/ssh_config")
        cls.cluster.run(0, "sh", "-c", "mkdir -p /run/sshd")
        cls.cluster.daemon(0, "/usr/sbin/sshd", "-D", "-f", str(folder / "sshd_config"))
        cls.cluster.wait("sshd", (folder / "sshd.pid").exists)
        cls.know_host()

    @classmethod
    def know_host(cls):
        key = (cls.cluster.folder / "host_key.pub").read_text()
        (cls.cluster.folder / "known_hosts").write_text(f"10.78.0.1 {key}")

    def on_laptop(self, *words, status=0, environment=None):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
        done = subprocess.run(self.cluster.command(LAPTOP, *words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False,
                              env={**clean, "XDG_CONFIG_HOME": str(self.home), "LOCKSTEP_JOBS": str(self.home / "jobs"),
                                   **(environment or {})})
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def lockstep(self, *words, **how):
        return self.on_laptop(*runs.command(*words), **how)

    def profile(self, name, *options):
        self.lockstep("cluster", "create", name, "--login", "login", "--program", runs.PROGRAM, *options)

    def test_there_is_no_other_way(self):
        self.on_laptop("sh", "-c", "! ip route get 10.77.0.2")

    def test_the_machines_are_shown(self):
        self.profile("shown")
        text = self.lockstep("cluster", "show", "shown")
        self.assertRegex(text, r"machine-0 +idle +4")
        self.assertRegex(text, r"machine-1 +idle +4")

    def test_a_host_whose_key_is_not_known_is_refused(self):
        self.profile("unknown")
        (self.cluster.folder / "known_hosts").write_text("")
        self.addCleanup(self.know_host)
        text = self.lockstep("cluster", "show", "unknown", status=1, environment={"XDG_CACHE_HOME": str(self.home / "c")})
        self.assertIn("cannot reach login: ", text)
        self.assertIn("ssh login", text)

    def test_a_job_from_here_and_its_files_back(self):
        self.profile("far", "--nodes", "2", "--workers", "2")
        alone = self.folder / "alone"
        runs.train(self.digits, alone, *OPTIONS)
        printed = self.lockstep("batch", "--profile", "far", "--name", "digits", "--", "train", self.digits, *OPTIONS)
        self.assertIn("job far:1", printed)
        self.lockstep("job", "wait", "far:1")
        self.assertIn("held-out accuracy", self.lockstep("job", "diary", "far:1"))
        self.assertRegex(self.lockstep("jobs"), r"far, at login(.|\n)*digits +(.|\n)*ended")
        self.lockstep("job", "fetch", "far:1", self.home / "here")
        fetched = next(self.home.glob("here/**/model.safetensors"))
        self.assertEqual(runs.sha256(fetched), runs.weights(alone)[0])

    def test_secrets_are_in_no_file(self):
        secret = "s3cr3t-of-this-test"
        self.profile("sealed", "--secrets", "OUR_KEY")
        text = self.lockstep("batch", "--profile", "sealed", "--", "true", status=2)
        self.assertIn("the secret OUR_KEY of the profile \"sealed\" is not in the environment", text)
        printed = self.lockstep("batch", "--profile", "sealed", "--", "sh", "-c", "echo ${#OUR_KEY} letters",
                                environment={"OUR_KEY": secret})
        job = printed.split()[1]
        self.lockstep("job", "wait", job)
        self.assertIn(f"{len(secret)} letters", self.lockstep("job", "diary", job))
        ours = [self.home, self.cluster.folder / "jobs", self.cluster.folder / "there"]
        found = subprocess.run(["grep", "-r", "-l", secret, *ours], capture_output=True, text=True, check=False)
        self.assertEqual(found.stdout, "")


if __name__ == "__main__":
    slurm.require(*slurm.PROGRAMS, "sshd", "ssh-keygen")
    unittest.main()
