"""Makes a node's reports to its fleet, about itself and the fleet's pods, from the states that workflows publish."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from syncpod.agent.fleet.runtime_facts import RuntimeFacts
from syncpod.agent.published_pods import PublishedPods, PublishedRun
from syncpod.lifecycle.printed_status import printed_status
from syncpod.messages.fleet import FLEET_SOURCE, Attended, FleetNodeReport, PodReport
from syncpod.messages.node import DesiredPod, NodeCondition, NodeView, PodKey, node_workflow_id
from syncpod.pod import ObjectMeta, parse_pod
from syncpod.pod.amounts import pod_amounts
from syncpod.pod.origin import list_of
from syncpod.pod.quantity import Quantity, parse_quantity, quantity_text

_NOT_READY: Final = "KubeletNotReady"
"""The kubelet's reason for a node that is not ready (nodestatus/setters.go, v1.36, ReadyCondition)."""
_MESSAGE: Final = 400
"""The most characters of a message: a fleet bounds its nodes' reports. The whole message is on the node."""


class _Known(NamedTuple):
    """One pod of the node, as its workflow last published it."""

    run: PublishedRun
    key: str
    """``namespace/name``."""
    is_ours: bool
    """Whether it is a pod of the fleet."""
    report: PodReport
    requests: Mapping[str, Quantity] | None
    """Its resource requests, if the fleet does not count them; None for a pod of the fleet, or one that has ended."""


class FleetReports:
    """Finds the changes since an earlier report. All methods belong to the agent's event loop."""

    def __init__(
        self,
        published: PublishedPods,
        node: str,
        endpoint: Callable[[], str] = lambda: "",
        key: str = "",
        fleet_key: str = "",
        runtime: RuntimeFacts | None = None,
    ) -> None:
        """Report from `published`: the states of the pods of `node`, and the state of the node's own workflow.

        `endpoint` returns the address at which the node listens, ``host:port``; "" = none. `key` is the id of the
        node's own key, and `fleet_key` the id of the fleet's key that it trusts. `runtime` has facts about the runtime.
        """
        self._published, self._endpoint, self._key, self._fleet_key = published, endpoint, key, fleet_key
        self._runtime = runtime
        self._node = node_workflow_id(node)
        self._known: dict[str, _Known] = {}
        self._node_run: PublishedRun | None = None
        self._view = NodeView()
        self.life, self._number = uuid.uuid4().hex, 0
        """`life` is a random id that distinguishes this worker from another worker that answers as the same node."""
        self._sent = Attended()
        """The last report, against which changes are found."""
        self._sent_pods: dict[str, PodReport] = {}

    def trust(self, fleet_key: str) -> None:
        """Report from now on that the node trusts the fleet's key with this id."""
        self._fleet_key = fleet_key

    async def look_at_runtime(self) -> None:
        """Update the runtime's images and unenforced limits for the next report."""
        if self._runtime is not None:
            await self._runtime.look()

    def is_complete(self, open_workflows: Iterable[str]) -> bool:
        """Say whether this worker has a published state of the node's own workflow and of each of `open_workflows`."""
        newest = self._published.newest
        return newest(self._node) is not None and all(newest(each) is not None for each in open_workflows)

    def machine(self) -> str:
        """Return the machine's host name and, if known, its first address, for messages."""
        first = next((each.address for each in self._view.addresses if each.type == "InternalIP"), "")
        return f"{socket.gethostname()} ({first})" if first else socket.gethostname()

    def changed(
        self, version: str, generation: int, listed: Collection[str], stopped: Mapping[str, str]
    ) -> Attended | None:
        """Return the changes since the report of a version; None if there are none.

        `generation` is the generation of the list that the node has accepted, and `listed` has the keys of the pods in
        that list. `stopped` has the reasons why pods must not run now, by key.
        """
        self._look()
        pods = self._pods()
        pods |= {key: _stopped(key, why) for key, why in stopped.items() if key not in pods}
        present = tuple(_key(each) for each in sorted({*pods, *listed, *self._desired()}))
        node = self._node_report()
        if version and version == self._sent.version:
            new = tuple(report for key, report in pods.items() if self._sent_pods.get(key) != report)
            gone = self._sent_pods.keys() - pods
            before = self._sent
            if not new and not gone and (present, node, generation) == (before.present, before.node, before.generation):
                return None
        else:
            new = tuple(pods.values())
            gone = {*listed} - pods.keys()  # the fleet may have reports of pods that have ended since
        self._number += 1
        version = f"{self.life[:8]}-{self._number}"
        self._sent = Attended(
            version=version,
            generation=generation,
            present=present,
            node=node,
            pods=new,
            gone=tuple(map(_key, sorted(gone))),
        )
        self._sent_pods = pods
        return self._sent

    def of_leaving_node(self, why: str) -> FleetNodeReport:
        """Return the last report of a leaving node: the current one, but not ready, with `why` as the message."""
        report = self._node_report()
        ready = NodeCondition(type="Ready", status="False", reason=_NOT_READY, message=why)
        others = tuple(each for each in report.conditions if each.type != ready.type)
        return report.model_copy(update={"ready": False, "conditions": (*others, ready)})

    def _look(self) -> None:
        """Read all states that were published since the last call. An unchanged one costs only a comparison."""
        runs = {each: run for each in self._published.pods() if (run := self._published.newest(each)) is not None}
        known = {each: before for each, before in self._known.items() if each in runs}
        for workflow_id, run in runs.items():
            if (before := known.get(workflow_id)) is None or before.run is not run:
                known[workflow_id] = _read(run)
        self._known = known
        newest = self._published.newest(self._node)
        if newest is not None and newest is not self._node_run:
            self._node_run, self._view = newest, NodeView.model_validate(newest.published.node())

    def _pods(self) -> dict[str, PodReport]:
        """Return the reports of the fleet's pods by key, including pods that the node could not start."""
        begun = {each.key: each.report for each in self._known.values() if each.is_ours}
        waiting = {key: _waiting(each) for key, each in self._desired().items() if each.message and key not in begun}
        return waiting | begun

    def _desired(self) -> dict[str, DesiredPod]:
        """Return the fleet's pods by key, from the state of the node's own workflow."""
        ours = (each for each in self._view.desired if each.source == FLEET_SOURCE)
        return {f"{each.namespace}/{each.name}": each for each in ours}

    def _node_report(self) -> FleetNodeReport:
        view = self._view
        return FleetNodeReport(
            ready=any(each.type == "Ready" and each.status == "True" for each in view.conditions),
            unschedulable=view.unschedulable,
            conditions=view.conditions,
            labels=view.labels,
            capacity=view.capacity,
            allocatable=self._left(view.allocatable),
            addresses=view.addresses,
            node_info=view.node_info,
            key=self._key,
            fleet_key=self._fleet_key,
            images=self._runtime.images if self._runtime is not None else None,
            unenforced_limits=self._runtime.unenforced if self._runtime is not None else (),
            endpoint=reachable(
                self._endpoint(), [each.address for each in view.addresses if each.type == "InternalIP"]
            ),
        )

    def _left(self, allocatable: Mapping[str, str]) -> dict[str, str]:
        """Return the node's resources for the fleet's pods: all of them minus the requests of its other pods."""
        others = [each.requests for each in self._known.values() if each.requests is not None]
        left = {}
        for name, text in allocatable.items():
            amount = parse_quantity(text)
            if name == "pods":
                left[name] = str(max(0, amount.value() - len(others)))
                continue
            milli = amount.milli_value() - sum(each[name].milli_value() for each in others if name in each)
            left[name] = quantity_text(parse_quantity(f"{max(0, milli)}m"), like=text)
        return left


