"""Run by ParallelCluster's Python: makes the CloudFormation templates that ParallelCluster makes from configurations, as
its command does before it asks AWS to create the stack.

usage: cloud_template.py FOLDER FILE...     writes FOLDER/FILE.json for each

AWS_ENDPOINT_URL names moto. ParallelCluster's images are not in moto, so one image of moto's stands for them.
"""

import json
import pathlib
import sys

import boto3
import yaml
from pcluster.aws.ec2 import Ec2Client
from pcluster.models.cluster import Cluster
from pcluster.models.s3_bucket import S3Bucket
from pcluster.schemas.cluster_schema import ClusterSchema
from pcluster.templates.cdk_builder import CDKTemplateBuilder


def template_of(file):
    text = pathlib.Path(file).read_text(encoding="utf-8")
    cluster = Cluster("c1", config=text)
    cluster.config = ClusterSchema("c1").load(yaml.safe_load(text))
    cluster._add_tags()  # pylint: disable=protected-access
    cluster._generate_artifact_dir()  # pylint: disable=protected-access
    bucket = S3Bucket(service_name=cluster.name, stack_name=cluster.stack_name,
                      artifact_directory=cluster.s3_artifacts_dir)
    boto3.client("s3").create_bucket(Bucket=bucket.name)
    return CDKTemplateBuilder().build_cluster_template(cluster_config=cluster.config, bucket=bucket,
                                                       stack_name=cluster.stack_name)[0]


def main():
    folder = pathlib.Path(sys.argv[1])
    image = boto3.client("ec2").describe_images()["Images"][0]["ImageId"]
    Ec2Client.get_official_image_id = lambda *_, **__: image
    for file in sys.argv[2:]:
        (folder / (pathlib.Path(file).stem + ".json")).write_text(json.dumps(template_of(file), indent=1))


main()
