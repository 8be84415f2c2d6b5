"""The state of the workflow of a fleet's node: the snapshot that is carried from run to run."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from syncpod.fleet.revisions import revision_in
from syncpod.lifecycle.printed_status import printed_status
from syncpod.lifecycle.version import DECISION_VERSION
from syncpod.messages.fleet import (
    GRACE_SECONDS,
    OWNER_ANNOTATION,
    FleetNodeReport,
    Intent,
    PlacedPod,
    PodReport,
    PodsChanged,
    Presence,
)
from syncpod.messages.fleet_objects import may_refer
from syncpod.messages.node import PodKey
from syncpod.messages.queries import WireEvent
from syncpod.messages.signed import Accepted
from workflows.event_log import EventLog
from workflows.fleet.lives import Lives


class Placed(BaseModel):
    """One pod that the fleet wants on the node."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    document: dict[str, Any]
    """A v1 Pod with all its defaults, and with its owner as an annotation."""
    generation: int
    """The first generation of the intent that has this document."""
    recalled: bool = False
    """Only the node itself claims that it was given this pod. The node gets no Secret for such a pod."""
    since: datetime | None = None
    """When the fleet placed it here; None = it was recalled."""

    @property
    def owner(self) -> str:
        """The id of the workflow that is signalled when the pod changes; "" = none."""
        annotations = self.document.get("metadata", {}).get("annotations") or {}
        return str(annotations.get(OWNER_ANNOTATION, ""))

    @property
    def revision(self) -> str:
        """The revision of the template that the pod was made from; "" if from none."""
        return revision_in(self.document.get("metadata", {}).get("labels") or {})


