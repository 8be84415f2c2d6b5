"""The priority of a process over others, for processor time and when memory runs out.

When memory runs out, the kernel first kills the process with the highest oom_score_adj. A Guaranteed pod's containers
have -997, so processes that serve pods have less, as the kubelet (pkg/kubelet/qos/policy.go, v1.36) and containerd's
shims do. Lowering the value needs CAP_SYS_RESOURCE, which root lacks in many containers and virtual machines; then the
value stays.
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
    """Return the oom_score_adj of a process. Raises OSError."""
    return int(_file(pid).read_text())


def lower_oom_score_adj(value: int, pid: int | str = "self") -> bool:
    """Lower the oom_score_adj of a process to `value`, if it is higher; return whether it is at most `value` now.

    Children inherit it: a process that starts children of another kind must give them their own value. Raises nothing.
    """
    try:
        if read_oom_score_adj(pid) > value:
            _file(pid).write_text(str(value))
    except OSError:  # not permitted, or the process has ended
        return False
    return True


def raise_oom_score_adj(value: int) -> None:
    """Raise this process's oom_score_adj to `value`, if it has inherited a lower one. Needs no permission.

    Raises OSError.
    """
    if read_oom_score_adj() < value:
        _file("self").write_text(str(value))


def unspared(processes: Mapping[str, int | None], wished: int = NODE) -> list[str]:
    """Return the name and oom_score_adj of each process whose value could not be lowered to `wished`.

    A pid of None stands for a process that does not run. A process that ends meanwhile is left out.
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
"""The nice value of a preferred process. The scheduler offers it nine times the share of an ordinary process; others
get the time that it does not use."""


def prefer_this_process() -> None:
    """Let this process run before busy ones; do nothing without the permission, which root has.

    On an overloaded machine an ordinary process gets a few hundredths of a core, so the node would not answer its
    operator. Call this before any thread starts: threads and child processes inherit the priority of the thread that
    starts them. Containers are children of their runtime.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(NICE, os.getpriority(os.PRIO_PROCESS, 0)))


def be_ordinary() -> None:
    """Reset the priority that this process has inherited, for processor time and for when memory runs out.

    Call this before any thread starts.
    """
    with contextlib.suppress(OSError):
        raise_oom_score_adj(0)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(0, os.getpriority(os.PRIO_PROCESS, 0)))
