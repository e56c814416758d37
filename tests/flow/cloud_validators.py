"""Run by ParallelCluster's Python: loads configurations with its schema and runs its validators, as its command does.

usage: cloud_validators.py FILE...     one line of JSON for each: {"errors": [...], "ran": N, "asked": N}

AWS_ENDPOINT_URL names moto. A validator that asks AWS is run too, and what it says is left out: its answers are moto's.
ParallelCluster's images are not in moto, so one image of moto's stands for them.
"""

import json
import sys

import boto3
import marshmallow
import yaml
from pcluster.aws import aws_api
from pcluster.aws.ec2 import Ec2Client
from pcluster.config import common
from pcluster.schemas.cluster_schema import ClusterSchema
from pcluster.validators.common import FailureLevel, ValidatorContext

running, ran, asked = [None], set(), set()
real_instance = aws_api.AWSApi.instance


def instance():
    asked.add(running[0])
    return real_instance()


def execute(arguments, validator):
    running[0] = type(validator).__name__
    ran.add(running[0])
    try:
        return validator.execute(**arguments)
    except Exception as error:  # pylint: disable=broad-exception-caught
        return [common.ValidationResult(repr(error), FailureLevel.ERROR, validator.type)]
    finally:
        running[0] = None


def errors_of(file):
    try:
        config = ClusterSchema("c1").load(yaml.safe_load(file))
    except marshmallow.ValidationError as error:
        return [json.dumps(error.messages)]
    results = config.validate(context=ValidatorContext())
    return [f"{result.validator_type}: {result.message}" for result in results
            if result.level == FailureLevel.ERROR and result.validator_type not in asked]


def main():
    aws_api.AWSApi.instance = staticmethod(instance)
    common.Resource._validator_execute_sync = staticmethod(execute)  # pylint: disable=protected-access
    image = boto3.client("ec2").describe_images()["Images"][0]["ImageId"]
    Ec2Client.get_official_image_id = lambda *_, **__: image
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            try:
                errors = errors_of(file)
            except Exception as error:  # pylint: disable=broad-exception-caught
                errors = [repr(error)]
        print(json.dumps({"errors": errors, "ran": len(ran), "asked": len(asked - {None})}), flush=True)


main()
