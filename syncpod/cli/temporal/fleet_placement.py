"""Explains placement: applies the fleet's own rules to a pod and the current offers of the nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from temporalio.client import Client

from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet, fleet_workloads
from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.placement import NodeFit, Placement, place
from syncpod.fleet.workload_pods import owner_of
from syncpod.fleet.workload_traits import is_per_node
from syncpod.fleet.workloads import kind_of, readmit_workload
from syncpod.messages.fleet import OWNER_ANNOTATION, FleetNodeView, Intent
from syncpod.messages.fleet_offers import offer_of
from syncpod.messages.workload import WorkloadView
from syncpod.pod import Pod, readmit

_HAS_ITS_POD: Final = "it has its pod"


@dataclass(frozen=True)
class ExplainedPlacement:
    """One pod, and the verdict of placement on every node now."""

    pod: Pod
    owner: str
    at: str
    """The pod's node; "" = none. The verdict on this node leaves the pod itself out."""
    placement: Placement
    silent: Sequence[str]
    """Nodes that have never reported, so that no pod is placed there."""


@dataclass(frozen=True)
class _Nodes:
    """All nodes, and the list of pods that each is given."""

    views: Sequence[FleetNodeView]
    lists: Mapping[str, Intent]

    def without(self, node: str, key: tuple[str, str]) -> dict[str, list[dict[str, Any]]]:
        """Return the pods of each node, apart from the one with `key` on `node`."""
        return {
            name: [each for each in listed.pods if name != node or _key(each) != key]
            for name, listed in self.lists.items()
        }


async def explain_pod(client: Client, namespace: str, name: str) -> list[ExplainedPlacement]:
    """Explain every pod of this name. Raises Failure if there is none."""
    nodes = await _nodes(client)
    found = [
        _explained(nodes, readmit(document).pod, node)
        for node, listed in sorted(nodes.lists.items())
        for document in listed.pods
        if _key(document) == (namespace, name)
    ]
    if found:
        return found
    for one in await fleet_workloads.all_summaries(client, namespace):
        if any(each.name == name for each in one.pending):
            (view,) = await fleet_workloads.views(client, one.kind, namespace, [one.name])
            return [_explained(nodes, _sample(view, name), "", _owner(view))]
    for each in nodes.views:
        if any((one.namespace, one.name) == (namespace, name) for one in each.placed):
            raise Failure(f'pod "{name}" is ending on {each.name}, so no node is looked for')
    raise Failure(f'pods "{name}" not found in the fleet')


async def explain_workload(client: Client, kind: str, namespace: str, name: str) -> ExplainedPlacement:
    """Explain where the next pod of a workload would be placed. Raises Failure.

    A DaemonSet places no second pod on a node that has its pod.
    """
    (view,) = await fleet_workloads.views(client, kind, namespace, [name])
    pod, owner, nodes = _sample(view, view.pending[0].name if view.pending else ""), _owner(view), await _nodes(client)
    if not is_per_node(kind):
        return _explained(nodes, pod, "", owner)
    served = {
        each.name: next(one.name for one in each.placed if one.owner == owner)
        for each in nodes.views
        if any(one.owner == owner for one in each.placed)
    }
    others = _Nodes([each for each in nodes.views if each.name not in served], nodes.lists)
    found = _explained(others, pod, "", owner)
    fits = [*found.placement.nodes, *(NodeFit(node, (_HAS_ITS_POD,), has) for node, has in served.items())]
    placement = Placement(
        found.placement.node,
        tuple(sorted(fits, key=lambda fit: fit.node)),
        found.placement.summary if found.placement.nodes or not served else "each node has its pod",
    )
    return replace(found, placement=placement)


async def _nodes(client: Client) -> _Nodes:
    views = await fleet.views(client)
    lists = await asyncio.gather(*(fleet.intent(client, each.name) for each in views))
    return _Nodes(views, {view.name: listed for view, listed in zip(views, lists, strict=True)})


def _explained(nodes: _Nodes, pod: Pod, at: str, owner: str = "") -> ExplainedPlacement:
    owner = owner or pod.metadata.annotations.get(OWNER_ANNOTATION, "")
    lists = nodes.without(at, (pod.metadata.namespace or "default", pod.metadata.name))
    offers: list[NodeOffer] = []
    silent = []
    for view in nodes.views:
        offer = offer_of(view, lists[view.name], [pod], owner)
        if offer is None:
            silent.append(view.name)
        else:
            offers.append(offer)
    return ExplainedPlacement(pod, owner, at, place(pod, offers, owner=owner), silent)


def _sample(view: WorkloadView, name: str) -> Pod:
    """Return a pod as the workload would make it now."""
    if view.document is None:
        raise Failure("nothing has been applied yet")
    workload = readmit_workload(view.document)
    kind = kind_of(workload)
    pod = kind.pod(workload, kind.template(workload), 0)
    named = pod.metadata.model_copy(update={"name": name or pod.metadata.name})
    return pod.model_copy(update={"metadata": named})


def _owner(view: WorkloadView) -> str:
    return owner_of(readmit_workload(view.document or {}))


def _key(document: Mapping[str, Any]) -> tuple[str, str]:
    meta = document.get("metadata") or {}
    return meta.get("namespace") or "default", meta.get("name", "")