class Withdrawn(BaseModel):
    """A pod that the fleet no longer wants, but the node has not ended yet."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    owner: str = ""
    why: str = ""
    generation: int = 0
    """The first generation of the intent without it."""
    containers: int = 0
    since: datetime | None = None
    """When it was withdrawn."""


class FleetNodeState(EventLog, BaseModel):
    """The snapshot. Mutable; changed only between two awaits of the workflow."""

    model_config = ConfigDict(extra="ignore", validate_by_name=True, serialize_by_alias=True)

    decision_version: int = DECISION_VERSION
    fleet: str = ""
    name: str = ""
    since: datetime | None = None
    """When the first run of this chain began."""
    joined: datetime | None = None
    """When the node first reported; None = it has not yet."""
    grace: float = GRACE_SECONDS
    """Seconds of silence after which the node is Unknown."""
    unschedulable: bool = False
    draining: bool = False
    """The node is being drained: owners move their pods to other nodes if they can."""
    generation: int = 0
    """Grows with each change of `placed`."""
    key_generation: int = 0
    """From this generation on, the node's list carries the fleet's key, since the node trusts another key."""
    fleet_key: str = ""
    """The id of the key that the fleet uses; "" = it is not known here."""
    fleet_key_since: datetime | None = None
    """When the node last began to trust another key; None = never."""
    taken: int = 0
    """The newest generation that the node has accepted."""
    stamp: int = 0
    """The stamp of the list that was sent last."""
    sent: tuple[int, ...] = ()
    """The stamps of the lists that the node may have taken since generation `taken`, the oldest first."""
    is_recalled: bool = False
    """The node has returned the last list that it has. Before that, the node is sent nothing: a fleet whose database
    was lost must not end the pods on its nodes."""
    removed: bool = False
    """It was removed from the fleet: its workflow ends once the owners of its pods have been signalled."""
    placed: dict[str, Placed] = {}
    """By ``namespace/name``: the pods that the fleet wants on the node."""
    withdrawn: dict[str, Withdrawn] = {}
    """By ``namespace/name``: the pods that the node has yet to end."""
    refused: dict[str, str] = {}
    """By ``namespace/name``: why the node refuses a placed pod."""
    referred: tuple[str, ...] = ()
    """Keys of the fleet's objects that the node's pods referred to when the node was last sent its list."""
    objects_refused: dict[str, str] = {}
    """By object key: why the node cannot keep the object."""
    presence: Presence = "Joining"
    presence_since: datetime | None = None
    version: str = ""
    """The version of the node's last report."""
    report: FleetNodeReport = FleetNodeReport()
    pods: dict[str, PodReport] = {}
    troubles: dict[str, str] = {}
    """By the name of the activity: why the node did not answer as it should the last time."""
    lives: Lives = Lives()
    """The lives of its worker that have answered lately."""
    duplicate_nodes: str = Field(default="", alias="twins")
    """A sentence that names two machines which answer as this node, and the remedy; "" = only one is known."""
    stale: int = 0
    """How many times the node has lately refused its list, because it has a newer one."""
    stale_at: datetime | None = None
    """When the node last refused its list for this reason; None = never."""
    reported: tuple[datetime, ...] = ()
    """The times of its last reports. Kept from run to run, since a node can cause a new run by large reports."""
    events: tuple[WireEvent, ...] = ()
    max_events: int = 0
    told: int = 0
    """The number of the last message to an owner: the time in microseconds, but higher than all before."""
    untold: dict[str, tuple[str, ...]] = {}
    """By owner: the keys of its pods that have changed since the last message to it."""
    absent: tuple[str, ...] = ()
    """Owners of pods here that did not exist when they were last signalled, sorted."""
    accepted: Accepted = Accepted()

    # --- what has changed ---------------------------------------------------------------------------------------------

    def owner_of(self, key: str) -> str:
        """Return the owner of a pod that is placed or ending here; "" if it has none."""
        if key in self.placed:
            return self.placed[key].owner
        return self.withdrawn[key].owner if key in self.withdrawn else ""

    def note(self, key: str, owner: str | None = None) -> None:
        """Note that a pod has changed, for the next message to its owner."""
        if whom := self.owner_of(key) if owner is None else owner:
            self.untold[whom] = tuple(dict.fromkeys((*self.untold.get(whom, ()), key)))

    def note_owner(self, owner: str, *, is_there: bool) -> None:
        """Record whether an owner exists."""
        owners = {placed.owner for placed in self.placed.values()} | {gone.owner for gone in self.withdrawn.values()}
        absent = {*self.absent} - {owner} if is_there else {*self.absent, owner}
        self.absent = tuple(sorted(absent & owners))

    def known_owners(self) -> frozenset[str]:
        """Return the owners that are assumed to exist: those that have placed pods here, and were not absent."""
        placed = {each.owner for each in self.placed.values() if not each.recalled}
        return frozenset(placed | {gone.owner for gone in self.withdrawn.values()}) - {*self.absent}

    def note_all(self) -> None:
        """Note that all pods have changed, for the next message to every owner."""
        for key in (*self.placed, *self.withdrawn):
            self.note(key)

    def news(self, owner: str, keys: tuple[str, ...]) -> PodsChanged:
        """Return the message to an owner about these pods.

        If another owner has since placed a pod under the same name, the first owner's pod is reported as gone.
        """
        there = [key for key in keys if self.owner_of(key) == owner]
        return PodsChanged(
            node=self.name,
            presence=self.presence,
            draining=self.draining,
            unschedulable=self.is_cordoned,
            doubled=self.is_doubled,
            removed=self.removed,
            pods=tuple(self.pod(key).brief() for key in there),
            gone=tuple(PodKey.of(key) for key in keys if key not in there),
        )

    def set_presence(self, presence: Presence, now: datetime) -> bool:
        """Set the node's presence; return whether it has changed. A change is noted for all owners."""
        if presence == self.presence:
            return False
        self.presence, self.presence_since = presence, now
        self.note_all()
        return True

    @property
    def is_cordoned(self) -> bool:
        """Whether the node takes no new pods: it is cordoned in the fleet or on the node itself."""
        return bool(self.cordons)

    @property
    def cordons(self) -> tuple[Literal["fleet", "node"], ...]:
        """By whom the node is cordoned."""
        by_fleet: tuple[Literal["fleet", "node"], ...] = ("fleet",) if self.unschedulable else ()
        return (*by_fleet, "node") if self.report.unschedulable else by_fleet

    @property
    def is_doubled(self) -> bool:
        """Whether two machines answer as this node. It takes no new pods then, since both would run them."""
        return bool(self.duplicate_nodes)

    @property
    def is_open(self) -> bool:
        """Whether the node takes new pods."""
        return self.presence == "Ready" and not self.is_cordoned and not self.is_doubled

    # --- what it shows ------------------------------------------------------------------------------------------------

    def pod(self, key: str) -> PlacedPod:
        """Return a pod that is placed or ending here, with the node's report of it."""
        name, report = PodKey.of(key), self.pods.get(key)
        state: Literal["placed", "taken", "refused", "ending"]
        revision, recalled, since, ending = "", False, None, None
        if key not in self.placed:
            gone = self.withdrawn.get(key, Withdrawn())
            state, why, owner, ending = "ending", gone.why, gone.owner, gone.since
        else:
            placed, why = self.placed[key], self.refused.get(key, "")
            state = "refused" if why else "taken" if placed.generation <= self.taken else "placed"
            owner, revision, recalled = placed.owner, placed.revision, placed.recalled
            since = placed.since
        return PlacedPod(
            namespace=name.namespace,
            name=name.name,
            owner=owner,
            state=state,
            why=why,
            report=report,
            revision=revision,
            recalled=recalled,
            is_orphan=owner in self.absent,
            containers=0 if report is not None and not report.is_untaken else self.containers(key),
            since=since,
            ending=ending,
        )

    def containers(self, key: str) -> int:
        """Return how many containers of a pod that is placed or ending here should be ready."""
        if key in self.placed:
            return printed_status(self.placed[key].document).total
        return self.withdrawn[key].containers if key in self.withdrawn else 0

    def intent(self) -> Intent:
        """Return all pods that the node should run."""
        documents = tuple(self.placed[key].document for key in sorted(self.placed))
        return Intent(
            fleet=self.fleet,
            node=self.name,
            generation=self.generation,
            stamp=self.stamp,
            taken=self.taken,
            after=self.sent,
            pods=documents,
        )

    @property
    def trouble(self) -> str:
        """Why the node does not answer as it should; "" if it does."""
        troubles = [why for _, why in sorted(self.troubles.items())]
        return "; ".join([self.duplicate_nodes, *troubles] if self.duplicate_nodes else troubles)

    @property
    def settled_generation(self) -> int:
        """The generation of the node's list if the node has taken it; 0 = the node must still be sent its list."""
        return self.taken if self.taken == self.generation else 0

    def needs_key(self) -> bool:
        """Say whether the node may need the fleet's key."""
        return self.key_generation > self.taken

    def needs_objects(self) -> bool:
        """Say whether one of the pods may refer to a ConfigMap or a Secret."""
        return any(may_refer(placed.document) for placed in self.placed.values())


def key_of(document: Any) -> str:
    """Return the key of a pod's document: ``namespace/name``; "" if it has no name."""
    meta = document.get("metadata") if isinstance(document, dict) else None
    name = meta.get("name") if isinstance(meta, dict) else None
    return f"{meta.get('namespace') or 'default'}/{name}" if isinstance(meta, dict) and isinstance(name, str) else ""
