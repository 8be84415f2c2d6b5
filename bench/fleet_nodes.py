"""``python -m bench.fleet_nodes DIRECTORY...``: many nodes of a fleet in one process, without real pods.

Each node has its own certificate, queue and connection, and the part of the agent that serves the fleet: the link, the
stored list of pods, and the reports. It has no Temporal server, no runtime and no containers. A pod counts as running
once a list has it.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from activities.fleet_node import fleet_answers
from syncpod.agent.fleet.contact import Contact
from syncpod.agent.fleet.link import FleetLink, ToFleet, to_gate
from syncpod.agent.fleet.member import FleetMembership
from syncpod.agent.fleet.objects import FleetObjects
from syncpod.agent.fleet.remote_commands import RemoteCommands
from syncpod.agent.fleet.reports import FleetReports
from syncpod.agent.published_pods import PublishedPods
from syncpod.messages.fleet import FLEET_SOURCE
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.node import SOURCE_ANNOTATION, NodeCondition, NodeView, SourceView, SyncPods, node_workflow_id
from syncpod.node.host import read_host
from syncpod.objects import ObjectStore
from syncpod.settings.invitation import Invitation
from syncpod.translation.context import Host, NodeContext
from tests.agent.published import OfNoPod

_ROOM = {"cpu": "64", "memory": "256Gi", "pods": "250"}


@dataclass(frozen=True)
class State(OfNoPod):
    """A state as a workflow of the node publishes it; a state of gone pods has no answers."""

    uid: str
    answers: Mapping[str, Any]
    at: datetime
    is_gone: bool = False
    is_unready: bool = False
    history_length: int = 1

    def pod(self) -> dict[str, Any]:
        """Return the Pod."""
        return dict(self.answers["pod"])

    def node(self) -> dict[str, Any]:
        """Return the node."""
        return dict(self.answers["node"])


class SimulatedMember:
    """A node on which each pod counts as running as soon as a list has it."""

    def __init__(self, name: str, state_dir: Path, host: Host, to_fleet: ToFleet) -> None:
        """Prepare the node; the state directory must have its invitation."""
        self._name = name
        context = NodeContext(
            name=name,
            state_dir=state_dir,
            memory_dir=state_dir / "memory",
            log_dir=state_dir / "logs",
            cluster=name,
            cgroup_parent="/",
            cgroup_driver="cgroupfs",
            host=host,
        )
        self._published = PublishedPods(context)
        self._pods: dict[str, str] = {}
        self._sources: dict[str, SourceView] = {}
        contact = Contact(state_dir)

        def member(invitation: Invitation) -> FleetMembership:
            reports = FleetReports(self._published, name)
            return FleetMembership(
                invitation,
                state_dir,
                reports,
                contact=contact,
                remote_commands=RemoteCommands(name, {}),
                objects=FleetObjects(invitation, ObjectStore(state_dir, state_dir / "memory")),
                tell=self.sync_pods,
                open_pods=self.open_pods,
            )

        self.link = FleetLink(state_dir, name, contact, member, fleet_answers, view=self.view, to_fleet=to_fleet)
        self._publish()

    async def sync_pods(self, listed: SyncPods) -> None:
        """Count the pods of the list as running, and all others as gone."""
        now = datetime.now(UTC)
        wanted = {pod_workflow_id(_namespace(pod), pod["metadata"]["name"]): pod for pod in listed.pods}
        for workflow_id in self._pods.keys() - wanted.keys():
            self._published.take(workflow_id, "run", State(self._pods.pop(workflow_id), {}, now, is_gone=True))
        for workflow_id in wanted.keys() - self._pods.keys():
            uid = self._pods[workflow_id] = str(uuid.uuid4())
            self._published.take(
                workflow_id, "run", State(uid, {"pod": _running(wanted[workflow_id], uid, self._name, now)}, now)
            )
        self._sources[listed.source] = SourceView()
        self._publish()

    async def open_pods(self) -> dict[str, str]:
        """Return the run of each pod's workflow, by workflow id."""
        return dict.fromkeys(self._pods, "run")

    async def view(self) -> NodeView:
        """Return the view that a node's own workflow would return."""
        ready = NodeCondition(type="Ready", status="True", reason="Simulated", message="pods run at once")
        return NodeView(
            name=self._name, conditions=(ready,), capacity=_ROOM, allocatable=_ROOM, sources=dict(self._sources)
        )

    def _publish(self) -> None:
        ready = NodeCondition(type="Ready", status="True", reason="Simulated", message="pods run at once")
        view = NodeView(name=self._name, conditions=(ready,), capacity=_ROOM, allocatable=_ROOM)
        state = State("", {"node": view.model_dump(mode="json", by_alias=True)}, datetime.now(UTC))
        self._published.take(node_workflow_id(self._name), "run", state)


def _namespace(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("namespace") or "default")


def _running(pod: Mapping[str, Any], uid: str, node: str, now: datetime) -> dict[str, Any]:
    """Return a pod with a status in which all its containers run."""
    started = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {**pod["metadata"], "uid": uid, "namespace": _namespace(pod)}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), SOURCE_ANNOTATION: FLEET_SOURCE}
    containers = [
        {
            "name": each["name"],
            "image": each["image"],
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": started}},
        }
        for each in pod["spec"]["containers"]
    ]
    status = {
        "phase": "Running",
        "startTime": started,
        "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": started}],
        "containerStatuses": containers,
    }
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}, "status": status}


async def serve(directories: Sequence[Path]) -> None:
    """Serve the nodes of these state directories until cancelled. A directory's name is its node's."""
    host, to_fleet = read_host(), to_gate(directories[0])
    members = [SimulatedMember(each.name, each, host, to_fleet) for each in directories]
    await asyncio.gather(*(member.link.run() for member in members))


if __name__ == "__main__":
    asyncio.run(serve([Path(each) for each in sys.argv[1:]]))
