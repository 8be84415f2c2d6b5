"""Reads cgroup limits from this machine's kernel, in either version of cgroups."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

MOUNTED: Final = Path("/sys/fs/cgroup")
IS_UNIFIED: Final = (MOUNTED / "cgroup.controllers").exists()
IS_THERE: Final = IS_UNIFIED or (MOUNTED / "cpu/cpu.shares").exists()
"""Whether limits of CPU and memory can be read on this machine."""
UNLIMITED: Final = "9223372036854771712"
"""Unlimited memory in version 1."""


class Weight(str):
    """A weight of version 2, equal to each number of shares (of version 1) that is converted to this weight.

    The kubelet and older runtimes convert shares linearly, newer ones by a curve through the default.
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        """Compare with shares, or with another weight."""
        if isinstance(other, Weight):
            return str.__eq__(self, other)
        return isinstance(other, str) and int(self) in (linear(int(other)), curve(int(other)))


def linear(shares: int) -> int:
    """The kubelet's weight for shares from 2 to 262144."""
    return 1 + (shares - 2) * 9999 // 262142


def curve(shares: int) -> int:
    """The weight that runc since 1.3, and the embedded runtime, give for shares."""
    power = math.log2(shares)
    return math.ceil(10 ** ((power * power + 125 * power) / 612 - 7 / 34)) if shares > 2 else 1


def directory(controller: str, cgroup: str) -> Path:
    """The directory of a cgroup's files of a controller."""
    return MOUNTED / ("" if IS_UNIFIED else controller) / cgroup.strip("/")


def enforced(cgroup: str) -> tuple[str, str, str]:
    """Weight, quota and memory limit of a cgroup: shares, microseconds in 100 ms, bytes. Raises FileNotFoundError.

    -1 stands for no quota, `UNLIMITED` for no limit. A weight of version 2 compares equal to the shares from which it
    was converted.
    """
    cpu, memory = directory("cpu", cgroup), directory("memory", cgroup)
    if not IS_UNIFIED:
        files = (cpu / "cpu.shares", cpu / "cpu.cfs_quota_us", memory / "memory.limit_in_bytes")
        shares, quota, limit = (file.read_text().strip() for file in files)
        return shares, quota, limit
    weight, most, limit = (_text(cpu, "cpu.weight"), _text(cpu, "cpu.max"), _text(memory, "memory.max"))
    return Weight(weight), most.split()[0].replace("max", "-1"), limit.replace("max", UNLIMITED)


def used_memory(cgroup: str) -> int:
    """The memory that a cgroup uses now, in bytes."""
    return int(_text(directory("memory", cgroup), "memory.current" if IS_UNIFIED else "memory.usage_in_bytes"))


def _text(directory: Path, name: str) -> str:
    return (directory / name).read_text().strip()
