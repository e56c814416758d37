#!/usr/bin/env python3
"""Writes gaussian_process_values.json: what Optuna 5's own functions give for a kernel, a posterior, its likelihood, the
logarithm of the expected improvement, and running trials; and SciPy's power transform. gaussian_process_test.cpp
compares with it.

usage: gaussian_process_values.py    with a Python that has the packages of scripts/peers-requirements.txt and SciPy
"""

import json
from pathlib import Path

import numpy as np
import torch
from optuna._gp import acqf, gp, prior, search_space
from optuna.distributions import CategoricalDistribution, FloatDistribution
from scipy import stats

SPACE = {"a": FloatDistribution(0, 1), "b": FloatDistribution(0, 1), "c": FloatDistribution(0, 1),
         "d": CategoricalDistribution(["x", "y", "z"])}
IS_CATEGORICAL = np.array([False, False, False, True])
LENGTHS, SCALE, NOISE = [3.5, 0.4, 12.0, 0.7], 1.3, 2e-3
STABILIZING = 1e-6


def points(count, seed):
    random = np.random.RandomState(seed)
    found = random.rand(count, 4)
    found[:, 3] = random.randint(3, size=count)
    return found


def main():
    known, others, running = points(12, 1), points(6, 2), points(3, 3)
    values = np.sin(5 * known[:, 0]) - known[:, 1] ** 2 + 0.3 * known[:, 3]
    values = (values - values.mean()) / values.std()
    raw = torch.tensor(np.log([*LENGTHS, SCALE, NOISE - prior.DEFAULT_MINIMUM_NOISE_VAR]), requires_grad=True)
    regressor = gp.GPRegressor(torch.from_numpy(IS_CATEGORICAL), torch.from_numpy(known), torch.from_numpy(values),
                               torch.exp(raw[:4]), torch.exp(raw[4]), torch.exp(raw[5]) + prior.DEFAULT_MINIMUM_NOISE_VAR)
    likelihood = regressor.marginal_log_likelihood() + prior.default_log_prior(regressor)
    likelihood.backward()
    regressor._cache_matrix()
    mean, variance = regressor.posterior(torch.from_numpy(others))
    improvement = acqf.LogEI(regressor, search_space.SearchSpace(SPACE), values.max())
    gradients = [improvement.eval_acqf_with_grad(one)[1].tolist() for one in others]

    conditional = gp.ConditionalGPRegressor(regressor, torch.from_numpy(running), 4, 5, STABILIZING)
    conditional._fixed_samples_x = torch.zeros(4, dtype=torch.float64)
    means = conditional.sample_joint_posterior(torch.from_numpy(others), return_fantasy=False)
    conditional._fixed_samples_x = torch.ones(4, dtype=torch.float64)
    deviations = conditional.sample_joint_posterior(torch.from_numpy(others), return_fantasy=False) - means

    skewed = -np.exp(2 * np.random.RandomState(4).randn(30))
    skewed = (skewed - skewed.mean()) / skewed.std()

    z = [-300.0, -40.0, -25.5, -24.5, -7.0, -1.0, 0.0, 0.5, 3.0, 20.0]
    Path(__file__).with_suffix(".json").write_text(json.dumps({
        "inverse_squared_lengths": LENGTHS, "scale": SCALE, "noise": NOISE, "least_noise": STABILIZING,
        "known": known.tolist(), "values": values.tolist(), "others": others.tolist(), "running": running.tolist(),
        "covariances": regressor.kernel(torch.from_numpy(others)).tolist(),
        "means": mean.tolist(), "variances": variance.tolist(),
        "log_posterior": likelihood.item(), "log_posterior_gradient": raw.grad.tolist(),
        "skewed": skewed.tolist(), "power": stats.yeojohnson_normmax(skewed),
        "transforms": [{"power": power, "values": stats.yeojohnson(skewed, power).tolist()} for power in (-1.5, 0, 1, 2, 4)],
        "z": z, "log_mean_above": acqf.standard_logei(torch.tensor(z, dtype=torch.float64)).tolist(),
        "log_improvements": improvement.eval_acqf_no_grad(others).tolist(), "log_improvement_gradients": gradients,
        "fantasies": conditional.get_fantasy_samples().tolist(),
        "means_with_fantasies": means.tolist(), "variances_with_fantasies": (deviations[:, 0] ** 2).tolist(),
    }, indent=1) + "\n")


if __name__ == "__main__":
    main()
