#!/usr/bin/env python3
"""Fuzzer of Lockstep's promise: the same shards give the same weights, bit for bit, for any workers, ranks, kills and
resumes.

usage: fuzz_weights.py [--lockstep BIN] [--work DIR] [--seed N] [--time-limit SECONDS] [--count N] [--only I[,I...]]
               [--photos FOLDER] [--hang SECONDS] [--keep] [--verbose]

  --lockstep BIN      the program (default: $LOCKSTEP_PROGRAM, else that of the preset release)
  --work DIR          scratch folder; made if it is not there (default: a new folder in $TMPDIR, removed at the end)
  --seed N            which combinations are drawn (default: another one each time, which is printed); combination I
                      of seed N is always the same one
  --time-limit S      begin no new combination after S seconds (default 20, or 300 where LOCKSTEP_LONG is set;
                      0: no limit)
  --count N           at most N combinations (default 1000000)
  --only I,...        only these combinations, whose run folders are kept: use this to look at a failure again
  --photos FOLDER     a folder of class folders with JPEGs; 24 of each of 4 classes are used beside the made-up data
  --hang S            a run that takes longer is a hang (default 60)
  --keep              keep every run folder (default: those of failed combinations)

Needs Python 3.8 and nothing else; makes its own images and sequences. Prints a line for each combination, `FAIL` lines
with the commands that show the failure, and a summary; its last line gives the result and the command that repeats a
failure. The exit status is 1 when anything failed, else 0.

A combination is data, a network and options that decide the weights. It is trained once with one worker, then in some
variants: other numbers of threads, `lockstep run -n 2|3`, other options that must not matter (--cache, --prefetch,
--overlap, ...), and killed at random moments and resumed with other workers. All variants must end with the same exit
status as the first run, and the same bytes in model.safetensors and best.safetensors and the same scores at the end.
What the first run refuses, all variants must refuse, with exit status 1 or 2 and text that begins with `lockstep:`.
"""
import argparse
import collections
import json
import os
import shutil
import signal
import sys
import tempfile
import time

from fuzz_combinations import Combination, runtime_options
from fuzz_data import make_data, write
from fuzz_runs import Runs, left_behind, result_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMUNICATION = [[], ["--overlap=false"], ["--communicator", "gloo"], ["--communicator", "shared"]]


