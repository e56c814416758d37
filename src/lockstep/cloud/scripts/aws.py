"""What Lockstep asks of AWS through boto3. Read by Python from standard input; the request is the first word, as JSON.
Long because it is one text that Python reads.

The answer is one line of JSON on standard output: {"ok": ...} or {"error": {"kind": ..., "text": ..., "hint": ...}}.
Keys come from AWS's own chain (environment, ~/.aws, SSO, the machine's role); they are never an argument, and nothing
here prints or writes them.
"""

import base64
import difflib
import json
import re
import sys
import time

import boto3
import botocore.config
import botocore.exceptions

NAME_TAG, ID_TAG = "lockstep-cluster", "lockstep-id"
GONE = {"terminated", "shutting-down"}
# Quotas of vCPUs, by the letter of the family, on demand and spot.
QUOTAS = {"p": ("L-417A185B", "L-7212CCBC"), "g": ("L-DB2E81BA", "L-3819A6DF"), "": ("L-1216C47A", "L-34B43A08")}


class Refused(Exception):
    """said: the line that says why, with who says it."""

    def __init__(self, kind, text, hint="", said=""):
        super().__init__(text)
        self.kind, self.text, self.hint, self.said = kind, text, hint, said


class Aws:
    def __init__(self, region):
        session = boto3.session.Session()
        known = sorted({name for part in session.get_available_partitions()
                        for name in session.get_available_regions("ec2", part)})
        if region not in known:
            near = difflib.get_close_matches(region, known, 1)
            raise Refused("region", f"AWS has no region \"{region}\"",
                          f"did you mean {near[0]}?" if near else "regions are named like us-east-1",
                          f"boto3 {boto3.__version__} knows {len(known)} regions, and not this one")
        self.region, self.session, self.clients = region, session, {}
        self.settings = botocore.config.Config(retries={"max_attempts": 4, "mode": "standard"}, connect_timeout=10,
                                               read_timeout=60)

    def client(self, service, region=None):
        which = (service, region or self.region)
        if which not in self.clients:  # making one takes a second
            self.clients[which] = self.session.client(service, region_name=which[1], config=self.settings)
        return self.clients[which]

    def pages(self, service, method, key, **words):
        for page in self.client(service).get_paginator(method).paginate(**words):
            yield from page[key]


def tags_of(item):
    return {tag["Key"]: tag["Value"] for tag in item.get("Tags", [])}


def tag_filter(name):
    return [{"Name": f"tag:{NAME_TAG}", "Values": [name]}]


# ---------------------------------------------------------------- before anything is made

def preflight(aws, type, machines, spot, subnet, key, vcpus, head_type):  # pylint: disable=redefined-builtin
    who = aws.client("sts").get_caller_identity()
    for name in (type, head_type):
        offered = aws.client("ec2").describe_instance_type_offerings(LocationType="region", Filters=[
            {"Name": "instance-type", "Values": [name]}])["InstanceTypeOfferings"]
        if not offered:
            raise Refused("type", f"AWS offers no {name} in {aws.region}", "choose another --region or --type")
    key = key_pair(aws, key)
    check_quota(aws, type, machines * vcpus, spot)
    return {"account": who["Account"], "subnet": subnet or default_subnet(aws, type), "key": key}


def key_pair(aws, wanted):
    """The one of this name, or the only one that there is."""
    names = sorted(pair["KeyName"] for pair in aws.client("ec2").describe_key_pairs()["KeyPairs"])
    if wanted in names:
        return wanted
    if not names:
        raise Refused("key", f"there is no key pair \"{wanted}\" in {aws.region}" if wanted else
                      f"there is no key pair in {aws.region}: without one nobody can log in (KeyName)",
                      "aws ec2 create-key-pair makes one, aws ec2 import-key-pair takes your own")
    if wanted:
        raise Refused("key", f"there is no key pair \"{wanted}\" in {aws.region}", "there is " + ", ".join(names))
    if len(names) > 1:
        raise Refused("key", f"--key is missing: {aws.region} has {len(names)} key pairs (KeyName)",
                      "name one of them: " + ", ".join(names))
    return names[0]


def check_quota(aws, type, wanted, spot):  # pylint: disable=redefined-builtin
    code = QUOTAS[type[0] if type[0] in QUOTAS else ""][1 if spot else 0]
    try:
        quota = aws.client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"]
    except botocore.exceptions.ClientError:
        return  # not known, or not allowed to be read: the stack will say
    if wanted > quota:
        raise Refused("quota", f"the account may run {quota:.0f} vCPUs of this kind in {aws.region}, and {wanted} are "
                      f"needed", "ask AWS for more in Service Quotas, or use fewer or other machines",
                      f"AWS says: GetServiceQuota: {code} is {quota:.0f}")


