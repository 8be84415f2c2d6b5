"""The guest's first process: it mounts the usual file systems, runs one command, and powers off. Standard library only.

The directory /mnt/out is shared with the host: `command.json` has the command, and its exit code is written to `exit`.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from pathlib import Path

OUT = Path("/mnt/out")
_MOUNTS = (
    ("virtiofs", "out", "/mnt/out", ""),
    ("tmpfs", "tmpfs", "/run", "mode=755"),
    ("tmpfs", "tmpfs", "/dev/shm", "mode=1777"),
    ("devpts", "devpts", "/dev/pts", "ptmxmode=666"),
    ("mqueue", "mqueue", "/dev/mqueue", ""),
    ("cgroup2", "cgroup2", "/sys/fs/cgroup", "nsdelegate"),
)
_MODULES = ("veth", "bridge", "br_netfilter", "nf_tables", "nft_compat", "xt_comment", "nft_chain_nat")
_RB_POWER_OFF = 0x4321FEDC


def main() -> None:
    """Never return: the kernel would panic."""
    try:
        _lay_out()
        command = json.loads((OUT / "command.json").read_text())
        code = _run(command["argv"], command["environment"], command["directory"])
        (OUT / "exit").write_text(str(code))
    except BaseException as error:  # noqa: BLE001  # the kernel panics if this process ends
        sys.stderr.write(f"guest: {type(error).__name__}: {error}\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.sync()
        ctypes.CDLL(None).reboot(_RB_POWER_OFF)
        while True:
            time.sleep(1)


def _lay_out() -> None:
    os.umask(0o022)
    for kind, source, place, options in _MOUNTS:
        Path(place).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", kind, "-o", options or "defaults", source, place], check=True)
    for link, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        if not os.path.lexists(f"/dev/{link}"):
            Path("/dev", link).symlink_to(f"/proc/self/fd{target}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    Path("/proc/sys/kernel/hostname").write_text("cgroup2")
    for module in _MODULES:
        subprocess.run(["modprobe", "-q", module], check=False)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _run(argv: list[str], environment: dict[str, str], directory: str) -> int:
    """Run a command to its end and return its exit code. Meanwhile reap orphaned processes."""
    child = subprocess.Popen(argv, env=environment, cwd=directory, start_new_session=True)
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main()
