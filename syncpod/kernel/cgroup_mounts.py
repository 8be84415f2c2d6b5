"""Where this machine's cgroups are, and which controllers each hierarchy has."""

import re
from dataclasses import dataclass
from pathlib import Path

_OCTAL = re.compile(r"\\([0-7]{3})")
_WHOLE = re.compile(r"/|(/\.\.)+")
"""The root of a mount that shows a hierarchy from its top: ``/..`` and so on from within a cgroup namespace."""

MOUNTINFO = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class Hierarchy:
    """One hierarchy of cgroups, mounted from its root."""

    path: Path
    version: int
    controllers: frozenset[str]
    """Of version 1. Version 2 says them in a file of each cgroup."""


def hierarchies(mountinfo: str) -> tuple[Hierarchy, ...]:
    """Return every hierarchy, in version 1 one for each controller or few, and version 2, each once.

    ``mountinfo`` is the text of /proc/<pid>/mountinfo. A mount that shows only a part of a hierarchy is left out.
    """
    found: dict[Path, Hierarchy] = {}
    for line in mountinfo.splitlines():
        fields = line.split()
        after = fields.index("-") + 1
        kind, options = fields[after], fields[after + 2].split(",")
        if kind in ("cgroup", "cgroup2") and _WHOLE.fullmatch(fields[3]):
            path = Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4]))
            controllers = frozenset(options) - {"rw", "ro"} if kind == "cgroup" else frozenset[str]()
            found[path] = Hierarchy(path, 1 if kind == "cgroup" else 2, controllers)
    return tuple(found.values())
