"""A machine booted by systemd: this machine's files in namespaces of their own, with systemd as process 1.

Writes go to a layer of its own (overlayfs), which a reboot keeps. It needs root and the package systemd.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.runtimes.require import Missing

_INIT: Final = Path("/lib/systemd/systemd")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_OFF: Final = (
    *("systemd-sysctl", "systemd-binfmt", "systemd-modules-load", "systemd-udevd", "console-getty", "getty@tty1"),
    *("containerd", "crio", "docker", "docker-registry", "postgresql", "prometheus", "cron"),
)
"""Services that are disabled, since they would change this machine's kernel or no test needs them."""
_BOOT: Final = r"""
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs "$BASE/mounts"
mkdir "$BASE/mounts/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$BASE/layer/upper,workdir=$BASE/layer/work" "$BASE/mounts/root"
cd "$BASE/mounts/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
cat /proc/sys/kernel/random/uuid > "$BASE/mounts/boot_id"
mount --bind "$BASE/mounts/boot_id" proc/sys/kernel/random/boot_id
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount --rbind /dev dev
for kept in $KEPT; do mkdir -p ".$kept"; mount --bind "$kept" ".$kept"; done
for unit in $OFF; do ln -sf /dev/null "etc/systemd/system/$unit.service"; done
ip link set lo up
mkdir -p old
pivot_root . old
cd /
umount -l /old
exec env -i container=test PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --log-target=null systemd.unit=multi-user.target
"""


class Machine:
    """A booted machine."""

    def __init__(self, base: Path, keep: tuple[Path, ...]) -> None:
        self._base, self._keep = base, keep
        self._outer: subprocess.Popen[bytes] | None = None
        self._group = _v2_root() / f"syncpod-test-machine-{os.getpid()}"
        for each in ("mounts", "layer/upper", "layer/work"):
            (base / each).mkdir(parents=True)

    def boot(self) -> None:
        """Boot; return when systemd answers."""
        environ = {
            "PATH": os.environ["PATH"],
            "BASE": str(self._base),
            "KEPT": " ".join(map(str, self._keep)),
            "OFF": " ".join(_OFF),
        }
        self._group.mkdir(exist_ok=True)
        line = ["sh", "-c", f'echo $$ > {self._group}/cgroup.procs; exec unshare -mpCniu --fork sh -c "$0"', _BOOT]
        self._outer = subprocess.Popen(line, env=environ, start_new_session=True)
        for _ in range(600):
            if self._outer.poll() is not None:
                raise Missing(f"a machine booted by systemd: it ended with {self._outer.returncode}")
            if self.run("systemctl", "is-system-running", check=False).strip() in ("running", "degraded"):
                return
            time.sleep(0.1)
        raise AssertionError("systemd does not get ready")

    def run(self, *line: str, check: bool = True, environ: dict[str, str] | None = None) -> str:
        """Run a command on the machine, as its root; return its standard output."""
        assert self._outer is not None
        inner = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()
        if not inner:
            return ""
        variables = {"PATH": os.environ["PATH"], "HOME": "/root", **(environ or {})}
        command = ["nsenter", "-t", inner[0], "-m", "-p", "-C", "-n", "-i", "-u", "--", *line]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, cwd="/", timeout=300, check=False)
        assert not check or done.returncode == 0, f"{line}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def reboot(self) -> None:
        """Shut down as `systemctl reboot` does, and boot again."""
        self.run("systemctl", "reboot", check=False)
        self._await_end()
        self.boot()

    def lose_power(self) -> None:
        """Kill all its processes, as a power cut does, and boot again."""
        self.end()
        self.boot()

    def end(self) -> None:
        """Kill all its processes for good."""
        if self._outer is not None and self._outer.poll() is None:
            inner = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()
            for pid in inner:
                os.kill(int(pid), signal.SIGKILL)
            self._await_end()
        for directory, _, _ in os.walk(self._group, topdown=False):
            Path(directory).rmdir()

    def _await_end(self) -> None:
        assert self._outer is not None
        self._outer.wait(timeout=200)


def _v2_root() -> Path:
    return _CGROUPS / "unified" if (_CGROUPS / "unified/cgroup.procs").exists() else _CGROUPS


@contextmanager
def booted(base: Path, keep: tuple[Path, ...]) -> Iterator[Machine]:
    """Boot a machine with its own layer in `base`; directories in `keep` are shared with this machine.

    Raises Missing where this machine cannot do that.
    """
    if os.geteuid() != 0:
        raise Missing("a machine booted by systemd: only root can make its namespaces")
    if not _INIT.exists() or shutil.which("unshare") is None or shutil.which("nsenter") is None:
        raise Missing("a machine booted by systemd: the package systemd, or util-linux, is not installed")
    machine = Machine(base, keep)
    try:
        machine.boot()
        yield machine
    finally:
        machine.end()
