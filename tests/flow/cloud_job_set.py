"""Run by the peers' Python: reads a JobSet as JSON from standard input by the models that are generated from the schema
of its CRD, and prints what does not fit: a JSON list, empty if all fits.

A model leaves out what its schema does not have; so what comes back must be what went in."""

import json
import sys

import pydantic
from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet


def missing(given, kept, path):
    """Paths of values that did not come back."""
    if isinstance(given, dict) and isinstance(kept, dict):
        return [one for key, value in given.items() for one in missing(value, kept.get(key), f"{path}.{key}")]
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        return [one for number, value in enumerate(given) for one in missing(value, kept[number], f"{path}[{number}]")]
    return [] if given == kept else [path]


def problems(given):
    try:
        kept = JobsetV1alpha2JobSet.from_dict(given).to_dict()
    except pydantic.ValidationError as error:
        return [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return [path + " is not in the schema" for path in missing(given, kept, "JobSet")]


json.dump(problems(json.load(sys.stdin)), sys.stdout)
