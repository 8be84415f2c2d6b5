"""The place of a process among the machine's others: for processor time, and where memory runs out.

Where it does, the kernel first kills the process with the highest oom_score_adj. A Guaranteed pod's containers have
-997, so what serves pods has less: as the kubelet (pkg/kubelet/qos/policy.go, v1.36) and containerd's shims. To lower
the value needs CAP_SYS_RESOURCE, which root lacks in many containers and virtual machines; then it stays.
"""

from __future__ import annotations

import contextlib
import os
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


NICE: Final = -10
"""The scheduler offers such a process nine times the share of an ordinary one; others get the time that it does not
use."""


def prefer_this_process() -> None:
    """Have this process run before busy ones, if it may: root may.

    On a machine with many more busy processes than cores, an ordinary process gets a few hundredths of a core, and the
    node would not answer just when its operator looks. Call this before any thread starts: threads take the priority
    from the one that starts them, as child processes do. Containers are children of their runtime.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(NICE, os.getpriority(os.PRIO_PROCESS, 0)))


def be_ordinary() -> None:
    """Give up a priority above others that this process has from its parent, also where memory runs short.

    Call this before any thread starts.
    """
    with contextlib.suppress(OSError):
        raise_oom_score_adj(0)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(0, os.getpriority(os.PRIO_PROCESS, 0)))
