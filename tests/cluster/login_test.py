#!/usr/bin/env python3
"""From a laptop that has no Slurm, no shared disk and no way to the nodes: jobs of a cluster through its login node, by
the system's ssh and a real sshd."""

import contextlib
import functools
import json
import os
import pathlib
import pty
import re
import subprocess
import unittest

import jobs_on_slurm
import laptop
import runs
import slurm
import ssh
import sweeps

OPTIONS = [*runs.SMALL, "--gradient-clip", "1", "--augment", "shift"]
POOL_COMMANDS = runs.PROGRAM.parent / "lockstep_pool_commands"
JOB_TASKS = runs.PROGRAM.parent / "lockstep_job_tasks"
CUSTOM_LOOP = runs.PROGRAM.parent / "lockstep_example_custom_loop"
SETTINGS = """\
SetEnv SLURM_CONF={folder}/slurm.conf LOCKSTEP_JOBS={folder}/jobs XDG_CONFIG_HOME={folder}/there \
XDG_CACHE_HOME={folder}/there
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
        cls.laptop = laptop.Laptop(cls.cluster, cls.home, "login", settings=SETTINGS.format(folder=cls.cluster.folder))

    @classmethod
    @functools.cache
    def alone(cls):
        """The weights of one process on this machine."""
        runs.train(cls.digits, cls.folder / "alone", *OPTIONS)
        return runs.weights(cls.folder / "alone")

    def lockstep(self, *words, **how):
        return self.laptop.lockstep(*words, **how)

    def profile(self, name, *options):
        self.lockstep("cluster", "create", name, "--login", "login", "--program", runs.PROGRAM, *options)

    def test_a_program_on_the_laptop_has_a_pool_on_the_nodes(self):
        expected = subprocess.run([CUSTOM_LOOP, self.digits, "--processes", "2"], cwd=self.folder, check=True, text=True,
                                  stdout=subprocess.PIPE, timeout=laptop.SECONDS).stdout
        self.profile("pool", "--nodes", 2, "--workers", 4)
        self.lockstep("cluster", "default", "pool")
        self.addCleanup(self.lockstep, "cluster", "default", "local")
        printed = self.laptop.run("env", "-C", self.home, CUSTOM_LOOP, self.digits, "--processes", 4)
        self.assertIn(expected, printed)
        self.assertIn('starting a pool of 4 processes of the profile "pool"', printed)
        self.assertIn("machine-[0-1]", self.cluster.nodes_of_jobs())

    def test_secrets_of_the_laptop_reach_the_workers(self):
        self.profile("pool", "--nodes", 2, "--workers", 4, "--secrets", "KEY_OF_A_STORE")
        self.lockstep("cluster", "default", "pool")
        self.addCleanup(self.lockstep, "cluster", "default", "local")
        printed = self.laptop.run("sh", "-c", f"echo where | {POOL_COMMANDS}", environment={"KEY_OF_A_STORE": "open-sesame"})
        self.assertEqual(printed.count("10 given open-sesame;"), 4, printed)

    def test_a_task_is_a_job_there_whose_result_comes_here(self):
        self.profile("tasks", "--nodes", 2, "--workers", 4)

        def call(*words, status=0):
            return self.laptop.run(JOB_TASKS, *words, status=status)

        job = call("submit", 1, 100, 4, "tasks").strip()
        self.assertRegex(job, r"tasks:\d+")
        self.assertTrue(call("collect", job).startswith("5050 by 4, 100 squares, the last 10000; said"))
        self.assertEqual(self.cluster.nodes_of_jobs()[-1], "machine-[0-1]")
        failed = call("submit", 5, 1, 2, "tasks").strip()
        said = call("collect", failed, status=2)
        self.assertIn("the span is empty", said)
        self.assertIn(f"in job {failed}", said)
        other = self.cluster.srun("--nodes=2", "--ntasks=2", "--exclusive", "sleep", "60")
        self.cluster.wait("the other job", lambda: self.cluster.idle_nodes() == 0)
        waiting = call("submit", 1, 2, 2, "tasks").strip()
        call("cancel", waiting)
        self.assertIn(f"job {waiting} was cancelled", call("collect", waiting, status=130))
        other.kill()
        other.communicate()

    def test_the_machines_are_shown_to_a_program(self):
        self.profile("handle", "--nodes", 2)
        self.cluster.wait("the end of other jobs", lambda: self.cluster.idle_nodes() == 2)
        printed = self.laptop.run(JOB_TASKS, "machines", "handle")
        self.assertRegex(printed, r"handle is up\nmachine-0 idle 4\nmachine-1 idle 4\n")

    def test_a_program_that_is_not_on_the_login_node_is_named(self):
        self.profile("pool", "--nodes", 2, "--workers", 4)
        self.lockstep("cluster", "default", "pool")
        self.addCleanup(self.lockstep, "cluster", "default", "local")
        other = self.home / "only_here"
        self.cluster.run(laptop.NAME, "sh", "-c", f"mkdir -p {other} && mount -t tmpfs none {other} && "
                         f"cp {CUSTOM_LOOP} {other}/program")
        printed = self.laptop.run(other / "program", self.digits, "--processes", 4, status=1)
        self.assertIn("cannot start the program on login: ", printed)
        self.assertIn("hint: copy it there, to the same path", printed)

    def test_there_is_no_other_way(self):
        self.laptop.run("sh", "-c", "! ip route get 10.77.0.2")

    def test_the_machines_are_shown(self):
        self.profile("shown")
        self.cluster.wait("the end of other jobs", lambda: self.cluster.idle_nodes() == 2)
        text = self.lockstep("cluster", "show", "shown")
        self.assertRegex(text, r"machine-0 +idle +4")
        self.assertRegex(text, r"machine-1 +idle +4")

    def test_a_host_whose_key_is_not_known_is_refused(self):
        self.profile("unknown")
        self.laptop.servers.forget_hosts()
        self.addCleanup(self.laptop.servers.know_hosts)
        text = self.lockstep("cluster", "show", "unknown", status=1, environment={"XDG_CACHE_HOME": str(self.home / "c")})
        self.assertIn("cannot reach login: ", text)
        self.assertIn("ssh login", text)

    def test_a_job_from_here_and_its_files_back(self):
        self.profile("far", "--nodes", "2", "--workers", "2")
        printed = self.lockstep("batch", "--profile", "far", "--name", "digits", "--", "train", self.digits, *OPTIONS)
        self.assertIn("job far:1", printed)
        self.lockstep("job", "wait", "far:1")
        self.assertIn("held-out accuracy", self.lockstep("job", "diary", "far:1"))
        self.assertRegex(self.lockstep("jobs"), r"far, at login(.|\n)*digits +(.|\n)*ended")
        self.check_list_as_json("far:1")
        self.lockstep("job", "fetch", "far:1", self.home / "here")
        fetched = next(self.home.glob("here/**/model.safetensors"))
        self.assertEqual(runs.sha256(fetched), self.alone()[0])
        for option, count in (("--checkpoints=false", 0), ("--checkpoints", 1)):
            self.lockstep("job", "fetch", "far:1", self.home / option, option)
            self.assertEqual(len(list(self.home.glob(f"{option}/run/checkpoints"))), count)

    def test_files_of_one_name_are_all_sent(self):
        self.profile("files")
        for folder, text in (("lists", "sh -c 'cat $LOCKSTEP_SHIPPED/one'\n"), ("shipped", "what was shipped\n")):
            (self.home / folder).mkdir()
            (self.home / folder / "one").write_text(text)
        job = self.lockstep("batch", "--profile", "files", "--commands", self.home / "lists/one", "--ship",
                            self.home / "shipped/one").split()[1]
        self.lockstep("job", "wait", job)
        self.assertIn("what was shipped", self.lockstep("job", "diary", job))

    def test_a_sweep_that_is_begun_and_looked_at_from_here(self):
        """Its folder and its jobs are there, and its table is that of this machine."""
        self.profile("swept")
        search = ["--count", "4", "--lag", "2", "--seed", "1", "--learning-rate", "0.001..0.1:log", "--param",
                  "seed=1..5"]
        training = ["--", "train", self.digits, "--validation", self.held_out, *runs.SMALL]
        runs.run("sweep", *search, "--trials", "1", "--output", self.folder / "trials-here", *training)
        sweep = f"swept:{self.folder}/there"
        printed = self.lockstep("sweep", "--profile", "swept", *search, "--trials", "2", "--output", sweep, *training)
        self.assertRegex(printed, rf"jobs swept:\d+, swept:\d+\nlockstep sweep watch {sweep} shows the trials\n")
        self.watch_on_a_terminal(sweep)
        self.lockstep("sweep", "watch", sweep)
        self.lockstep("sweep", "annotate", sweep, "1", "--", "-5 or", "--less")
        self.assertIn("-5 or --less", self.lockstep("sweep", "show", sweep))
        self.lockstep("sweep", "annotate", sweep, "1", "two words; and 'quotes'")
        self.assertIn(f"hint: lockstep sweep show {sweep} lists them",
                      self.lockstep("sweep", "annotate", sweep, "99", "a note", status=1))
        rows = json.loads(self.lockstep("sweep", "export", sweep, "--json", "-"))
        self.assertEqual(rows[1].pop("note"), "two words; and 'quotes'")
        for row in rows:
            del row["seconds"]
        self.assertEqual(rows, sweeps.table(self.folder / "trials-here"))
        self.assertIn(f"lockstep sweep export {sweep} --csv - > rows.csv",
                      self.lockstep("sweep", "export", sweep, "--csv", "rows.csv", status=2))
        self.lockstep("report", sweep)
        self.assertTrue((self.folder / "there/report.html").is_file())
        self.assertIn(f"with lockstep sweep --resume --output {sweep}\n", self.lockstep("sweep", "restart", sweep, "1"))
        self.assertRegex(self.lockstep("sweep", "--resume", "--count", "5", "--output", sweep), r"jobs swept:\d+")
        self.lockstep("sweep", "watch", sweep)
        self.assertEqual(len(json.loads(self.lockstep("sweep", "export", sweep, "--json", "-"))), 5)
        self.assertFalse(pathlib.Path(sweep).exists())
        self.profile("other")
        self.assertIn("is not of the profile", self.lockstep("sweep", "--resume", "--profile", "swept", "--output",
                                                             "other:there", status=2))

    def test_a_sweep_there_is_fetched(self):
        """While it goes on, and the rest at its end; its jobs are not those of this machine."""
        self.profile("fetched")
        there, here, go = self.folder / "fetched-there", self.home / "fetched-here", self.folder / "fetched-go"
        sweep = f"fetched:{there}"
        script = f"test $1 = 1 || while ! test -e {go}; do sleep 0.1; done; echo result $1"
        self.lockstep("sweep", "--profile", "fetched", "--search", "grid", "--x", "1..2", "--trials", "1", "--output", sweep, "--",
                      "sh", "-c", script, "name", "{x}")
        self.addCleanup(go.touch)
        self.cluster.wait("the second trial", lambda: len(sweeps.lines(there, "begin")) == 2)
        self.assertIn("the sweep goes on", self.lockstep("sweep", "fetch", sweep, here))
        self.assertIn("2 trials: 1 waiting, 1 ended", self.lockstep("sweep", "show", here))
        said = self.lockstep("sweep", "--resume", "--output", here, status=2)
        self.assertIn(f"hint: lockstep sweep --resume --output {sweep}; ", said)
        go.touch()
        self.lockstep("sweep", "watch", sweep)
        self.cluster.wait("the end of its job", lambda: "goes on" not in self.lockstep("sweep", "show", sweep))
        self.assertNotIn("goes on", self.lockstep("sweep", "fetch", sweep, here))
        self.assertEqual(self.lockstep("sweep", "export", here, "--csv", "-"),
                         self.lockstep("sweep", "export", sweep, "--csv", "-"))
        self.assertIn(f'is a copy of "{sweep}"; run the command there', self.lockstep("sweep", "best", here))
        self.lockstep("report", here)
        self.assertTrue((here / "report.html").is_file())
        self.assertEqual([(here / name).exists() for name in ("jobs.json", "runners", "claims", "lock")], [False] * 4)
        self.assertIn("is not the folder of a sweep", self.lockstep("sweep", "fetch", f"fetched:{self.folder}/none", status=1))

    def test_a_sweep_whose_file_names_its_folder_there(self):
        self.profile("filed")
        sweep, search = f"filed:{self.folder}/filed", self.home / "search.json"
        search.write_text(json.dumps({"command": ["echo", "result", "{x}"], "parameters": {"x": "1..2"}, "search": "grid",
                                      "output": sweep}))
        for options in ([], ["--profile", "filed"]):  # the second continues it
            self.assertIn(f"lockstep sweep watch {sweep} shows", self.lockstep("sweep", *options, search))
            self.lockstep("sweep", "watch", sweep)
        self.assertIn("2 trials: 2 ended", self.lockstep("sweep", "show", sweep))
        self.assertFalse(pathlib.Path(sweep).exists())
        self.assertIn("is not of the profile", self.lockstep("sweep", "--profile", "filed", "--output", "local:there",
                                                             "--resume", status=2))

    def test_a_watch_that_is_interrupted_has_ended_well(self):
        self.profile("watched")
        sweep = f"watched:{self.folder}/watched"
        printed = self.lockstep("sweep", "--search", "grid", "--x", "1..2", "--trials", "1", "--output", sweep, "--", "sh",
                                "-c", "sleep 300; echo result {x}")
        client = self.laptop.start(*runs.command("sweep", "watch", sweep))
        self.assertIn("trial", client.stdout.readline())
        self.laptop.interrupt(client)
        said = client.communicate(timeout=60)[1]
        self.assertEqual(client.returncode, 0, said)
        self.lockstep("job", "cancel", re.search(r"jobs (watched:\d+)\n", printed)[1])

    def watch_on_a_terminal(self, sweep):
        """Until the sweep's end, without keys: the table of a terminal would wait for one."""
        leader, follower = pty.openpty()
        client = self.laptop.start(*runs.command("sweep", "watch", sweep), stdin=follower, stdout=follower, stderr=follower)
        os.close(follower)
        seen = b""
        with contextlib.suppress(OSError):  # at the end of who prints
            while part := os.read(leader, 1000):
                seen += part
                self.assertNotIn(b"\x1b[?1049h", seen)
        self.assertEqual(client.wait(timeout=30), 0)
        os.close(leader)
        self.assertIn(b"4 trials: 4 ended", seen)

    def check_list_as_json(self, there):
        """It has the jobs of the table, with the fields that each has where it is."""
        here = self.lockstep("batch", "--profile", "local", "--", "true").split()[1]
        self.lockstep("job", "wait", here)
        listed = {job["id"]: job for job in self.jobs()}
        for job in (here, there):
            shown = json.loads(self.lockstep("job", "show", job, "--json"))
            self.assertEqual(listed[job], {name: shown[name] for name in listed[job]})
        self.assertEqual(set(listed[here]) - set(listed[there]), set())
        self.assertEqual((listed[here]["profile"], listed[there]["profile"]), ("local", "far"))
        self.assertIn(there, {job["id"] for job in self.jobs("--state", "ended")})
        self.assertNotIn(there, {job["id"] for job in self.jobs("--state", "failed")})
        self.assertEqual([job["id"] for job in self.jobs("--here")], [here])
        self.assertNotIn("far, at login", self.lockstep("jobs", "--here"))

    def jobs(self, *options):
        return json.loads(self.lockstep("jobs", "--json", *options))

    def test_parallel_training_is_a_job_there_whose_run_comes_here(self):
        self.profile("afar", "--nodes", "2", "--workers", "4")
        self.lockstep("cluster", "default", "afar")
        self.addCleanup(self.lockstep, "cluster", "default", "local")
        words = ["train", self.digits, *OPTIONS, "--execution", "parallel", "--output"]
        run = self.home / "results/parallel"
        printed = self.lockstep(*words, run)
        self.assertRegex(printed, r'job afar:\d+ of the profile "afar" trains(.|\n)*epoch +2')
        self.assertEqual(runs.weights(run), self.alone())
        self.assertIn("on each of 4 ranks, over gloo", runs.plan_line(run, "workers"))
        self.assertEqual([file.name for file in run.parent.iterdir()], ["parallel"])
        self.assertIn("cannot be resumed from here", self.lockstep(*words, run, "--resume", status=2))

        run = self.home / "results/detached"
        client = self.laptop.start(*runs.command(*words, run, "--max-epochs", "60"))
        said = client.stderr.readline()
        job = re.search(r"job (afar:\d+) ", said)[1]
        self.assertIn("epoch", client.stdout.readline() + client.stdout.readline() + client.stdout.readline())
        self.laptop.interrupt(client)
        printed, said = client.communicate(timeout=60)
        self.assertEqual(client.returncode, 130, said)
        self.assertIn(f"detached; the job goes on: lockstep job attach {job}\nfor its run, when it is over: lockstep job "
                      f"fetch {job} {run}\n", said)
        self.attach_on_a_terminal(job)
        self.lockstep("job", "wait", job)
        self.lockstep("job", "fetch", job, run)
        self.assertTrue((run / "run/model.safetensors").exists())

    def attach_on_a_terminal(self, job):
        leader, follower = pty.openpty()
        client = self.laptop.start(*runs.command("job", "attach", job), stdin=follower, stdout=follower, stderr=follower)
        os.close(follower)
        seen = b""
        while b"\x1b[" not in seen or b"epoch" not in seen:  # it draws
            seen += os.read(leader, 1000)
        self.laptop.interrupt(client)
        while b"detached; the job goes on: lockstep job attach " + job.encode() not in seen:
            seen += os.read(leader, 1000)
        self.assertEqual(client.wait(timeout=30), 0)
        os.close(leader)

    def test_many_commands_are_one_array(self):
        folder = self.cluster.folder / "array"
        folder.mkdir()
        (folder / "commands").write_text("".join(f"sh -c 'echo number {n}; exit {n % 2}'\n" for n in range(3)))
        there = {**self.cluster.environment(), "LOCKSTEP_JOBS": str(folder / "jobs"), "XDG_CONFIG_HOME": str(folder)}

        def lockstep(*words):
            return subprocess.run(self.cluster.command(0, *runs.command(*words)), env=there, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=laptop.SECONDS, check=False).stdout

        lockstep("cluster", "create", "here", "--program", runs.PROGRAM, "--memory", "0")  # all of a node
        self.assertEqual(lockstep("batch", "--profile", "here", "--commands", folder / "commands").split(),
                         ["job", "1", "job", "2", "job", "3"])
        for job in ("1", "2", "3"):
            lockstep("job", "wait", job)
            self.assertIn(f"number {int(job) - 1}", lockstep("job", "diary", job))
        states = {str(job["id"]): job["state"] for job in json.loads(lockstep("jobs", "--json"))}
        self.assertEqual(states, {"1": "ended", "2": "failed", "3": "ended"})
        names = self.cluster.ask("squeue", "-h", "-t", "all", "-o", "%F %K").splitlines()
        newest = max(int(name.split()[0]) for name in names)  # other tests have arrays, too
        self.assertCountEqual([name for name in names if name.startswith(f"{newest} ")],
                              [f"{newest} {task}" for task in range(3)], names)

    def test_secrets_are_in_no_file(self):
        """Also one that its name does not give away, of the profile or of the command alone."""
        secret = "s3cr3t-of-this-test"
        self.profile("sealed", "--secrets", "OUR_PLACE")
        text = self.lockstep("batch", "--profile", "sealed", "--", "true", status=2)
        self.assertIn("the secret OUR_PLACE of the profile \"sealed\" is not in the environment", text)
        self.profile("open")
        for options in (["--profile", "sealed"], ["--profile", "open", "--secrets", "OUR_PLACE"]):
            printed = self.lockstep("batch", *options, "--", "sh", "-c", "echo ${#OUR_PLACE} letters",
                                    environment={"OUR_PLACE": secret})
            job = printed.split()[1]
            self.lockstep("job", "wait", job)
            self.assertIn(f"{len(secret)} letters", self.lockstep("job", "diary", job))
        ours = [self.home, self.cluster.folder / "jobs", self.cluster.folder / "there"]
        found = subprocess.run(["grep", "-r", "-l", secret, *ours], capture_output=True, text=True, check=False)
        self.assertEqual(found.stdout, "")


if __name__ == "__main__":
    slurm.require(*slurm.PROGRAMS, *ssh.PROGRAMS)
    unittest.main()
