"""Turns the state of a node's workflow in its fleet into the offer that placement uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from syncpod.fleet.affinity import can_affect
from syncpod.fleet.offers import NodeOffer, Presence
from syncpod.fleet.placement import pod_there, without_room_of
from syncpod.fleet.workload_pods import is_name_for
from syncpod.messages.fleet import OWNER_ANNOTATION, FleetNodeSummary
from syncpod.pod import Pod, PodInvalid, parse_quantity, readmit


def offer_of(
    node: FleetNodeSummary, documents: Iterable[dict[str, Any]], wanted: Sequence[Pod], owner: str
) -> NodeOffer | None:
    """Return a node's offer beside the pods of its list, `documents`; None if it has not reported yet.

    The offer lists the pods that can affect the placement of `wanted`, and all pods of `owner`. It also has the names
    of other owners' pods that `owner` could give a pod. Raises ValueError for an invalid quantity.
    """
    if node.presence == "Joining":
        return None
    offer = NodeOffer(
        node.name,
        labels=node.labels,
        unschedulable=node.unschedulable,
        doubled=node.doubled,
        presence=_presence(node.presence),
        allocatable={name: _amount(name, text) for name, text in node.allocatable.items()},
        unenforced_limits=frozenset(node.unenforced_limits),
    )
    for document in documents:
        offer = _with(offer, document, wanted, owner)
    return offer


def _with(offer: NodeOffer, document: dict[str, Any], wanted: Sequence[Pod], owner: str) -> NodeOffer:
    """Return an offer less the room that a pod takes, with the pod itself added if it matters."""
    try:
        pod = readmit(document).pod
    except PodInvalid:
        return replace(offer, others=offer.others + 1)
    there = pod_there(pod, pod.metadata.annotations.get(OWNER_ANNOTATION, ""))
    offer = without_room_of(offer, pod)
    if there.owner != owner and is_name_for(owner, there.namespace, there.name):
        offer = replace(offer, namesakes=(*offer.namesakes, there.name))
    if there.owner == owner or any(can_affect(there, one, one.metadata.namespace or "default") for one in wanted):
        return replace(offer, pods=(*offer.pods, there))
    return replace(offer, others=offer.others + 1)


def _presence(presence: str) -> Presence:
    return "Ready" if presence == "Ready" else "NotReady" if presence == "NotReady" else "Unknown"


def _amount(name: str, text: str) -> int:
    quantity = parse_quantity(text)
    return quantity.milli_value() if name == "cpu" else quantity.value()
