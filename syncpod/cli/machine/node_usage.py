"""The CPU and memory usage of this machine, pods and everything else."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_WINDOW_SECONDS: Final = 1.0
_TICKS_PER_SECOND: Final = 100
"""USER_HZ, which is 100 wherever Linux runs."""


@dataclass(frozen=True)
class NodeUsage:
    """The usage of the whole machine, and its capacity."""

    cpu_nano_cores: int
    """Billionths of a core."""
    cpus: int
    memory_bytes: int
    """The working set: memory that is neither free nor only cache."""
    total_memory_bytes: int


def measure_node(root: Path = Path("/")) -> NodeUsage:
    """Measure this machine; blocks for a second. Raises OSError, ValueError.

    The kubelet takes the root cgroup's figures from cAdvisor; these are from /proc, which counts the same.
    """
    first, begun = _busy_ticks(root), time.monotonic()
    time.sleep(_WINDOW_SECONDS)
    used, span = _busy_ticks(root) - first, time.monotonic() - begun
    memory = _meminfo((root / "proc/meminfo").read_text())
    nano_cores = int(used / _TICKS_PER_SECOND / span * 1_000_000_000)
    return NodeUsage(max(0, nano_cores), _cpus(root), working_set(memory), memory["MemTotal"])


def working_set(meminfo: Mapping[str, int]) -> int:
    """Return the bytes in use, without cached files that have not been read for a while.

    Mirrors cAdvisor's container/libcontainer/handler.go, setMemoryStats, for the root: usage less inactive files.
    """
    used = meminfo["MemTotal"] - meminfo["MemFree"]
    return max(0, used - meminfo.get("Inactive(file)", 0))


def _busy_ticks(root: Path) -> int:
    """Return the ticks that all processors together were busy: neither idle nor waiting for disks."""
    first = (root / "proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in first[1:9])
    return user + nice + system + irq + softirq + steal


def _cpus(root: Path) -> int:
    return sum(line.startswith("cpu") and line[3:4].isdigit() for line in (root / "proc/stat").open())


def _meminfo(text: str) -> dict[str, int]:
    """Return bytes by name."""
    lines = (line.partition(":") for line in text.splitlines())
    return {name: int(rest.split()[0]) * (1024 if rest.endswith("kB") else 1) for name, _, rest in lines}
