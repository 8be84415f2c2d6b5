"""Making the pod's own cgroup and those above it, with their limits, before its sandbox is made."""

from __future__ import annotations

import asyncio
import logging

from activities.node.context import Node
from activities.step_attempt import PodFault, StepAttempt
from syncpod.messages.steps import Fault
from syncpod.node.pod_cgroups import LimitsRefused, limit_all_pods, make_pod_cgroup, weigh_tiers
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext

logger = logging.getLogger(__name__)


async def prepare_cgroup(attempt: StepAttempt, pod: Pod) -> None:
    """Make the pod's cgroup with its limits, and update the weight of its QoS tier and the limits of all pods.

    Safe to repeat.

    Mirrors kubelet.go, v1.36, SyncPod, with UpdateQOSCgroups and EnsureExists. Raises PodFault UnsupportedByRuntime for
    a pod-level limit that nothing here would enforce; OSError.
    """
    node = attempt.node
    attempt.doing = "makes the pod's cgroup"
    try:
        _log_unlimited(node, await asyncio.to_thread(_make, node.context, pod))
    except LimitsRefused as refused:
        raise PodFault(Fault.UNSUPPORTED_BY_RUNTIME, str(refused)) from refused
    async with node.ledger.open() as page:
        await asyncio.to_thread(weigh_tiers, node.context, page.burstable_milli_cpu)


async def limit_pods(node: Node) -> None:
    """Limit all pods together to the node's allocatable resources; log once which limits the worker may not set."""
    _log_unlimited(node, await asyncio.to_thread(limit_all_pods, node.context))


def _make(context: NodeContext, pod: Pod) -> str:
    """Make the pod's cgroup and limit all pods; return which limits of all pods could not be set, "" if none.

    Blocks. Raises LimitsRefused, OSError.
    """
    make_pod_cgroup(context, pod)
    # After the pod's own cgroup: before that exists, the end of another pod may remove the cgroup above it.
    return limit_all_pods(context)


def _log_unlimited(node: Node, lacks: str) -> None:
    if lacks and lacks != node.unlimited:
        logger.info("the node's pods are not limited as a whole: %s", lacks)
    node.unlimited = lacks
