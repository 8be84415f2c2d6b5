"""The facts of this machine and this user that matter to containers. They are read once, when the server starts."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Isolation = Literal["namespaces", "plain", "simulated"]
"""`namespaces`: each container has its own mounts; `plain`: it shares the machine's file system; `simulated`: there are
no processes, so nothing needs to be refused."""

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CAP_SYS_RESOURCE = 24


@dataclass(frozen=True)
class Host:
    """The facts of the machine and of the server's user."""

    isolation: Isolation
    uid: int
    gid: int
    groups: tuple[int, ...]
    search_path: str
    """The server's own PATH, for containers that set none."""
    lowest_oom_score_adj: int
    """The lowest oom_score_adj that a process of a container can have."""
    without_mounts: str = ""
    """The reason why there are no mount namespaces, if isolation is `plain`: the kernel's error when they were
    tried."""

    @property
    def root(self) -> bool:
        """True if processes can run as any user, and with any of root's capabilities."""
        return self.uid == 0

    @property
    def home(self) -> str:
        """The home directory of the server's user."""
        return home_of(self.uid)


def look(isolation: Isolation, environ: Mapping[str, str], *, without_mounts: str = "") -> Host:
    """Read the facts of this machine; `without_mounts` is the reason why we can have no mount namespaces."""
    return Host(
        isolation=isolation,
        uid=os.getuid(),
        gid=os.getgid(),
        groups=tuple(sorted({*os.getgroups(), os.getgid()})),
        search_path=environ.get("PATH") or DEFAULT_PATH,
        lowest_oom_score_adj=_lowest_oom_score_adj(),
        without_mounts=without_mounts,
    )


def home_of(uid: int) -> str:
    """Return a user's home directory; `/` for an unknown user."""
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"


def _lowest_oom_score_adj() -> int:
    """Return the lowest oom_score_adj of a child: the kernel's lowest with CAP_SYS_RESOURCE, else our own.

    Mirrors containerd with `restrict_oom_score_adj`.
    """
    status = Path("/proc/self/status").read_text()
    effective = next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")), 0)
    if effective >> _CAP_SYS_RESOURCE & 1:
        return -1000
    return int(Path("/proc/self/oom_score_adj").read_text())
