#!/bin/sh
# A machine's shutdown by systemd and its logind, for `python -m qa.cgroup2 --sh 'sh qa/cgroup2/shutdown.sh'`: systemd is
# the first process of a PID namespace of the guest, starts a node with a pod and a critical one, and powers off. The pods
# end within the shutdown's delay, the critical one last, and only then does systemd stop its units. Each ends some
# seconds after its SIGTERM, so that the order cannot be chance.
set -eu
project=$PWD out=/mnt/out/shutdown
rm -rf "$out"
mkdir "$out"

cat >"$out/boot.sh" <<'BOOT'
set -eu
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /run/systemd/system /run/dbus /run/lock
cd /run/systemd/system
# Units of the machine whose files these are, which a namespace does not have.
for unit in \
  systemd-udevd.service systemd-udev-trigger.service systemd-udevd-kernel.socket systemd-udevd-control.socket \
  systemd-modules-load.service systemd-remount-fs.service systemd-random-seed.service systemd-sysctl.service \
  systemd-binfmt.service dev-hugepages.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
  proc-sys-fs-binfmt_misc.automount systemd-update-utmp.service systemd-journal-flush.service; do
  ln -s /dev/null "$unit"
done
cat >trial.target <<UNIT
[Unit]
Requires=dbus.socket systemd-logind.service trial.service
UNIT
cat >trial.service <<UNIT
[Unit]
Wants=dbus.service
After=dbus.service systemd-logind.service
[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=infinity
WorkingDirectory=$PROJECT
ExecStart=/bin/sh $OUT/trial.sh
ExecStop=/bin/sh -c 'echo units stop >>$OUT/order'
UNIT
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=trial \
  /lib/systemd/systemd --system --unit=trial.target --log-target=console --show-status=0
BOOT

cat >"$out/trial.sh" <<'TRIAL'
exec >"$OUT/trial.log" 2>&1
set -eux
state=/var/tmp/shutdown manifests=/var/tmp/shutdown-manifests
mkdir -m 700 "$state" "$manifests"
export HOME=/root PYTHONDONTWRITEBYTECODE= SYNCPOD_STATE_DIR=$state
export SYNCPOD_SHUTDOWN_GRACE_BY_PRIORITY=0=60s,2000000000=40s
pod() { # NAME PRIORITY SECONDS: a pod that ends so long after its SIGTERM
  cat >"$manifests/.$1" <<POD
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  priority: $2
  terminationGracePeriodSeconds: 50
  volumes: [{name: out, hostPath: {path: $OUT}}]
  containers:
  - name: main
    image: busybox:1
    volumeMounts: [{name: out, mountPath: /out}]
    command:
    - sh
    - -c
    - "trap 'echo $1 is to end >>/out/order; sleep $3; echo $1 ends >>/out/order; exit 0' TERM; while :; do sleep 1; done"
POD
  mv "$manifests/.$1" "$manifests/$1.yaml"
}
pod web 0 8
pod critical 2000000000 4
.venv/bin/syncpod up --node shutdown --manifests "$manifests" --timeout 600s || true # a slow machine may need longer
for _ in $(seq 200); do
  [ "$(.venv/bin/syncpod get pods --no-headers | grep -c ' Running ')" -eq 2 ] && break
  sleep 2
done
systemd-inhibit --list --no-pager
echo poweroff >>"$OUT/order"
systemctl poweroff --no-block
TRIAL
sed -i "s#\$PROJECT#$project#; s#\$OUT#$out#" "$out/boot.sh"
sed -i "s#\$OUT#$out#" "$out/trial.sh"

mkdir /sys/fs/cgroup/trial
echo $$ >/sys/fs/cgroup/trial/cgroup.procs
unshare --pid --fork --mount --cgroup sh "$out/boot.sh" || true # a namespace that powers off ends by a signal

cat >"$out/expected" <<'ORDER'
poweroff
web is to end
web ends
critical is to end
critical ends
units stop
ORDER
diff "$out/expected" "$out/order" && echo "the shutdown waited for its pods, the critical one last"
