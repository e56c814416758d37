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
  rm -f "$file"
  ln -sf "$home/bin/lockstep" /usr/local/bin/lockstep
}

# A timer of systemd: it needs no client, survives a restart, and begins again after a crash of the watchdog.
install_watchdog() {
  cat >/usr/local/sbin/lockstep-stop-cluster <<'STOP'
#!/bin/bash
# Saves what runs, gives the workers back, and turns the head node off. Its disks go on costing.
for job in $(squeue -h -o %A); do scancel --batch --signal=USR1 "$job" || true; done
for _ in $(seq 24); do [[ -n $(squeue -h -t running -o %A) ]] || break; sleep 5; done
for job in $(squeue -h -t running -o %A); do scontrol requeuehold "$job" || scancel "$job" || true; done
for node in $(sinfo -h -N -o %N | sort -u); do scontrol update "NodeName=$node" State=POWER_DOWN_FORCE || true; done
sleep 60
shutdown -h now "lockstep: $*"
STOP
  chmod 755 /usr/local/sbin/lockstep-stop-cluster
  cat >/etc/systemd/system/lockstep-watchdog.service <<UNIT
[Unit]
Description=Lockstep stops this cluster when no training progresses, or when its budget is spent
[Service]
Type=oneshot
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
