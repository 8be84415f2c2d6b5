"""Predicts whether a node would admit a pod: makes the checks of admission, without side effects."""

from __future__ import annotations

from collections.abc import Sequence

from activities.node.context import Node
from activities.node.uid_owners import UID_IN_USE
from activities.pods.admission import limits_refusals, needs_app_armor, strike_what_is_gone
from syncpod.messages.identity import PodRef
from syncpod.messages.queries import ComesBefore
from syncpod.node.fit import Demand
from syncpod.node.labels import is_asked_for
from syncpod.pod import Pod
from syncpod.pod.admission import os_refusal
from syncpod.pod.host_ports import HostPort
from syncpod.translation.features import refusals

_COUNTED = " (together with the pods before it)"


async def foresee_admission(node: Node, pod: Pod, before: Sequence[ComesBefore] = ()) -> list[str]:
    """Return why the node would not run this pod now, a sentence for each reason; [] if no reason is known.

    The reasons for which admission rejects the pod come first, in the kubelet's words; then the limits that nothing
    enforces, and the features that the runtime does not support. The pods `before` count as admitted. Nothing is
    reserved, so the answer may differ when the pod is applied. Raises CriError, OSError.
    """
    version, status = await node.cri.version(), await node.cri.status(verbose=True)
    rejections, limits = await _rejections(node, pod, before), await limits_refusals(node, pod)
    return [*rejections, *limits, *refusals(pod, status, version)]


async def _rejections(node: Node, pod: Pod, before: Sequence[ComesBefore]) -> list[str]:
    """Return the first reason for which the node would reject the pod; [] if there is none.

    The UID is checked first, then the conditions of `admit_to_node` in its order.
    """
    meta = pod.metadata
    if taken := await node.uids.refusal(PodRef(namespace=meta.namespace, name=meta.name, uid=meta.uid)):
        return [f"{UID_IN_USE}: {taken}"]
    if pressure := node.agent.admission_refusal(pod):
        return [f"Evicted: {pressure}"]
    if (forbidden := node.sysctls.refusal(pod)) is not None:
        return [f"SysctlForbidden: {forbidden}"]
    if (wrong := os_refusal(pod)) is not None:
        return [": ".join(wrong)]
    ref, capacity = PodRef(namespace=pod.metadata.namespace, name=pod.metadata.name), node.context.capacity
    matches = is_asked_for(pod, node.context)
    async with node.ledger.open() as page:
        refusal = page.refusal(ref, pod, capacity, matches=matches)
        if refusal is not None and await strike_what_is_gone(node, ref, page):
            refusal = page.refusal(ref, pod, capacity, matches=matches)
        beside = refusal is None
        if beside:
            demands = tuple(Demand(each.amounts, tuple(HostPort(*port) for port in each.ports)) for each in before)
            refusal = page.foreseen_refusal(ref, pod, capacity, matches=matches, before=demands)
    if refusal is not None:
        return [f"{refusal.reason}: {refusal.message}{_COUNTED if beside else ''}"]
    if (shuts_down := node.agent.shutdown_refusal()) is not None:
        return [": ".join(shuts_down)]
    if needs_app_armor(pod) and not node.context.host.apparmor:
        return ["AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host"]
    return []