class Fuzz(Runs):
    def __init__(self, args):
        super().__init__(os.path.join(args.work, "cache"), args.hang)
        self.args, self.failures = args, []
        self.data = make_data(args.work, args.photos)
        self.refusals = collections.Counter()

    def fail(self, c, what, commands, text=""):
        self.failures.append((c.index, what))
        print("FAIL %d/%d %s" % (self.args.seed, c.index, what))
        for command in commands:
            print("     $ " + " ".join("'%s'" % w if " " in w or "*" in w else w for w in command))
        for line in text.strip().splitlines()[-12:]:
            print("     | " + line)
        sys.stdout.flush()

    def command(self, c, output, workers, ranks, extra, resume=False, bare=False):
        words = [self.args.lockstep]
        if ranks > 1:
            words += ["run", "-n", str(ranks), self.args.lockstep]
        words += ["train", self.data[c.data], "--output", output]
        if not bare:
            for k, v in c.options.items():
                words += ["--%s=%s" % (k, v)]
        words += ["--workers", str(workers)] + extra + (["--resume"] if resume else [])
        return words

    def combination(self, index):
        c = Combination(self.args.seed, index, self.data)
        home = os.path.join(self.args.work, "c%d-%d" % (self.args.seed, index))
        shutil.rmtree(home, ignore_errors=True)
        os.makedirs(home)
        if c.graph is not None:
            c.options["network"] = os.path.join(home, "net.json")
            write(c.options["network"], json.dumps(c.graph, indent=1))
        before = len(self.failures)
        if c.base and not self.train_base(c, home):
            return
        base_ranks = c.ranks or 1
        first = self.command(c, home + "/first", 1, base_ranks, [])
        status, text, seconds, _ = self.run(first)
        reference = result_of(home + "/first")
        refused = status != 0
        if refused:
            self.judge_refusal(c, status, text, first)
        elif reference["model"] is None:
            self.fail(c, "exit status 0 without model.safetensors", [first], text)
        self.counts["runs"] += 1
        variants = draw_variants(c, refused, base_ranks)
        for number, variant in enumerate(variants):
            self.judge_variant(c, variant, "%s/v%d" % (home, number), first, (status, seconds, reference))
        self.counts["combinations"] += 1
        self.counts["refused"] += refused
        failed = len(self.failures) > before
        options = " ".join("%s=%s" % kv for kv in c.options.items() if "/" not in kv[1])
        print("%s %d/%d %s on %s%s: %d variants, %.1f s, %s" %
              ("bad" if failed else "ok ", self.args.seed, index, c.kind, c.data, " (refused)" if refused else "",
               len(variants), seconds, options))
        sys.stdout.flush()
        if not failed and not self.args.keep:
            shutil.rmtree(home, ignore_errors=True)

    def train_base(self, c, home):
        """The run whose weights this combination starts from; False where it is refused."""
        keep = ("network", "image-size", "resize", "color", "normalize", "on-bad-sample")
        words = [self.args.lockstep, "train", self.data[c.data], "--output", home + "/base", "--max-steps", "2",
                 "--workers", "1", "--seed", "77"]
        words += ["--%s=%s" % (k, v) for k, v in c.options.items() if k in keep]
        status, text, _, _ = self.run(words)
        if status != 0:
            self.judge_refusal(c, status, text, words)
            return False
        c.options["weights"] = home + "/base/model.safetensors"
        return True

    def judge_variant(self, c, variant, output, first, expected):
        """first: the first run's command. expected: its status, seconds and result."""
        how, workers, ranks = variant
        status, seconds, reference = expected
        refused = status != 0
        extra = runtime_options(c) if how != "again" else []
        if ranks > 1:
            extra += c.rng.choice(COMMUNICATION) + worker_load(c, ranks)
        commands = [first]
        if how != "killed":
            words = self.command(c, output, workers, ranks, extra)
            commands.append(words)
            got, text, _, _ = self.run(words)
            self.counts["runs"] += 1
            self.counts["with %d ranks" % ranks] += 1
        else:
            got, text = self.killed(c, output, (workers, ranks), extra, seconds, commands)
        if got == "hang":
            self.fail(c, "%s: hang" % how, commands, text + "\n" + self.stacks)
        elif refused:
            if got == 0:
                what = "%s: refused by the first run (status %s) and not by this one" % (how, status)
                self.fail(c, what, commands, self.why)
            elif got != status and ranks == 1:
                self.fail(c, "%s: exit status %s, the first run had %s" % (how, got, status), commands, text)
        elif got != 0:
            self.fail(c, "%s: exit status %s" % (how, got), commands, text)
        else:
            result = result_of(output)
            for key in ("model", "best", "end"):
                if repr(result[key]) != repr(reference[key]):
                    self.fail(c, "%s with %d workers, %d ranks: %s is %s and not %s" %
                              (how, workers, ranks, key, result[key], reference[key]), commands)
                    break
            left = left_behind(output)
            if left:
                self.fail(c, "%s: left behind: %s" % (how, left), commands)

    def judge_refusal(self, c, status, text, words):
        lines = [l for l in text.splitlines() if l.startswith("lockstep:")]
        self.why = text
        self.refusals[(lines[0] if lines else text[-200:])[:170].replace(self.args.work, "WORK")] += 1
        if status == "hang":
            self.fail(c, "hang", [words], text + "\n" + self.stacks)
        elif status not in (1, 2) or not lines:
            self.fail(c, "exit status %s, or no line that begins with 'lockstep:'" % status, [words], text)
        elif self.args.verbose:
            print("refused %d/%d: %s" % (self.args.seed, c.index, lines[0]))

    def killed(self, c, output, workers_and_ranks, extra, seconds, commands):
        """Trains with kills at random moments until a resume comes through. (status, text)."""
        rng, (workers, ranks) = c.rng, workers_and_ranks
        resume, text = False, ""
        attempts = rng.randint(1, 3)
        extra = extra + ["--checkpoint-every", rng.choice(["1", "1", "2"])]
        for attempt in range(attempts + 1):
            bare = resume and rng.random() < 0.5
            words = self.command(c, output, workers, ranks, extra, resume, bare)
            kill = draw_kill(rng, ranks, seconds) if attempt < attempts else None
            commands.append(words + (["#", "kill:", str(kill)] if kill else []))
            status, text, was_killed = self.run_when_free(words, kill, output)
            if status == "hang":
                return status, text
            if status != 0 and not was_killed:
                if "--resume" in words and not os.path.exists(os.path.join(output, "options.json")):
                    resume = False  # killed before there was a run: begin it
                    words = self.command(c, output, workers, ranks, extra)
                    commands.append(words)
                    status, text, _, _ = self.run(words)
                    if status == 0:
                        return status, text
                return status, text
            if status == 0 and (not was_killed or attempt == attempts):
                if attempt < attempts:
                    continue_finished = rng.random() < 0.3
                    if not continue_finished:
                        return status, text
            if was_killed and status not in (0, 1, 137, 143, 130, -9, -15, -2):
                self.fail(c, "killed: exit status %s" % status, commands, text)
            resume = os.path.exists(os.path.join(output, "options.json"))
            workers = rng.choice([1, 2, 3, 5])
            if c.ranks is None:
                ranks = rng.choice([1, 1, 2, 3])
            extra = [w for w in extra if not w.startswith(("--overlap", "--worker-load")) and
                     w not in ("--communicator", "gloo", "shared")] + worker_load(c, ranks)
        return status, text

    def run_when_free(self, words, kill, output):
        """(status, text, killed). Ranks of a launcher that was killed may still be ending, which a resume is told."""
        until = time.time() + 20
        while True:
            status, text, _, was_killed = self.run(words, kill, output)
            self.counts["runs"] += 1
            if was_killed or "another program is writing to the run" not in text or time.time() > until:
                return status, text, was_killed
            time.sleep(0.5)


