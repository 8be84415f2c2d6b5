"""The result of changing a container's limits, and the change that undoes it."""

from __future__ import annotations

from typing import Final

from protos.cri.v1.api_pb2 import LinuxContainerResources

_UNLIMITED: Final = -1
_DEFAULT_PERIOD: Final = 100_000
_DEFAULT_SHARES: Final = 1024
"""These three are a cgroup's values without limits."""


def changed(now: LinuxContainerResources, change: LinuxContainerResources, *, started: bool) -> LinuxContainerResources:
    """Return the limits after a change: unset values stay, and lists are replaced.

    The OOM score belongs to the process and not to the cgroup, so it does not change once the container is `started`,
    as in containerd.
    """
    after = LinuxContainerResources()
    after.CopyFrom(now)
    if change.hugepage_limits:
        del after.hugepage_limits[:]
    after.MergeFrom(change)
    if started:
        after.oom_score_adj = now.oom_score_adj
    return after


def undoing(now: LinuxContainerResources, change: LinuxContainerResources) -> LinuxContainerResources:
    """Return the change that undoes `change`, of which only a part was made; `now` are the limits before it.

    Values without a limit before become unlimited again, except cpusets and huge pages, which get their parent's
    limits.
    """
    back = LinuxContainerResources(
        cpuset_cpus=now.cpuset_cpus if change.cpuset_cpus else "",
        cpuset_mems=now.cpuset_mems if change.cpuset_mems else "",
        hugepage_limits=now.hugepage_limits if change.hugepage_limits else (),
        unified={name: now.unified[name] for name in change.unified if name in now.unified},
    )
    if change.cpu_shares:
        back.cpu_shares = now.cpu_shares or _DEFAULT_SHARES
    if change.cpu_quota:
        back.cpu_quota = now.cpu_quota or _UNLIMITED
    if change.cpu_period:
        back.cpu_period = now.cpu_period or _DEFAULT_PERIOD
    if change.memory_limit_in_bytes or change.memory_swap_limit_in_bytes:
        back.memory_limit_in_bytes = now.memory_limit_in_bytes or _UNLIMITED
        back.memory_swap_limit_in_bytes = now.memory_swap_limit_in_bytes or _UNLIMITED
    return back
