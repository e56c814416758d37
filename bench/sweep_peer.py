"""The peers of bench/sweep: two trials at a time of PyTorch, in processes that are used again.

  joblib  Optuna chooses the parameters, and joblib's processes train; they share the images as mapped memory
  ray     Ray Tune chooses the parameters, and its actors train; they share the images in Ray's store

Neither keeps weights. Prints the seconds from the first trial's start to the last one's end, without the start of the processes."""

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch

import peer
import peer_trial


def numbered(number, images, labels, **parameters):
    return number, peer_trial.train(torch.from_numpy(images), torch.from_numpy(labels), **parameters)


def sweep_with_joblib(images, labels, count):
    import joblib
    import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    asked = {}

    def trials():
        for _ in range(count):
            trial = study.ask()
            asked[trial.number] = trial
            yield joblib.delayed(numbered)(trial.number, images, labels,
                                           rate=trial.suggest_float("rate", 0.001, 0.1, log=True),
                                           momentum=trial.suggest_float("momentum", 0.5, 0.95))

    # The processes start and load PyTorch.
    joblib.Parallel(n_jobs=2)(joblib.delayed(torch.set_num_threads)(1) for _ in range(8))
    start = time.monotonic()
    for number, accuracy in joblib.Parallel(n_jobs=2, return_as="generator_unordered", mmap_mode="c")(trials()):
        study.tell(asked[number], accuracy)
    return time.monotonic() - start, study.best_value


def sweep_with_ray(images, labels, count):
    import ray
    from ray import tune

    class Trial(tune.Trainable):
        def setup(self, config, images, labels):
            self.config, self.images, self.labels = config, torch.from_numpy(images), torch.from_numpy(labels)

        def reset_config(self, new_config):  # this process trains the next trial, too
            self.config = new_config
            return True

        def step(self):
            started = time.time()
            return {"accuracy": peer_trial.train(self.images, self.labels, **self.config), "started": started,
                    "ended": time.time(), "done": True}

    here = str(Path(__file__).resolve().parent)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
             runtime_env={"env_vars": {"PYTHONPATH": here}})
    with tempfile.TemporaryDirectory() as storage:
        found = tune.Tuner(
            tune.with_resources(tune.with_parameters(Trial, images=images, labels=labels), {"cpu": 1}),
            param_space={"rate": tune.loguniform(0.001, 0.1), "momentum": tune.uniform(0.5, 0.95)},
            tune_config=tune.TuneConfig(num_samples=count, metric="accuracy", mode="max", reuse_actors=True),
            run_config=tune.RunConfig(storage_path=storage, verbose=0, checkpoint_config=tune.CheckpointConfig(
                checkpoint_at_end=False))).fit()
    metrics = [result.metrics for result in found]
    return (max(one["ended"] for one in metrics) - min(one["started"] for one in metrics),
            max(one["accuracy"] for one in metrics))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--with", dest="peer", choices=("joblib", "ray"), required=True)
    parser.add_argument("--count", type=int, required=True)
    choice = parser.parse_args()
    images, labels = (tensor.numpy() for tensor in peer.read_folder(choice.folder))
    sweep = {"joblib": sweep_with_joblib, "ray": sweep_with_ray}[choice.peer]
    seconds, best = sweep(images, labels, choice.count)
    print(json.dumps({"seconds": seconds, "best": best}))


if __name__ == "__main__":
    main()
