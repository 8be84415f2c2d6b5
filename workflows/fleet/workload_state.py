"""The state of the workflow of a workload: the snapshot that is carried from run to run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from syncpod.fleet.members import Member
from syncpod.fleet.offers import NodeOffer, Presence
from syncpod.fleet.pod_names import NUMBERED, PodNames
from syncpod.fleet.revisions import Revision
from syncpod.fleet.rollout import Counts, RolloutState
from syncpod.fleet.workload_documents import PodTemplate
from syncpod.fleet.workload_kinds import Situation
from syncpod.fleet.workload_pods import MOST_REPLICAS, revision_of
from syncpod.fleet.workload_traits import KINDS, Traits
from syncpod.fleet.workloads import Workload, kind_of, readmit_workload
from syncpod.lifecycle.version import DECISION_VERSION
from syncpod.messages.fleet import PodReport
from syncpod.messages.queries import WireEvent
from syncpod.messages.signed import Accepted
from workflows.event_log import EventLog

PODS_LIMIT: Final = 2 * MOST_REPLICAS
"""The most pods that a workload creates or adopts: this many fit into its snapshot, with their reports."""
_ON: Final = "@"
"""Separates name and node in a key of `WorkloadState.pods`, if another pod has the same name."""


class KnownPod(BaseModel):
    """One pod of the workload, as its workflow keeps it."""

    model_config = ConfigDict(extra="ignore")

    number: int
    revision: str
    created: datetime
    bound: str = ""
    """The node that it must be on; "" = any."""
    replaces: str = ""
    node: str = ""
    """The node that it is placed on; "" = none yet."""
    trouble: str = ""
    """Why it is on no node yet, or why its node refuses it."""
    refused: bool = False
    """Its node has refused it, and cannot run it."""
    leaving: bool = False
    why: str = ""
    """Why it is being removed."""
    is_told: bool = False
    """The node's workflow has received the order to remove the pod."""
    moving: bool = False
    """Its node is being drained."""
    presence: Presence = "Ready"
    since: datetime | None = None
    """Since when its node has been Unknown; None = it is not."""
    recalled: bool = False
    """The fleet has the pod's place only from the node's own claim, or the fleet's workflow of that node takes this
    workload for absent."""
    is_proof_sent: bool = False
    """Whether the node's workflow was sent the workload's document for the pod after the pod became `recalled`."""
    report: PodReport | None = None
    ready_at: datetime | None = None
    """When its node first reported it ready, by the fleet's own clock; None = it is not ready."""

    def leave(self, why: str) -> None:
        """Mark it for removal."""
        self.leaving, self.why = True, why
        if self.report is not None:
            self.keep(self.report)

    def keep(self, report: PodReport) -> None:
        """Keep the needed part of a report: for a pod that is leaving, only its phase and status."""
        brief = report.brief()
        self.report = PodReport(phase=brief.phase, status=brief.status) if self.leaving else brief


