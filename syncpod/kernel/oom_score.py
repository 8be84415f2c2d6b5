"""Which processes the kernel kills first where the machine's memory runs out: those with the highest oom_score_adj.

A Guaranteed pod's containers have -997, so what serves pods has less: as the kubelet (pkg/kubelet/qos/policy.go, v1.36)
and containerd's shims. To lower the value needs CAP_SYS_RESOURCE, which root lacks in many containers and virtual
machines; then it stays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

NODE: Final = -999
"""The score of processes that serve pods: worker, Temporal server, and embedded runtime (KubeletOOMScoreAdj)."""
SUPERVISOR: Final = -998
"""The score of processes above single containers, which containerd's shims and pause have too (PodInfraOOMAdj)."""


def read_oom_score_adj(pid: int | str = "self") -> int:
    """Return the value of a process. Raises OSError."""
    return int(_file(pid).read_text())


def lower_oom_score_adj(value: int, pid: int | str = "self") -> bool:
    """Have the kernel spare a process; return whether its value is now `value` at most.

    Children inherit it: whoever starts others than its own kind gives them their own value. Raises nothing.
    """
    try:
        if read_oom_score_adj(pid) > value:
            _file(pid).write_text(str(value))
    except OSError:  # not permitted, or the process has ended
        return False
    return True


def raise_oom_score_adj(value: int) -> None:
    """Give up a value below `value` that this process has from its parent; no permission is needed. Raises OSError."""
    if read_oom_score_adj() < value:
        _file("self").write_text(str(value))


def unspared(processes: Mapping[str, int | None], wished: int = NODE) -> list[str]:
    """Return a clause for each named process that the kernel does not spare as wished: its value could not be set.

    None stands for a process that does not run. One that ends meanwhile is left out.
    """
    found = []
    for name, pid in processes.items():
        with contextlib.suppress(OSError, ValueError):
            if pid is not None and (value := read_oom_score_adj(pid)) > wished:
                found.append(f"{name} {value}")
    return found


def _file(pid: int | str) -> Path:
    return Path(f"/proc/{pid}/oom_score_adj")
