#!/usr/bin/env python3
"""examples/white_paper: the same weights from disk and from an S3 server, on threads, on processes and in this process,
with the store's keys in the environment only.

usage: white_paper_test.py PROGRAM
"""

import json
import pathlib
import random
import re
import subprocess
import sys

import runs

sys.path.insert(0, str(runs.ROOT / "bench"))

import s3_server  # noqa: E402

FAST = ["--network", "digits_cnn", "--image-size", "28x28", "--mini-batch-size", 20, "--learning-rate", 0.01,
        "--max-epochs", 2, "--drop-period", 1, "--workers", 2]


def white_paper(program, folder, *arguments, environment=None, status=0):
    command = [str(part) for part in (program, *arguments)]
    done = subprocess.run(command, check=False, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=runs.SECONDS_PER_RUN, env=environment)
    print(done.stdout, flush=True)
    if done.returncode != status:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}, not {status}")
    return done.stdout


def result_of(printed):
    found = re.fullmatch(r"accuracy (\d\.\d{3}) on (\d+) images; mini-batch 40, learning rate 0.02, 2 workers, "
                         r"weights ([0-9a-f]{16})", printed.splitlines()[-1])
    if found is None:
        sys.exit(f"the example's last line is not what its head promises: {printed.splitlines()[-1]}")
    return found.groups()


def write_colours(folder, count=80):
    """Noise in two classes."""
    noise = random.Random(1)
    for number in range(count):
        file = folder / f"class{number % 2}" / f"{number}.ppm"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"P6\n28 28\n255\n" + noise.randbytes(28 * 28 * 3))


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with runs.temporary_folder() as name:
        folder = pathlib.Path(name)
        digits = folder / "digits"
        runs.write_digits({digits: 400})
        expected = result_of(white_paper(program, folder, digits, *FAST, "--output", "runs/disk"))
        if expected[1] != "40":
            sys.exit("one image in ten is for the test")
        with s3_server.Server(folder / "server") as server:
            server.make_bucket("photos")
            environment = server.environment()
            runs.run("copy", digits, "s3://photos/digits", environment=environment)
            for execution in ("parallel", "cpu"):
                output = folder / "runs" / execution
                printed = white_paper(program, folder, "s3://photos/digits", *FAST, "--output", output, "--execution",
                                      execution, environment=environment)
                if result_of(printed) != expected:
                    sys.exit(f"from the store with --execution {execution}: {printed.splitlines()[-1]}")
        for file in (folder / "runs").rglob("*"):
            if file.is_file() and s3_server.SECRET.encode() in file.read_bytes():
                sys.exit(f"{file} contains the key of the store")
        weights = folder / "runs" / "disk" / "model.safetensors"
        result_of(white_paper(program, folder, digits, *FAST, "--weights", weights, "--normalize", "auto", "--output",
                              "runs/head"))
        # Weights that are in no run: of images normalised as ImageNet's.
        write_colours(folder / "colours")
        runs.run("export", "digits_cnn", folder / "published.safetensors", "--image-size", "28x28", "--color", "rgb",
                 "--classes", 10)
        result_of(white_paper(program, folder, folder / "colours", *FAST, "--weights", folder / "published.safetensors",
                              "--output", "runs/colours"))
        plan = json.loads((folder / "runs/colours/options.json").read_text())["plan"]
        if plan["data"]["mean"] != [0.485, 0.456, 0.406]:
            sys.exit(f"the images were normalised by {plan['data']['mean']}")
        white_paper(program, folder, status=2)
        white_paper(program, folder, folder / "none", status=1)


main()
