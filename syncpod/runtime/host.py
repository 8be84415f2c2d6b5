"""What this machine and this user give containers to run with; looked at once, when the server starts."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Isolation = Literal["namespaces", "plain", "simulated"]
"""`namespaces`: each container has mounts of its own; `plain`: it shares the machine's file system; `simulated`: there
are no processes at all, so nothing that they could be refused."""

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CAP_SYS_RESOURCE = 24


@dataclass(frozen=True)
class Host:
    """The machine as containers find it."""

    isolation: Isolation
    uid: int
    gid: int
    groups: tuple[int, ...]
    search_path: str
    """PATH of containers that set none: the server's own."""
    lowest_oom_score_adj: int
    """Processes can be made no less likely to be killed than this."""

    @property
    def root(self) -> bool:
        """Whether processes can be run as anybody, and with any capability that root has."""
        return self.uid == 0

    @property
    def home(self) -> str:
        """The home directory of the server's user."""
        return home_of(self.uid)


def look(isolation: Isolation, environ: Mapping[str, str]) -> Host:
    """Return this machine as this process finds it."""
    return Host(
        isolation=isolation,
        uid=os.getuid(),
        gid=os.getgid(),
        groups=tuple(sorted({*os.getgroups(), os.getgid()})),
        search_path=environ.get("PATH") or DEFAULT_PATH,
        lowest_oom_score_adj=_lowest_oom_score_adj(),
    )


def home_of(uid: int) -> str:
    """Return a user's home directory; `/` for one that the machine does not know."""
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"


def _lowest_oom_score_adj() -> int:
    """Return how low a child's oom_score_adj can be: anything with CAP_SYS_RESOURCE, else no lower than our own.

    As containerd does under `restrict_oom_score_adj`, here always.
    """
    status = Path("/proc/self/status").read_text()
    effective = next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")), 0)
    if effective >> _CAP_SYS_RESOURCE & 1:
        return -1000
    return int(Path("/proc/self/oom_score_adj").read_text())
