"""A real S3 server on the first machine of a cluster, which the other machines reach."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import s3_server  # noqa: E402

ASK = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=1)"


class ServerOnCluster(s3_server.Server):
    def __init__(self, folder, cluster):
        self.cluster = cluster
        super().__init__(folder, address=cluster.address(0))

    def command(self, *words):
        return self.cluster.command(0, *words)

    def answers(self):
        done = subprocess.run(self.command(sys.executable, "-c", ASK, f"{self.endpoint}/status"), check=False,
                              stdin=subprocess.DEVNULL, capture_output=True)
        return done.returncode == 0
