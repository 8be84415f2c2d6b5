"""Making the pod's own cgroup, with its limits, before its sandbox is made below it."""

from __future__ import annotations

import asyncio

from activities.attempt import Attempt, PodFault
from syncpod.messages import Fault
from syncpod.node.pod_cgroups import LimitsRefused, make_pod_cgroup, weigh_tiers
from syncpod.pod import Pod


async def prepare_cgroup(attempt: Attempt, pod: Pod) -> None:
    """Make the pod's cgroup with its limits, and update the weight of its QoS tier. Safe to repeat.

    Mirrors kubelet.go, v1.36, SyncPod, with UpdateQOSCgroups and EnsureExists. Raises PodFault UnsupportedByRuntime for
    a pod-level limit that nothing here would enforce; OSError.
    """
    node = attempt.node
    attempt.doing = "makes the pod's cgroup"
    try:
        await asyncio.to_thread(make_pod_cgroup, node.context, pod)
    except LimitsRefused as refused:
        raise PodFault(Fault.UNSUPPORTED_BY_RUNTIME, str(refused)) from refused
    async with node.ledger.open() as page:
        await asyncio.to_thread(weigh_tiers, node.context, page.burstable_milli_cpu)
