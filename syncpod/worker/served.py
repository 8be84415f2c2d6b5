"""The workflows, activities and task queue that ``worker.py`` and ``fleet_worker.py`` serve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from temporalio.client import Client

    from activities.node.context import Node
    from syncpod.agent.fleet.member import FleetMembership
    from syncpod.gate.object_sealing import ObjectSealing
    from syncpod.temporal.pod_orders import PodOrders

Activity = Callable[..., Any]


@dataclass(frozen=True)
class ServedByNode:
    """The workflows and activities of a node's worker, and its task queue."""

    task_queue: Callable[[str], str]
    """Returns the task queue of a node, by the node's name."""
    workflows: Sequence[type]
    activities: Callable[[Node, PodOrders], Sequence[Activity]]
    """Returns the activities of that queue. The `PodOrders` send the node workflow's orders to pods' workflows."""
    fleet_activities: Callable[[FleetMembership], Sequence[Activity]]
    """Returns the activities with which a member answers its fleet, on the node's queue of the fleet's server."""


@dataclass(frozen=True)
class ServedByFleet:
    """The workflows and activities of each worker of a fleet, and their task queue."""

    task_queue: str
    workflows: Sequence[type]
    activities: Callable[[Client, ObjectSealing], Sequence[Activity]]
    """Returns the activities of that queue, which command the fleet by this client and seal its objects for nodes."""