def reachable(endpoint: str, addresses: Sequence[str]) -> str:
    """Return the address at which other machines reach `endpoint`; "" if there is none.

    If `endpoint` listens at all addresses, the node's first address is returned. ``0.0.0.0`` means all of IPv4;
    ``[::]`` includes IPv4.
    """
    host, _, port = endpoint.rpartition(":")
    if host not in ("0.0.0.0", "[::]"):
        return endpoint
    first = next((each for each in addresses if host == "[::]" or ":" not in each), "")
    return f"[{first}]:{port}" if ":" in first else f"{first}:{port}" if first else ""


def _read(run: PublishedRun) -> _Known:
    """Return the fields of a pod's state that a report needs."""
    pod = run.published.pod()
    meta, status = pod.get("metadata", {}), pod.get("status", {})
    printed = printed_status(pod)
    namespace, name = meta.get("namespace") or "default", meta.get("name", "")
    report = PodReport(
        namespace=namespace,
        name=name,
        uid=meta.get("uid", ""),
        phase=status.get("phase") or "Pending",
        status=printed.word,
        ready=_condition(status, "Ready").get("status") == "True",
        ready_since=_time(_condition(status, "Ready").get("lastTransitionTime")),
        ready_containers=f"{printed.ready}/{printed.total}",
        restarts=printed.restarts,
        ip=status.get("podIP") or "",
        started_at=_time(status.get("startTime")),
        message=_cut(status.get("message") or _waits_for(status)),
    )
    is_ours = list_of(ObjectMeta(uid=report.uid, annotations=meta.get("annotations") or {})) == FLEET_SOURCE
    is_counted = is_ours or report.phase in ("Succeeded", "Failed")
    requests = None if is_counted else pod_amounts(parse_pod(pod), "requests")
    return _Known(run, report.key, is_ours, report, requests)


def _waiting(desired: DesiredPod) -> PodReport:
    """Return the report of a pod that the node could not start yet."""
    message = _cut(f"{desired.reason}: {desired.message}")
    return PodReport(namespace=desired.namespace, name=desired.name, uid=desired.uid, status="Pending", message=message)


def _stopped(key: str, why: str) -> PodReport:
    """Return the report of a pod that must not run, because the node had no contact for too long."""
    pod = _key(key)
    return PodReport(namespace=pod.namespace, name=pod.name, status="Stopped", message=why)


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    found: Mapping[str, Any]
    for found in status.get("conditions", ()):
        if found.get("type") == kind:
            return found
    return {}


def _waits_for(status: Mapping[str, Any]) -> str:
    """Return the name and message of the first waiting container that has a message; "" if there is none."""
    for entry in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = (entry.get("state") or {}).get("waiting") or {}
        if waiting.get("message"):
            return f"{entry.get('name')}: {waiting['message']}"
    return ""


def _cut(text: str) -> str:
    return text if len(text) <= _MESSAGE else f"{text[: _MESSAGE - 1]}…"


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _key(key: str) -> PodKey:
    namespace, _, name = key.partition("/")
    return PodKey(namespace=namespace, name=name)
