"""Removes everything that one containerd left on the machine, alive or dead, found by its directory only.

Everything is found by the instance's own names (its directory, bridge, network and cgroup parent). So this also works
for an instance whose owner was killed, and touches no other instance.
"""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.patience import PATIENCE
from tests.runtimes.processes import Process, kill, processes, with_descendants

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Names:
    """The names of the instance of one directory elsewhere on the machine."""

    bridge: str
    network: str
    cgroup_parent: str

    @classmethod
    def of(cls, directory: Path) -> Self:
        """The names that follow from the directory's path; each has the same eight characters."""
        mark = f"{zlib.crc32(bytes(directory)):08x}"
        return cls(bridge=f"sp{mark}", network=f"syncpod-{mark}", cgroup_parent=f"/syncpod-{mark}")


def clear(directory: Path) -> None:
    """End the processes, mounts, bridge, firewall rules and cgroups of the containerd in `directory`, and empty it."""
    names = Names.of(directory)
    end_processes(directory)
    cgroups = [names.cgroup_parent, *_bundles_cgroups(directory)]
    unmount_below(directory)
    # Without a pod that had a network there is no bridge.
    subprocess.run(["ip", "link", "delete", names.bridge], capture_output=True, check=False)
    _remove_firewall_rules(names.network)
    for cgroup in cgroups:
        remove_cgroup(cgroup)
    empty(directory)


def empty(directory: Path) -> None:
    """Remove everything in a runtime's directory except for its lock."""
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != "lock":
            entry.unlink()


def end_processes(directory: Path) -> None:
    """Kill containerd, its shims, its containers and the programs for which it was waiting."""
    while True:
        everything = processes()
        roots = [process.pid for process in everything if _belongs(process, directory)]
        if not roots:
            return
        # A shim is the subreaper of its containers, so all their processes are among its descendants.
        kill(with_descendants(roots, everything))


def shims(directory: Path) -> tuple[Process, ...]:
    """The live shims of the containerd in `directory`."""
    return tuple(process for process in processes() if _is_shim(process, directory))


def _belongs(process: Process, directory: Path) -> bool:
    daemon = process.program == "containerd" and str(directory / "config.toml") in process.argv
    wrapper = any(argument.startswith(f"{directory}/bin/") for argument in process.argv[:3])
    return daemon or wrapper or _is_shim(process, directory)


def _is_shim(process: Process, directory: Path) -> bool:
    addresses = [value for flag, value in zip(process.argv, process.argv[1:], strict=False) if flag == "-address"]
    return process.program.startswith("containerd-shim") and str(directory / "containerd.sock") in addresses


def _bundles_cgroups(directory: Path) -> Iterator[str]:
    """The cgroups of containerd's last containers, from their OCI bundles."""
    for config in directory.glob("state/io.containerd.runtime.v2.task/*/*/config.json"):
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            yield json.loads(config.read_text())["linux"].get("cgroupsPath", "")


def unmount_below(directory: Path) -> None:
    """Unmount everything below the directory, without waiting for processes that use it."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    ours = [mount for mount in reversed(mounts) if mount.startswith(f"{directory}/")]
    if ours:
        subprocess.run(["umount", "--lazy", *ours], capture_output=True, text=True, check=True)


def _remove_firewall_rules(network: str) -> None:
    """Remove the rules of the portmap plugin for `network`, which is named in the comment of each jump rule."""
    if shutil.which("iptables") is None:
        return
    listing = subprocess.run(["iptables", "-t", "nat", "-S"], capture_output=True, text=True, check=False)
    for line in listing.stdout.splitlines():
        if f'"{network}"' not in line.replace("\\", ""):
            continue
        rule = shlex.split(line)
        chain = rule[rule.index("-j") + 1]
        commands = [["-D", *rule[1:]], ["-F", chain], ["-X", chain]]
        for command in commands if chain.startswith("CNI-DN-") else commands[:1]:
            subprocess.run(["iptables", "-t", "nat", *command], capture_output=True, check=True)


def has_cgroup(path: str) -> bool:
    """Return whether a cgroup exists, in any hierarchy of version 1 or in that of version 2."""
    return any(Path(f"{top}{path}").exists() for top in (CGROUPS, *CGROUPS.iterdir()))


def remove_cgroup(path: str, *, patience: float = PATIENCE) -> None:
    """Kill the processes in a cgroup and below, and remove it, in every hierarchy of versions 1 and 2.

    Raises OSError if something is still in it after `patience` seconds.
    """
    if not path.strip("/"):
        return
    deadline = time.monotonic() + patience
    for hierarchy in (CGROUPS, *(entry for entry in CGROUPS.iterdir() if entry.is_dir())):
        top = hierarchy / path.strip("/")
        while top.is_dir():
            try:
                for cgroup in sorted((entry for entry in (top, *top.rglob("*")) if entry.is_dir()), reverse=True):
                    _end_members(cgroup)
                    cgroup.rmdir()
            except FileNotFoundError:
                pass  # a process of the runtime's has removed it meanwhile
            except OSError:
                # A killed process leaves its cgroup only when it has been reaped, which takes a while on a busy
                # machine.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def _end_members(cgroup: Path) -> None:
    """Kill the processes of a cgroup, including those whose shim is dead, which are not found otherwise."""
    for pid in (cgroup / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
