"""The parts of a pod that this node cannot do: limits that nothing enforces, and features that its runtime lacks."""

from __future__ import annotations

import asyncio

from activities.node.context import Node
from syncpod.cri.records import unenforced_limits
from syncpod.node.pod_cgroups import unenforced_as_a_whole
from syncpod.pod import Pod
from syncpod.pod.limits import limits_of
from syncpod.translation.features import needs_details, refusals
from syncpod.translation.refused_limits import refusals_of_limits


async def limits_refusals(node: Node, pod: Pod) -> tuple[str, ...]:
    """Return a sentence, with the field's path, for each limit of a pod that nothing here would enforce; () if none.

    The runtime is asked each time, because it may have been restarted as another user. Raises CriError, OSError.
    """
    limits = limits_of(pod)
    if not limits:
        return ()
    refused = refusals_of_limits(limits, unenforced_limits((await node.cri.status(verbose=True)).info))
    paths = {sentence.partition(":")[0] for sentence in refused}
    whole = await asyncio.to_thread(unenforced_as_a_whole, node.context, pod)
    return (*(each for each in whole if each.partition(":")[0] not in paths), *refused)


async def unsupported_features(node: Node, pod: Pod) -> tuple[str, ...]:
    """Return a sentence, with the field's path, for each feature that the runtime does not have. Raises CriError."""
    if needs_details(pod):
        return refusals(pod, await node.cri.status(verbose=True), await node.cri.version())
    return refusals(pod, await node.readiness.status())