class WorkloadState(EventLog, BaseModel):
    """The snapshot. Mutable; changed only between two awaits of the workflow."""

    model_config = ConfigDict(extra="ignore")

    document: dict[str, Any] | None = None
    """The document as last admitted; None = nothing has been applied yet."""
    decision_version: int = DECISION_VERSION
    applied_at: datetime | None = None
    """When it was first applied."""
    templates: dict[str, dict[str, Any]] = {}
    """Templates by revision: those of the document, of existing pods and of `history`, and the last good one."""
    history: tuple[Revision, ...] = ()
    """The revisions, oldest first. A single Pod has none."""
    rollout: RolloutState = RolloutState()
    counts: Counts = Counts()
    """The numbers of the last decision."""
    pods: dict[str, KnownPod] = {}
    """By name. If two nodes have a pod of one name, the key of the pod found last also contains its node."""
    numbered: int = 0
    """The number of the newest pod."""
    is_known: bool = False
    """The nodes were surveyed for pods of this workload that they already have. Before that nothing is decided: a fleet
    whose database was lost must not create pods beside those that run."""
    missed: tuple[str, ...] = ()
    """Nodes that did not answer the survey for `is_known`. They are surveyed again until they do."""
    refusals: tuple[str, ...] = ()
    """Why the pod that was tried last fits no node, with a line for each node; empty if it fits one."""
    paused: bool = False
    """The update `pause` has paused its rollouts, even if its document does not pause them."""
    deleting: bool = False
    events: tuple[WireEvent, ...] = ()
    heard: dict[str, int] = {}
    """By node: the number of its last message. A node's messages come in order, each with a higher number; a message
    with an older number is a copy."""
    heard_from: int = 0
    """Messages with this number or a lower one are refused, from any node."""
    max_events: int = 0
    accepted: Accepted = Accepted()

    def workload(self) -> Workload | None:
        """Return the document as it was admitted."""
        return readmit_workload(self.document) if self.document is not None else None

    def template(self, revision: str) -> PodTemplate:
        """Return the template of a revision."""
        return PodTemplate.model_validate(self.templates[revision])

    @property
    def is_paused(self) -> bool:
        """Whether its rollouts are paused, by the update `pause` or by its document."""
        return self.paused or bool((self.document or {}).get("spec", {}).get("paused"))

    def asked_for(self) -> str:
        """Return the revision of the document; "" if there is none."""
        workload = self.workload()
        return revision_of(kind_of(workload).template(workload)) if workload is not None else ""

    @property
    def traits(self) -> Traits | None:
        """The traits of its kind; None if nothing has been applied."""
        return KINDS[self.document["kind"]] if self.document is not None else None

    @property
    def has_template(self) -> bool:
        """Whether its pods are made from a template; False if nothing has been applied."""
        return self.traits is not None and self.traits.has_template

    @property
    def names(self) -> PodNames:
        """How its pods are named."""
        return self.traits.names if self.traits is not None else NUMBERED

    @property
    def name(self) -> str:
        """The workload's name; "" if nothing has been applied."""
        return str((self.document or {}).get("metadata", {}).get("name", ""))

    @property
    def namespace(self) -> str:
        """The workload's namespace."""
        return str((self.document or {}).get("metadata", {}).get("namespace") or "default")

    def key(self, number: int) -> str:
        """Return the key in `pods` of the pod with this number: its own name, unless several pods share one."""
        return NUMBERED.name(self.name, number)

    def pod_name(self, name: str) -> str:
        """Return the name that a pod of `pods` has on its node."""
        return self.names.name(self.name, self.pods[name].number)

    def new_name(self, pod: str, node: str) -> str:
        """Return the name in `pods` for a pod that is found on a node, and that is called `pod` there."""
        return f"{pod}{_ON}{node}" if pod in self.pods else pod

    def on_node(self, pod: str, node: str) -> str | None:
        """Return the name in `pods` of the pod that is called `pod` on a node; None if it is not one of them."""
        names = tuple(self.pods) if self.names.is_shared else (pod, f"{pod}{_ON}{node}")
        found = (name for name in names if name in self.pods and self.pods[name].node == node)
        return next((name for name in found if self.pod_name(name) == pod), None)

    def members(self) -> list[Member]:
        """Return the pods in the form that decisions use."""
        return [_member(name, pod, self.pod_name(name)) for name, pod in sorted(self.pods.items())]

    def situation(self, nodes: Sequence[NodeOffer] | None = None, unread: Collection[str] = ()) -> Situation:
        """Return the situation for its decisions. The last survey found `nodes`, and could not read `unread`."""
        return Situation(
            members=self.members(),
            rollout=self.rollout,
            numbered=self.numbered,
            is_paused=self.is_paused,
            nodes=nodes,
            unread=unread,
            counts=self.counts,
            is_placed=any(pod.node for pod in self.pods.values()),
        )

    def forget_templates(self, asked: str) -> None:
        """Drop the templates that are not needed any more. `asked` is the document's revision."""
        needed = {asked, self.rollout.good, self.rollout.target, *(pod.revision for pod in self.pods.values())}
        needed |= {each.template for each in self.history}
        self.templates = {revision: each for revision, each in self.templates.items() if revision in needed}


def _member(name: str, pod: KnownPod, called: str) -> Member:
    report = pod.report or PodReport()
    return Member(
        name=name,
        revision=pod.revision,
        created=pod.created,
        node=pod.node or pod.bound,
        presence=pod.presence,
        unknown_since=pod.since,
        ready_since=pod.ready_at,
        status="InvalidPod" if pod.refused else report.status,
        message=pod.trouble or report.message,
        ended=pod.refused or report.phase in ("Succeeded", "Failed"),
        leaving=pod.leaving,
        replaces=pod.replaces,
        restarts=report.restarts,
        moving=pod.moving and not pod.bound,
        recalled=pod.recalled,
        pod=called,
        number=pod.number,
    )
