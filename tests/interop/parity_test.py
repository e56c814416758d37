"""Weights after 20 short steps against PyTorch's: a few of the cases of bench/parity, which has them all.

usage: parity_test.py PATH-OF-lockstep     (needs torch, safetensors and Pillow)
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "flow"))

import parity_cases  # noqa: E402
import runs  # noqa: E402

# Each optimizer, schedule and feature at least once; adamw's epsilon as parity_cases.py explains.
CHOSEN = runs.some([
    ("lenet", "sgdm, Nesterov"),
    ("lenet", "adam"),
    ("lenet", "adamw"),
    ("lenet", "rmsprop, momentum 0.9"),
    ("lenet", "piecewise rate"),
    ("lenet", "order drawn once"),
    ("digits_cnn", "class weights, 5 shards, accumulation in 2 pieces"),
    ("digits_cnn", "warm-up, then cosine"),
    ("lenet", "label smoothing"),
    ("digits_cnn", "label smoothing, class weights, 5 shards, accumulation in 2 pieces"),
    ("digits_cnn", "5 shards, accumulation in 2 pieces, clipping"),
    ("digits_cnn", "batch norm over the mini-batch: 16 shards, 3 workers"),
], [
    ("lenet", "sgdm, momentum 0"),
    ("lenet", "rmsprop"),
    ("lenet", "class weights"),
    ("lenet", "warm-up, then constant"),
    ("lenet", "accumulation in 3 pieces"),
    ("digits_cnn", "sgdm"),
    ("digits_cnn", "weight decay 0.1"),
])


def main():
    chosen = [case for case in parity_cases.CASES if (case.network, case.name) in CHOSEN]
    assert len(chosen) == len(CHOSEN), "a case has another name now"
    failed = 0
    for outcome in parity_cases.run(chosen, parity_cases.QUICK, Path(sys.argv[1])):
        passes = outcome.difference <= parity_cases.MOST_DIFFERENCE
        failed += not passes
        print(
            f"{'ok  ' if passes else 'FAIL'} {outcome.case.network}: {outcome.case.name}: differs by "
            f"{outcome.difference:.1e} in {outcome.worst}", flush=True)
    return 1 if failed else 0


sys.exit(main())