def default_subnet(aws, type):  # pylint: disable=redefined-builtin
    ec2 = aws.client("ec2")
    zones = {offer["Location"] for offer in ec2.describe_instance_type_offerings(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [type]}])["InstanceTypeOfferings"]}
    subnets = sorted(ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"],
                     key=lambda subnet: subnet["AvailabilityZone"])
    for subnet in subnets:
        if subnet["AvailabilityZone"] in zones:
            return subnet["SubnetId"]
    raise Refused("subnet", f"the default network of {aws.region} has no subnet where AWS offers {type}",
                  "name a subnet: --subnet subnet-...")


# ---------------------------------------------------------------- files for the machines

def put(aws, name, id, files):  # pylint: disable=redefined-builtin
    """A bucket of this cluster alone, private and tagged before it holds anything."""
    s3, bucket = aws.client("s3"), f"lockstep-{id}"
    where = {} if aws.region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": aws.region}}
    try:
        s3.create_bucket(Bucket=bucket, **where)
    except s3.exceptions.BucketAlreadyOwnedByYou:
        pass
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": NAME_TAG, "Value": name}, {"Key": ID_TAG, "Value": id}]})
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration={
        "BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": True, "RestrictPublicBuckets": True})
    for target, source in files.items():
        if "text" in source:
            s3.put_object(Bucket=bucket, Key=target, Body=base64.b64decode(source["text"]))
        else:
            s3.upload_file(source["path"], bucket, target)
    return {"bucket": bucket}


# ---------------------------------------------------------------- a cluster that is there

def stack_of(aws, name):
    try:
        return aws.client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
    except botocore.exceptions.ClientError as error:
        if "does not exist" in str(error):
            return None
        raise


def instances(aws, name):
    found = []
    for reservation in aws.pages("ec2", "describe_instances", "Reservations", Filters=tag_filter(name)):
        for machine in reservation["Instances"]:
            tags = tags_of(machine)
            found.append({"id": machine["InstanceId"], "type": machine["InstanceType"],
                          "state": machine["State"]["Name"], "address": machine.get("PublicIpAddress", ""),
                          "private_address": machine.get("PrivateIpAddress", ""),
                          "head": tags.get("parallelcluster:node-type") == "HeadNode",
                          "started": machine["LaunchTime"].timestamp()})
    return [machine for machine in found if machine["state"] not in GONE]


