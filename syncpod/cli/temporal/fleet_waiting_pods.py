"""Finds the pods of a fleet's workloads that no node has reported yet."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from temporalio.client import Client

from syncpod.cli.console import remark
from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet_workloads
from syncpod.fleet.workload_pods import workload_id
from syncpod.fleet.workload_traits import POD, TEMPLATED
from syncpod.messages.fleet import PlacedPod
from syncpod.messages.workload import PendingPod, WorkloadSummary, WorkloadView

_AT_ONCE = 20
"""Maximum number of workloads that are queried at the same time."""


@dataclass(frozen=True)
class WaitingPod:
    """A pod that no node has reported, and the id of its workload."""

    namespace: str
    owner: str
    pod: PendingPod
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of its workload's template; {} if that is not known."""


async def waiting_pods(
    client: Client, names: Sequence[str], namespace: str | None, listed: Sequence[tuple[str, PlacedPod]]
) -> list[WaitingPod]:
    """Return the pods that no node has yet, sorted by namespace and name; no `names` = all of them.

    `listed` are all pods that the fleet's nodes list, each with its node, as they were read before. A workload with
    fewer listed pods than it wants is queried: its memo names only pods without a node, and is a moment late.
    """
    counted, few = Counter(pod.owner for _, pod in listed), asyncio.Semaphore(_AT_ONCE)

    async def of(one: WorkloadSummary) -> list[WaitingPod]:
        owner = workload_id(one.kind, one.namespace, one.name)
        if counted[owner] >= max(one.replicas + one.misscheduled, one.desired) and not one.pending:
            return []
        try:
            async with few:
                whole = await fleet_workloads.view(client, one.kind, one.namespace, one.name)
        except Failure as failure:
            remark(f"Note: {one.kind.lower()} {one.name} may have pods that are not listed: {failure}")
            pods: Sequence[PendingPod] = one.pending
            labels: Mapping[str, str] = {}
        else:
            labels = _labels_of(whole)
            there = {(pod.name, node) for node, pod in listed if pod.owner == owner}
            pods = unlisted(whole, there) if whole is not None else ()
        return [WaitingPod(one.namespace, owner, pod, labels) for pod in pods]

    of_each = await asyncio.gather(*map(of, await fleet_workloads.all_summaries(client, namespace)))
    found = [one for each in of_each for one in each if not names or one.pod.name in names]
    where = namespace or "default"
    known = {pod.name for _, pod in listed if pod.namespace == where} | {one.pod.name for one in found}
    for name in set(names) - known:
        if (new := await fleet_workloads.just_applied(client, where, name)) is not None:
            found.append(WaitingPod(where, workload_id(POD.name, where, name), new))
    return sorted(found, key=lambda one: (one.namespace, one.pod.name, one.pod.node))


def _labels_of(workload: WorkloadView | None) -> Mapping[str, str]:
    document = (workload.document if workload is not None else None) or {}
    if document.get("kind") in TEMPLATED:
        document = document.get("spec", {}).get("template", {})
    labels: Mapping[str, str] = document.get("metadata", {}).get("labels") or {}
    return labels


def unlisted(workload: WorkloadView, listed: Collection[tuple[str, str]]) -> list[PendingPod]:
    """Return a workload's pods that no node reports; `listed` are the names and nodes of those in the nodes' lists."""
    if workload.kind not in TEMPLATED and not workload.pods and not workload.deleting:
        spec = (workload.document or {}).get("spec", {})
        containers, node = len(spec.get("containers", ())), spec.get("nodeName") or ""
        return [PendingPod(name=workload.name, created=workload.since, containers=containers, node=node)]
    return [
        PendingPod(
            name=pod.name,
            created=pod.created,
            why=pod.why,
            containers=pod.containers,
            node=pod.node or pod.bound,
        )
        for pod in workload.pods
        if not pod.leaving and not (pod.node and (pod.status != "Pending" or (pod.name, pod.node) in listed))
    ]