def worker_load(c, ranks):
    """Parts of unequal size for ranks, which change no weights."""
    if ranks == 1 or c.options.get("exchange", "tree") != "tree" or c.rng.random() < 0.6:
        return []
    return ["--worker-load=" + ",".join(str(c.rng.choice([1, 1, 2, 3, 7, 1000])) for _ in range(ranks))]


def draw_variants(c, refused, base_ranks):
    """(how, workers, ranks) for each."""
    rng = c.rng
    variants = [("threads", rng.choice([2, 3, 5]), base_ranks)]
    if c.ranks:
        variants.append(("threads", rng.choice([2, 3]), base_ranks))
    else:
        variants.append(("ranks", rng.choice([1, 2]), rng.choice([2, 2, 3])))
    # powersgd says that a resume begins without the errors of compression that were kept before
    if not refused and c.options.get("exchange") != "powersgd":
        variants.append(("killed", rng.choice([1, 2, 3, 5]), base_ranks))
        if rng.random() < 0.35:
            variants.append(("killed", rng.choice([1, 2]), c.ranks or rng.choice([2, 3])))
        if rng.random() < 0.15:
            variants.append(("again", 1, base_ranks))
    return variants


def draw_kill(rng, ranks, seconds):
    number = signal.SIGKILL if rng.random() < 0.75 else rng.choice([signal.SIGTERM, signal.SIGINT])
    whom = rng.choice(["all", "first", 0, 1]) if ranks > 1 else "all"
    moment = ("time", rng.uniform(0, seconds * 1.1)) if rng.random() < 0.4 else ("events", rng.randint(1, 25))
    return moment + (number, whom)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    program = os.environ.get("LOCKSTEP_PROGRAM") or os.path.join(ROOT, "build/release/bin/lockstep")
    parser.add_argument("--lockstep", default=program)
    parser.add_argument("--work")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--time-limit", type=float, default=300 if os.environ.get("LOCKSTEP_LONG") else 20)
    parser.add_argument("--count", type=int, default=10**6)
    parser.add_argument("--only")
    parser.add_argument("--photos")
    parser.add_argument("--hang", type=float, default=60)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    if not shutil.which(args.lockstep):
        sys.exit("fuzz_weights.py: there is no program \"%s\"; build it, or give --lockstep BIN" % args.lockstep)
    return args


def main():
    args = parse_arguments()
    print("seed %d" % args.seed, flush=True)
    temporary = args.work is None
    args.work = os.path.abspath(args.work or tempfile.mkdtemp(prefix="lockstep-fuzz-"))
    os.makedirs(args.work, exist_ok=True)
    fuzz = Fuzz(args)
    begin = time.time()
    indices = [int(i) for i in args.only.split(",")] if args.only else range(args.count)
    args.keep = args.keep or bool(args.only)
    for index in indices:
        if args.time_limit and time.time() - begin > args.time_limit:
            break
        fuzz.combination(index)
    summary = ", ".join("%d %s" % (n, k) for k, n in sorted(fuzz.counts.items()))
    print("%.0f s: %s" % (time.time() - begin, summary))
    for text, n in fuzz.refusals.most_common():
        print("refused %d times: %s" % (n, text))
    counts = "%d combinations of seed %d" % (fuzz.counts["combinations"], args.seed)
    if fuzz.failures:
        failed = sorted({index for index, _ in fuzz.failures})
        print("FAILED: %d of %s; to look again:\n  python3 %s --lockstep %s --seed %d --only %s" %
              (len(failed), counts, os.path.abspath(__file__), args.lockstep, args.seed, ",".join(map(str, failed))))
    else:
        print("passed: %s, %d runs, %d kills and %d stops: the same weights" %
              (counts, fuzz.counts["runs"], fuzz.counts["kills"], fuzz.counts["stops"]))
    if temporary and not fuzz.failures and not args.keep:
        shutil.rmtree(args.work, ignore_errors=True)
    sys.exit(1 if fuzz.failures else 0)


if __name__ == "__main__":
    main()
