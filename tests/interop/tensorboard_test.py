"""Reads a run's TensorBoard files with TensorBoard itself and compares them with the run's event log.

usage: tensorboard_test.py RUN_FOLDER     (a Python with the package tensorboard; scripts/setup --peers makes one)
"""
import json
import math
import pathlib
import re
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

TAGS = {
    "step": ["train/loss", "train/accuracy", "train/learning_rate", "train/images_per_second"],
    "validation": ["validation/loss", "validation/accuracy"],
}


def logged_scalars(run):
    """{tag: {step: value}} of rank 0; an attempt replaces what earlier ones said of its first step and later ones."""
    scalars = {}
    files = [(int(re.search(r"attempt-(\d+)", path.name)[1]), path)
             for path in (run / "events").glob("rank-0-attempt-*.jsonl")]
    for _, path in sorted(files):
        fresh = True
        for line in path.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                continue  # torn by a kill
            event = json.loads(line)
            if fresh and event["kind"] == "step":
                fresh = False
                scalars = {tag: {step: value for step, value in values.items() if step < event["step"]}
                           for tag, values in scalars.items()}
            for tag in TAGS.get(event["kind"], []):
                key = tag.split("/")[1]
                if key in event["values"]:
                    value = event["values"][key]
                    scalars.setdefault(tag, {})[event["step"]] = float("nan" if value is None else value)
    return scalars


def as_float32(value):
    return struct.unpack("f", struct.pack("f", value))[0] if math.isfinite(value) else value


def main():
    run = pathlib.Path(sys.argv[1])
    logged = logged_scalars(run)
    if not logged:
        sys.exit(f"{run} has no step and no validation in its event log")
    accumulator = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    accumulator.Reload()
    shown = {tag: {scalar.step: scalar.value for scalar in accumulator.Scalars(tag)}
             for tag in accumulator.Tags()["scalars"]}
    if set(shown) != set(logged):
        sys.exit(f"tags differ: TensorBoard has {sorted(shown)}, the log {sorted(logged)}")
    for tag, values in logged.items():
        if set(values) != set(shown[tag]):
            sys.exit(f"{tag}: steps differ: {sorted(set(values) ^ set(shown[tag]))[:10]}")
        for step, value in values.items():
            same = shown[tag][step] == as_float32(value) or (math.isnan(value) and math.isnan(shown[tag][step]))
            if not same:
                sys.exit(f"{tag} at step {step}: TensorBoard has {shown[tag][step]}, the log {value}")
    print(
        f"TensorBoard reads {sum(map(len, logged.values()))} scalars under {len(logged)} tags, equal to the event log")


if __name__ == "__main__":
    main()
