#!/bin/bash
# AWS says two minutes before that it takes a spot machine back. Each job here then gets SIGUSR1, as before its time
# limit: it saves a checkpoint and is queued again.
#   lockstep-spot-notice [ADDRESS of the metadata service] [SECONDS between looks]
set -u
export PATH=/opt/slurm/bin:$PATH
address=${1:-http://169.254.169.254} pause=${2:-5}
node=${SLURMD_NODENAME:-$(hostname -s)}
while true; do
  token=$(curl -s -m 2 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$address/latest/api/token")
  status=$(curl -s -m 2 -o /dev/null -w '%{http_code}' -H "X-aws-ec2-metadata-token: $token" \
    "$address/latest/meta-data/spot/instance-action")
  if [[ $status == 200 ]]; then
    for job in $(squeue -h -t running -w "$node" -o %A); do
      echo "lockstep: AWS takes $node back; job $job saves and is queued again"
      scancel --batch --signal=USR1 "$job"
    done
    scontrol update "NodeName=$node" State=DRAIN Reason='spot notice' || true
    exit 0
  fi
  sleep "$pause"
done
