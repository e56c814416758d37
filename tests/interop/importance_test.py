#!/usr/bin/env python3
"""The importance of parameters is that of Optuna's PED-ANOVA, for numbers, logarithms, whole numbers, choices, and
parameters that count only for some trials."""

import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

try:
    import optuna
    from optuna.importance import PedAnovaImportanceEvaluator
except ImportError as error:
    print(f"NOT TESTED: importances against Optuna: {error}; hint: scripts/setup --peers gets it")
    sys.exit(77)

PROGRAM = pathlib.Path(sys.argv.pop(1))
SPACE = {"rate": "0.0001..0.1:log", "momentum": "0.5..0.99", "size": "8..512:log", "layers": "1..6",
         "network": "a,b,c", "decay": "0.0..0.3:when=network=a|b", "many": "0..1000", "fixed": "3..3"}


def draw(rng):
    trial = {"rate": math.exp(rng.uniform(math.log(1e-4), math.log(0.1))), "momentum": rng.uniform(0.5, 0.99),
             "size": round(math.exp(rng.uniform(math.log(8), math.log(512)))), "layers": rng.randint(1, 6),
             "network": rng.choice("abc"), "many": rng.randint(0, 1000), "fixed": 3}
    if trial["network"] in "ab":
        trial["decay"] = rng.uniform(0, 0.3)
    return trial


def result_of(trial, rng):
    return (-(math.log10(trial["rate"]) + 2) ** 2 + 0.5 * (trial["network"] == "a") + 0.1 * trial["layers"]
            - 3 * trial.get("decay", 0.5) + rng.gauss(0, 0.1))


class Importance(unittest.TestCase):
    def ours(self, folder, rows):
        folder.mkdir()
        (folder / "sweep.json").write_text(json.dumps({"command": ["train", "data"], "parameters": SPACE}))
        with open(folder / "log.jsonl", "w", encoding="utf-8") as log:
            for number, (trial, value) in enumerate(rows):
                line = {"kind": "begin", "time": 1.0, "trial": number, "until": 0,
                        "parameters": [f"{name}={value!r}" if isinstance(value, float) else f"{name}={value}"
                                       for name, value in trial.items()]}
                log.write(json.dumps(line) + "\n")
                log.write(json.dumps({"kind": "outcome", "time": 2.0, "trial": number, "until": 0, "state": "ended",
                                      "value": value, "step": 10, "total_steps": 10, "parameters": []}) + "\n")
        printed = subprocess.run([PROGRAM, "sweep", "importance", folder, "--json"], capture_output=True, text=True,
                                 check=True).stdout
        return {row["parameter"]: row for row in json.loads(printed)}

    def theirs(self, rows):
        distributions = {
            "rate": optuna.distributions.FloatDistribution(1e-4, 0.1, log=True),
            "momentum": optuna.distributions.FloatDistribution(0.5, 0.99),
            "size": optuna.distributions.IntDistribution(8, 512, log=True),
            "layers": optuna.distributions.IntDistribution(1, 6),
            "network": optuna.distributions.CategoricalDistribution(["a", "b", "c"]),
            "decay": optuna.distributions.FloatDistribution(0.0, 0.3),
            "many": optuna.distributions.IntDistribution(0, 1000),
            "fixed": optuna.distributions.IntDistribution(3, 3)}
        study = optuna.create_study(direction="maximize")
        for trial, value in rows:
            study.add_trial(optuna.trial.create_trial(
                params=trial, value=value, distributions={name: distributions[name] for name in trial}))
        return PedAnovaImportanceEvaluator().evaluate(study)

    def test_as_optuna(self):
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with tempfile.TemporaryDirectory() as folder:
            for seed, count in ((1, 20), (2, 37), (3, 200), (4, 1000)):
                rng = random.Random(seed)
                rows = [(trial, result_of(trial, rng)) for trial in (draw(rng) for _ in range(count))]
                if seed == 3:  # equal results
                    rows = [(trial, round(value, 1)) for trial, value in rows]
                ours, theirs = self.ours(pathlib.Path(folder) / str(seed), rows), self.theirs(rows)
                self.assertEqual(set(ours), set(theirs))
                for name, value in theirs.items():
                    self.assertAlmostEqual(ours[name]["divergence"], value, delta=1e-9 * max(1, abs(value)),
                                           msg=f"{name}, {count} trials")
                self.assertAlmostEqual(sum(row["share"] for row in ours.values()), 1)


if __name__ == "__main__":
    unittest.main()
