"""The CPU and memory usage of this machine, pods and everything else."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncpod.kernel.procfs import read_memory, read_processors

_WINDOW_SECONDS: Final = 1.0


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
    """Measure this machine; blocks for a second. Raises OSError, ValueError, KeyError.

    The kubelet takes the root cgroup's figures from cAdvisor; these are from /proc, which counts the same.
    """
    proc = root / "proc"
    first, begun = read_processors(proc), time.monotonic()
    time.sleep(_WINDOW_SECONDS)
    last, span = read_processors(proc), time.monotonic() - begun
    memory = read_memory(proc)
    nano_cores = int((last.busy_ns - first.busy_ns) / span)
    return NodeUsage(max(0, nano_cores), last.count, memory.working_set, memory.total)