def state(aws, name):
    stack = stack_of(aws, name)
    machines = instances(aws, name)
    if stack is None:
        return {"stack": "", "machines": machines}
    said = {"stack": stack["StackStatus"], "reason": stack.get("StackStatusReason", ""), "machines": machines,
            "tags": tags_of(stack)}
    if "FAILED" in said["stack"] or "ROLLBACK" in said["stack"]:
        said["cause"] = cause(aws, stack)
    resources = aws.client("cloudformation").describe_stack_resources(StackName=name)["StackResources"]
    said["ready"] = sum(one["ResourceStatus"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE") for one in resources)
    said["resources"] = len(resources)
    return said


def cause(aws, stack):
    """The first thing that failed, and the line of the bootstrap's log if a machine did."""
    events = list(aws.pages("cloudformation", "describe_stack_events", "StackEvents", StackName=stack["StackId"]))
    failed = [event for event in events if event["ResourceStatus"].endswith("FAILED")
              and "cancelled" not in event.get("ResourceStatusReason", "").lower()
              and event["LogicalResourceId"] != stack["StackName"]]
    if not failed:
        return {"resource": "", "text": stack.get("StackStatusReason", "")}
    first = min(failed, key=lambda event: event["Timestamp"])
    reason = first.get("ResourceStatusReason", "")
    found = {"resource": first["LogicalResourceId"], "text": reason, "log": "CloudFormation's log",
             "line": f"{first['Timestamp']:%Y-%m-%d %H:%M:%S} {first['LogicalResourceId']} ({first['ResourceType']}) "
                     f"{first['ResourceStatus']}: {reason}"}
    if "WaitCondition" in first["ResourceType"] or "WaitCondition" in found["resource"]:
        found.update(bootstrap_line(aws, stack["StackName"]))
    return found


def bootstrap_line(aws, name):
    """ParallelCluster's machines send their logs to CloudWatch; the short one for errors is looked at first."""
    logs = aws.client("logs")
    for group in logs.describe_log_groups(logGroupNamePrefix=f"/aws/parallelcluster/{name}")["logGroups"]:
        streams = logs.describe_log_streams(logGroupName=group["logGroupName"])["logStreams"]
        for kind in ("bootstrap_error_msg", "cloud-init-output", "cfn-init", "chef-client"):
            for stream in streams:
                if not stream["logStreamName"].endswith(kind):
                    continue
                lines = [event["message"].strip() for event in logs.get_log_events(
                    logGroupName=group["logGroupName"], logStreamName=stream["logStreamName"], limit=500,
                    startFromHead=False)["events"]]
                bad = [line for line in lines if any(word in line.lower() for word in ("error", "fail", "lockstep:"))]
                if bad or (lines and kind == "bootstrap_error_msg"):
                    return {"log": stream["logStreamName"], "line": (bad or lines)[0][:500], "bootstrap": True}
    return {}


def power(aws, name, on):
    heads = [machine for machine in instances(aws, name) if machine["head"]]
    if not heads:
        raise Refused("none", f"the cluster \"{name}\" has no head node in {aws.region}", "lockstep cloud list")
    ids = [machine["id"] for machine in heads]
    ec2 = aws.client("ec2")
    if on:
        ec2.start_instances(InstanceIds=ids)
    else:
        workers = [machine["id"] for machine in instances(aws, name) if not machine["head"]]
        if workers:
            ec2.terminate_instances(InstanceIds=workers)
        ec2.stop_instances(InstanceIds=ids)
    wanted = "running" if on else "stopped"
    for _ in range(120):
        machines = [machine for machine in instances(aws, name) if machine["head"]]
        if all(machine["state"] == wanted for machine in machines):
            return {"machines": instances(aws, name)}
        time.sleep(5)
    raise Refused("time", f"the head node of \"{name}\" is not {wanted} after ten minutes", "lockstep cloud list")


def host_key(aws, name):
    """ssh's public key of the head node, which it prints on its console at its first start: so it comes by AWS and not
    by the connection that it is to protect. Empty: the console does not say, or may not be read."""
    for machine in instances(aws, name):
        if not machine["head"]:
            continue
        try:
            text = aws.client("ec2").get_console_output(InstanceId=machine["id"]).get("Output", "")
        except botocore.exceptions.ClientError:
            return {"key": ""}
        found = re.search(r"BEGIN SSH HOST KEY KEYS-*\s(.*?)-*END SSH HOST KEY KEYS", text, re.DOTALL)
        keys = re.findall(r"(ssh-ed25519|ecdsa-sha2-\S+|ssh-rsa) ([A-Za-z0-9+/=]+)", found[1] if found else "")
        keys.sort(key=lambda key: ["ssh-e", "ecdsa", "ssh-r"].index(key[0][:5]))
        return {"key": " ".join(keys[0]) if keys else ""}
    return {"key": ""}


# ---------------------------------------------------------------- what bears the tag

def tagged(aws, name, id):  # pylint: disable=redefined-builtin
    """Everything that bears the cluster's tag, asked of the services themselves; they are current, where the tagging
    interface may lag. What only that interface knows is added."""
    left = [f"instance {machine['id']} ({machine['state']})" for machine in instances(aws, name)]
    ec2 = aws.client("ec2")
    left += [f"volume {volume['VolumeId']}" for volume in ec2.describe_volumes(Filters=tag_filter(name))["Volumes"]]
    left += [f"security group {group['GroupId']}"
             for group in ec2.describe_security_groups(Filters=tag_filter(name))["SecurityGroups"]]
    left += [f"network interface {one['NetworkInterfaceId']}"
             for one in ec2.describe_network_interfaces(Filters=tag_filter(name))["NetworkInterfaces"]]
    left += [f"placement group {one['GroupName']}"
             for one in ec2.describe_placement_groups(Filters=tag_filter(name))["PlacementGroups"]]
    left += [f"launch template {one['LaunchTemplateName']}"
             for one in ec2.describe_launch_templates(Filters=tag_filter(name))["LaunchTemplates"]]
    left += [f"stack {stack['StackName']} ({stack['StackStatus']})" for stack in
             aws.pages("cloudformation", "describe_stacks", "Stacks") if tags_of(stack).get(NAME_TAG) == name]
    left += [f"bucket {bucket}" for bucket in buckets(aws, name, id)]
    try:
        arns = [one["ResourceARN"] for one in aws.pages(
            "resourcegroupstaggingapi", "get_resources", "ResourceTagMappingList",
            TagFilters=[{"Key": NAME_TAG, "Values": [name]}])]
    except botocore.exceptions.ClientError:
        arns = []
    left += [arn for arn in arns if not was_asked(arn)]
    return sorted(left)


def elsewhere(aws, name):
    """Other regions in which a cluster of this name has its bucket: buckets of all regions are in one list."""
    return sorted({region for _, region in tagged_buckets(aws, name, "") if region != aws.region})


def was_asked(arn):
    """Whether tagged() has asked the service itself. The tagging interface goes on naming what has ended."""
    _, _, service, _, _, rest = arn.split(":", 5)
    return service in ("s3", "cloudformation") or (service == "ec2" and rest.split("/")[0] in (
        "instance", "volume", "security-group", "network-interface", "placement-group", "launch-template"))


def buckets(aws, name, id):  # pylint: disable=redefined-builtin
    """Of this region: another one may have a cluster of this name."""
    return [bucket for bucket, region in tagged_buckets(aws, name, id) if region == aws.region]


def tagged_buckets(aws, name, id):  # pylint: disable=redefined-builtin
    """(bucket, region) of those with the cluster's tag."""
    s3, found = aws.client("s3"), []
    names = [f"lockstep-{id}"] if id else [one["Name"] for one in s3.list_buckets()["Buckets"]
                                           if one["Name"].startswith("lockstep-")]
    for bucket in names:
        try:
            tags = {tag["Key"]: tag["Value"] for tag in s3.get_bucket_tagging(Bucket=bucket)["TagSet"]}
        except botocore.exceptions.ClientError as error:
            # Made and not yet tagged when its maker died: its name has the cluster's random number.
            if error.response["Error"]["Code"] != "NoSuchTagSet":
                continue
            tags = {NAME_TAG: name} if id else {}
        if tags.get(NAME_TAG) == name:
            found.append((bucket, s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] or "us-east-1"))
    return found


def sweep(aws, name, id):  # pylint: disable=redefined-builtin
    """Removes what a stack that is gone, or never was, has left; then asks what is there. Each step may meet what is gone
    already."""
    ec2 = aws.client("ec2")
    done = []

    def attempt(what, work, *words, **named):
        try:
            work(*words, **named)
            done.append(what)
        except botocore.exceptions.ClientError as error:
            done.append(f"{what}: {error.response['Error']['Code']}")

    machines = [machine["id"] for machine in instances(aws, name)]
    if machines:
        attempt("instances " + " ".join(machines), ec2.terminate_instances, InstanceIds=machines)
        for _ in range(60):
            if not instances(aws, name):
                break
            time.sleep(5)
    for volume in ec2.describe_volumes(Filters=tag_filter(name))["Volumes"]:
        attempt(volume["VolumeId"], ec2.delete_volume, VolumeId=volume["VolumeId"])
    for one in ec2.describe_network_interfaces(Filters=tag_filter(name))["NetworkInterfaces"]:
        attempt(one["NetworkInterfaceId"], ec2.delete_network_interface, NetworkInterfaceId=one["NetworkInterfaceId"])
    for group in ec2.describe_security_groups(Filters=tag_filter(name))["SecurityGroups"]:
        attempt(group["GroupId"], ec2.delete_security_group, GroupId=group["GroupId"])
    for one in ec2.describe_placement_groups(Filters=tag_filter(name))["PlacementGroups"]:
        attempt(one["GroupName"], ec2.delete_placement_group, GroupName=one["GroupName"])
    for one in ec2.describe_launch_templates(Filters=tag_filter(name))["LaunchTemplates"]:
        attempt(one["LaunchTemplateName"], ec2.delete_launch_template, LaunchTemplateId=one["LaunchTemplateId"])
    s3 = aws.client("s3")
    for bucket in buckets(aws, name, id):
        for item in [one for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
                     for one in page.get("Contents", [])]:
            attempt(item["Key"], s3.delete_object, Bucket=bucket, Key=item["Key"])
        attempt(bucket, s3.delete_bucket, Bucket=bucket)
    return {"removed": done, "left": tagged(aws, name, id), "elsewhere": [] if id else elsewhere(aws, name)}


def discover(aws):
    """All clusters of the region that bear the tag, from their stacks."""
    found = []
    for stack in aws.pages("cloudformation", "describe_stacks", "Stacks"):
        tags = tags_of(stack)
        if NAME_TAG not in tags or stack.get("ParentId"):
            continue
        machines = instances(aws, tags[NAME_TAG])
        found.append({"name": tags[NAME_TAG], "id": tags.get(ID_TAG, ""), "stack": stack["StackStatus"],
                      "type": tags.get("lockstep-type", ""), "workers": int(tags.get("lockstep-workers", "0")),
                      "user": tags.get("lockstep-user", ""), "created": stack["CreationTime"].timestamp(), "machines": machines})
    return {"clusters": found}


# ---------------------------------------------------------------- prices of today

def prices(aws, types):
    """List prices from AWS's price list, spot prices from the last hour; columns as data/aws-prices.csv."""
    rows = []
    for name in types:
        products = aws.client("pricing", "us-east-1").get_products(ServiceCode="AmazonEC2", Filters=[
            {"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in (
                ("instanceType", name), ("regionCode", aws.region), ("operatingSystem", "Linux"), ("tenancy", "Shared"),
                ("preInstalledSw", "NA"), ("capacitystatus", "Used"))])["PriceList"]
        if not products:
            continue
        terms = json.loads(products[0])["terms"]["OnDemand"]
        price = next(iter(next(iter(terms.values()))["priceDimensions"].values()))["pricePerUnit"]["USD"]
        spots = aws.client("ec2").describe_spot_price_history(
            InstanceTypes=[name], ProductDescriptions=["Linux/UNIX"], MaxResults=100)["SpotPriceHistory"]
        lowest = min(spots, key=lambda spot: float(spot["SpotPrice"]), default=None)
        rows.append({"type": name, "on_demand": float(price),
                     "spot": float(lowest["SpotPrice"]) if lowest else 0.0,
                     "zone": lowest["AvailabilityZone"] if lowest else ""})
    return {"prices": rows}


COMMANDS = {work.__name__: work for work in (preflight, put, state, power, host_key, sweep, discover, prices)}

KEY_ERRORS = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
BAD_KEYS = {"InvalidClientTokenId", "AuthFailure", "UnrecognizedClientException", "SignatureDoesNotMatch",
            "InvalidAccessKeyId"}
DENIED = {"AccessDenied", "UnauthorizedOperation", "AccessDeniedException"}


def refusal(error, aws):
    if isinstance(error, Refused):
        return error
    if isinstance(error, botocore.exceptions.ClientError):
        code, text = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
        said = f"AWS says: {error.operation_name}: {code}: {text}"
        if code in KEY_ERRORS:
            return Refused("keys", "the keys for AWS have expired", "get new ones: aws sso login, or new session keys",
                           said)
        if code in BAD_KEYS or code == "OptInRequired":
            if aws is not None and is_closed(aws):
                return Refused("region", f"the account has not opened the region \"{aws.region}\"",
                               "open it in AWS's console (Account, AWS Regions), or choose another --region", said)
            return Refused("keys", f"AWS does not know the keys ({code})",
                           "aws sts get-caller-identity shows which keys are found", said)
        if code in DENIED:
            return Refused("rights", f"the keys may not {error.operation_name}",
                           "docs/cloud.md has the policy that Lockstep needs", said)
        return Refused("aws", f"AWS refused {error.operation_name}", "", said)
    if isinstance(error, (botocore.exceptions.NoCredentialsError, botocore.exceptions.PartialCredentialsError)):
        return Refused("keys", "there are no keys for AWS", "aws configure, aws sso login, or AWS_PROFILE=NAME",
                       f"boto3 says: {error}")
    if isinstance(error, (botocore.exceptions.SSOTokenLoadError, botocore.exceptions.UnauthorizedSSOTokenError,
                          botocore.exceptions.TokenRetrievalError)):
        return Refused("keys", "the sign-on for AWS has expired", "aws sso login",
                       f"boto3 says: {error}")
    if isinstance(error, botocore.exceptions.BotoCoreError):
        return Refused("network", "cannot reach AWS", "check the network and the region", f"boto3 says: {error}")
    return Refused("aws", "AWS gave an answer that boto3 does not understand", "",
                   f"boto3 says: {type(error).__name__}: {str(error)[:200]}")


def is_closed(aws):
    """Whether the region is one that an account must open before it is used: keys are not known there until then."""
    try:
        regions = aws.client("ec2", "us-east-1").describe_regions(AllRegions=True, RegionNames=[aws.region])["Regions"]
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError):
        return False
    return any(region.get("OptInStatus") == "not-opted-in" for region in regions)


def main():
    request = json.loads(sys.argv[1])
    command, region = request.pop("command"), request.pop("region")
    aws = None
    try:
        aws = Aws(region)
        answer = {"ok": COMMANDS[command](aws, **request)}
    except Exception as error:  # pylint: disable=broad-exception-caught
        found = refusal(error, aws)
        answer = {"error": {"kind": found.kind, "text": found.text, "hint": found.hint, "said": found.said}}
    print(json.dumps(answer))


main()
