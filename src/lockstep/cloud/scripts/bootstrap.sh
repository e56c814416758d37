#!/bin/bash
# Runs as root on each machine of a cluster when it starts: gets Lockstep's package, checks its hash, installs it. The
# head node also gets the watchdog, which stops the cluster; a spot machine gets a service that turns AWS's notice into
# a preemption. There is no key here: the machine's role reads the bucket.
#   bootstrap.sh head|worker BUCKET PACKAGE SHA256 IDLE_SECONDS BUDGET MACHINE_PRICE HEAD_PRICE
set -euo pipefail
role=$1 bucket=$2 package=$3 sha256=$4 idle=$5 budget=$6 machine_price=$7 head_price=$8
home=/opt/lockstep

fail() { echo "lockstep: error: $*" >&2; exit 1; }

install_package() {
  local file=$home/$package
  mkdir -p "$home"
  aws s3 cp --only-show-errors "s3://$bucket/$package" "$file" || fail "cannot read s3://$bucket/$package"
  echo "$sha256  $file" | sha256sum --check --quiet || fail "$package has another hash than the one that was sent"
  case $package in
    *.tar.gz) tar -xzf "$file" -C "$home" --strip-components=1 ;;
    *.whl)
      python3 -m venv "$home/python" && "$home/python/bin/pip" install --quiet "$file" ||
        fail "cannot install $package with pip"
      mkdir -p "$home/bin" && ln -sf "$home/python/bin/lockstep" "$home/bin/lockstep" ;;
    *) fail "$package is no package of Lockstep" ;;
  esac
  rm -f "$file" /usr/local/bin/lockstep
  # Neither a command by ssh nor a service of systemd has the path of Slurm's commands, which a program that opens a pool
  # from elsewhere needs too. Jobs are where the watchdog looks.
  for command in /opt/slurm/bin/{sbatch,srun,squeue,sinfo,scontrol,scancel}; do
    ln -sf "$command" /usr/local/bin/
  done
  cat >/usr/local/bin/lockstep <<COMMAND
#!/bin/sh
export PATH=/opt/slurm/bin:\$PATH LOCKSTEP_JOBS=\${LOCKSTEP_JOBS:-/shared/lockstep-jobs}
exec $home/bin/lockstep "\$@"
COMMAND
  chmod 755 /usr/local/bin/lockstep
}

# A timer of systemd: it needs no client, survives a restart, and begins again after a crash of the watchdog.
install_watchdog() {
  cat >/usr/local/sbin/lockstep-ask <<'ASK'
#!/bin/bash
# Runs a command of Slurm's until it succeeds, five times at most: the controller may be busy.
for _ in 1 2 3 4 5; do
  "$@" && exit
  sleep 2
done
exit 1
ASK
  cat >/usr/local/sbin/lockstep-save-jobs <<'SAVE'
#!/bin/bash
# Jobs save and wait, held, until the cluster starts again.
export PATH=/usr/local/sbin:/opt/slurm/bin:$PATH
kept=/var/lib/lockstep/held-jobs
# Says to lockstep-release-jobs, which the watchdog's timer goes on to start, that this machine is about to end.
cat /proc/sys/kernel/random/boot_id >/var/lib/lockstep/saving
hold_waiting() { for job in $(squeue -h -t pending -o %A); do scontrol hold "$job" || true; done; }
# A save that is repeated finds the jobs of the first one held.
{
  cat "$kept" 2>/dev/null
  lockstep-ask squeue -h -o '%A %r' | grep -v JobHeld | cut -d ' ' -f 1
} | sort -u >"$kept.new" && mv "$kept.new" "$kept"
hold_waiting
for job in $(lockstep-ask squeue -h -t running -o %A); do scancel --batch --signal=USR1 "$job" || true; done
for _ in $(seq 24); do
  [[ -n $(lockstep-ask squeue -h -t running,completing -o %A) ]] || break
  sleep 5
  hold_waiting
done
for job in $(squeue -h -t running -o %A); do scontrol requeuehold "$job" || scancel "$job" || true; done
hold_waiting
SAVE
  cat >/usr/local/sbin/lockstep-stop-cluster <<'STOP'
#!/bin/bash
# Saves what runs, gives the workers back, and turns the head node off. Its disks go on costing.
export PATH=/usr/local/sbin:/opt/slurm/bin:$PATH
lockstep-save-jobs
nodes=$(lockstep-ask sinfo -h -N -o %N | sort -u | paste -s -d ,)
lockstep-ask scontrol update "NodeName=$nodes" State=POWER_DOWN_FORCE
sleep 60
shutdown -h now "lockstep: $*"
STOP
  cat >/usr/local/sbin/lockstep-release-jobs <<'RELEASE'
#!/bin/bash
# After a start: what lockstep-save-jobs held may run.
export PATH=/usr/local/sbin:/opt/slurm/bin:$PATH
kept=/var/lib/lockstep/held-jobs saving=/var/lib/lockstep/saving
# Since the last start they are being saved. A machine that is still on after half an hour was not stopped.
[[ $(cat "$saving" 2>/dev/null) == "$(</proc/sys/kernel/random/boot_id)" && $(find "$saving" -mmin -30) ]] && exit 0
[[ -f $kept ]] && scontrol ping | grep -q UP || exit 0
for job in $(<"$kept"); do lockstep-ask scontrol release "$job" || true; done
rm -f "$kept" "$saving"
RELEASE
  chmod 755 /usr/local/sbin/lockstep-{ask,save-jobs,stop-cluster,release-jobs}
  cat >/etc/systemd/system/lockstep-watchdog.service <<UNIT
[Unit]
Description=Lockstep stops this cluster when no training progresses, or when its budget is spent
[Service]
Type=oneshot
ExecStartPre=-/usr/local/sbin/lockstep-release-jobs
ExecStart=/usr/local/bin/lockstep cloud watchdog /shared /fsx --idle ${idle}s --budget $budget \
  --machine-price $machine_price --head-price $head_price --slurm --state /var/lib/lockstep/watchdog.json \
  --stop-command /usr/local/sbin/lockstep-stop-cluster
UNIT
  cat >/etc/systemd/system/lockstep-watchdog.timer <<'UNIT'
[Unit]
Description=Lockstep's watchdog, once a minute
[Timer]
OnBootSec=2min
OnUnitActiveSec=1min
AccuracySec=5s
[Install]
WantedBy=timers.target
UNIT
  mkdir -p /var/lib/lockstep
  systemctl daemon-reload
  systemctl enable --now lockstep-watchdog.timer
}

install_spot_notice() {
  cat >/usr/local/sbin/lockstep-spot-notice <<'NOTICE'
LOCKSTEP_SPOT_NOTICE
NOTICE
  chmod 755 /usr/local/sbin/lockstep-spot-notice
  cat >/etc/systemd/system/lockstep-spot-notice.service <<'UNIT'
[Unit]
Description=Lockstep turns the notice of a spot machine into a preemption
[Service]
ExecStart=/usr/local/sbin/lockstep-spot-notice
Restart=on-failure
[Install]
WantedBy=multi-user.target
UNIT
  systemctl daemon-reload
  systemctl enable --now lockstep-spot-notice.service
}

install_package
if [[ $role == head ]]; then install_watchdog; else install_spot_notice; fi
