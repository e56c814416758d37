#!/usr/bin/env python3
"""Pools on a real Slurm when something fails: a worker that dies is named and started again, also when its machine
dies; the output of workers arrives; an idle pool ends; a client that is silent loses its pool.

usage: pool_faults_test.py CLIENT
"""

import os
import pathlib
import signal
import sys
import time
import unittest

import pools_on_slurm
import runs
import slurm

CLIENT = pathlib.Path(sys.argv.pop(1)).resolve()


class PoolFaults(pools_on_slurm.OnSlurm, unittest.TestCase):
    MACHINES = 3  # the first is the switch between the others
    PROFILE = {"nodes": 2, "workers": 4, "idle-limit": 600}

    def restart(self, node):
        self.cluster.restart(node)
        self.cluster.know(node, self.names())
        runs.wait_for(lambda: self.cluster.idle_nodes() == self.MACHINES)

    def open(self):
        client = self.start(CLIENT)
        self.say(client, "where")
        return client

    def say(self, client, word):
        """What the client answers."""
        client.stdin.write(word + "\n")
        client.stdin.flush()
        answer = client.stdout.readline()
        while "done" not in answer and "failed" not in answer:
            self.assertNotEqual(answer, "", "the client has ended")
            answer += client.stdout.readline()
        return answer

    def where(self, client):
        """(host, process, sum, variable, secret) of each worker."""
        answer = self.say(client, "where")
        self.assertTrue(answer.endswith("done\n"), answer)
        return [tuple(one.split()) for one in answer.split(";")[:-1]]

    def leave(self, client):
        client.stdin.write("quit\n")
        client.stdin.flush()
        output, errors = self.finish(client)
        self.check_all_over()
        return output, errors

    def workers(self, node):
        """Processes of workers on a node, as this machine numbers them."""
        inside = self.cluster.ask("sh", "-c", "grep -l -a -e --lockstep-worker /proc/[0-9]*/cmdline", machine=node)
        numbers = {file.split("/")[2] for file in inside.split()}
        found = []
        for file in pathlib.Path("/proc").glob("[0-9]*/status"):
            try:
                if b"--lockstep-worker" not in (file.parent / "cmdline").read_bytes():
                    continue
                names = next(line for line in file.read_text().splitlines() if line.startswith("NSpid:")).split()
            except OSError:
                continue
            same = os.stat(file.parent / "ns/pid").st_ino == os.stat(f"/proc/{self.cluster.holders[node]}/ns/pid").st_ino
            if same and names[-1] in numbers:
                found.append(int(file.parent.name))
        return found

    def test_workers_are_on_both_machines_with_what_they_were_given(self):
        client = self.open()
        places = self.where(client)
        self.assertEqual([place[0] for place in places], ["machine-0", "machine-0", "machine-1", "machine-1"])
        self.assertEqual({place[2:] for place in places}, {("10", "given", "none")})
        shown = self.say(client, "workers").split(";")[:-1]
        self.assertEqual([one.split()[:2] for one in shown], [list(place[:2]) for place in places])
        answer = self.say(client, "print")
        output, errors = self.leave(client)
        self.assertEqual(sorted(line for line in (answer + output).splitlines() if line.startswith("out")),
                         ["out 0", "out 1", "out 2", "out 3"])
        self.assertEqual(sorted(line for line in errors.splitlines() if line.startswith("err")),
                         ["err 0", "err 1", "err 2", "err 3"])

    def test_a_worker_that_dies_is_named_and_started_again(self):
        client = self.open()
        before = self.where(client)
        client.stdin.write("silence\n")
        client.stdin.flush()
        time.sleep(0.5)
        os.kill(self.workers(1)[0], signal.SIGKILL)
        answer = client.stdout.readline()
        self.assertRegex(answer, r"failed: worker [23] \(process \d+\) on machine-1 was killed by signal 9")
        after = self.where(client)
        self.assertEqual([place[0] for place in after], [place[0] for place in before])
        self.assertEqual(len({place[1] for place in after} - {place[1] for place in before}), 1)
        self.assertEqual(len(self.states()), self.jobs_before + 1)
        self.leave(client)

    def setUp(self):
        self.jobs_before = len(self.states())

    def test_an_idle_pool_ends_and_the_next_call_opens_another(self):
        self.write_profile("ours", **{**self.PROFILE, "idle-limit": 2})
        self.addCleanup(self.write_profile, "ours", **self.PROFILE)
        client = self.open()
        runs.wait_for(lambda: "RUNNING" not in self.states(), seconds=20)
        self.assertEqual(len(self.where(client)), 4)
        self.assertEqual(len(self.states()), self.jobs_before + 2)
        _, errors = self.leave(client)
        self.assertEqual(errors.count("connected to 4 processes"), 2)
        self.assertIn("nobody has used the pool for 2 s", errors)

    @unittest.skipUnless(runs.IS_LONG, "takes a minute: LOCKSTEP_LONG=1")
    def test_a_client_that_is_silent_for_a_minute_loses_its_pool(self):
        client = self.open()
        for process in self.clients(CLIENT):
            os.kill(process, signal.SIGSTOP)
        start = time.monotonic()
        runs.wait_for(lambda: "RUNNING" not in self.states(), seconds=90)
        self.assertGreater(time.monotonic() - start, 50)
        for process in self.clients(CLIENT):
            os.kill(process, signal.SIGCONT)
        runs.wait_for(lambda: "failed" not in self.say(client, "where"))  # first it is told of the loss
        self.leave(client)

    def test_another_machine_replaces_one_that_dies(self):
        self.write_profile("ours", **{**self.PROFILE, "workers": 2})
        self.addCleanup(self.write_profile, "ours", **self.PROFILE)
        client = self.open()
        self.assertEqual([place[0] for place in self.where(client)], ["machine-0", "machine-1"])
        client.stdin.write("silence\n")
        client.stdin.flush()
        time.sleep(0.5)
        self.cluster.crash(1)
        self.addCleanup(self.restart, 1)
        answer = client.stdout.readline()
        self.assertRegex(answer, r"failed: worker 1 \(process \d+\) on machine-1 ")
        places = [place[0] for place in self.where(client)]
        self.assertEqual(places[0], "machine-0")
        self.assertIn(places[1], ["machine-0", "machine-2"])
        _, errors = self.leave(client)
        self.assertIn("worker 1 is gone; submits a job to replace it", errors)


if __name__ == "__main__":
    slurm.require(*slurm.PROGRAMS)
    unittest.main()
