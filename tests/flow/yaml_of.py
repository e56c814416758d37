"""YAML read by the peers' Python: the tests' own Python has no YAML."""

import json
import subprocess

import aws_services


def read(text):
    done = subprocess.run([aws_services.PEERS_PYTHON, "-c",
                           "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))"],
                          input=text, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)
