"""The memory of a pod's workflow: the snapshot that is carried from run to run.

Everything that the kubelet keeps in memory and loses is here: back-offs, restart counts, why a container was restarted,
and how it last exited. It is one pydantic model that dumps to JSON. Functions in the neighbouring modules change it.
None of them reads a clock: they are given the workflow's time as ``now``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from syncpod.journal.records import EntryKind, EventRecord, EventType, HistoryEntry
from syncpod.lifecycle.backoff import BackoffStore
from syncpod.lifecycle.container_status import WaitingReason
from syncpod.lifecycle.exit import Exit
from syncpod.lifecycle.kubelet_version import KubeletVersion, followed_by
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.lifecycle.phase import TERMINAL_PHASES
from syncpod.lifecycle.pod_resources import PodResources, resources_of, with_resources
from syncpod.lifecycle.status import PodFailure
from syncpod.lifecycle.version import DECISION_VERSION
from syncpod.messages.identity import NodeFacts, PodRef, WirePod
from syncpod.messages.queries import WireEvent, WireExit, clipped
from syncpod.messages.signed import Accepted
from syncpod.messages.steps import STUCK_FAULTS
from syncpod.pod import Container, EphemeralContainer, Pod, PodStatus, ResourceRequirements
from syncpod.pod.restart_settings import RestartSettings, restart_settings
from workflows.rejections import REJECTED, without_surplus

EVENTS_KEPT = 100
HISTORY_KEPT = 200
RESTARTS_KEPT = 100
FAILED_HOOKS_KEPT = 10
"""How many records of each kind the snapshot keeps. Every continue-as-new writes the whole snapshot again."""
_ONE_TASK = timedelta(milliseconds=1)
"""The times of two events differ by less than this within a workflow task, and by more between two tasks."""


class Deletion(BaseModel):
    """A request to end the pod."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    requested_at: datetime
    grace_seconds: int
    """Later requests can only reduce it (pod_workers.go, v1.36, calculateEffectiveGracePeriod)."""


class ResizeState(BaseModel):
    """The progress of a resize, as the condition PodResizePending or PodResizeInProgress shows it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    reason: str = ""
    """`Deferred` or `Infeasible` while it is pending; `Error` or "" while it is in progress."""
    message: str = ""
    generation: int = 0
    """The generation of the pod that requests these resources."""
    since: datetime
    """Since when the resize has had this reason."""
    final: bool = False
    """The request is not repeated until other resources are desired or the node's worker has restarted."""


class RestartOfAll(BaseModel):
    """A restart of all containers: every instance is removed, and the pod starts again once its back-off is over."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    number: int = 1
    """Counted from 1 over the pod's life, so that a late signal cannot end the back-off of a newer restart of all."""
    cause: str = ""
    """The exit that caused it, in words: `web exited with code 42`."""
    at: datetime
    """The time of that exit, by the workflow's clock."""
    removed: tuple[str, ...] = ()
    """The instances (runtime ids) that it removes."""
    exit_code: int = 0
    """The exit code that caused it."""
    begun: bool = False
    """The pod has started again."""

    @property
    def exit(self) -> Exit:
        """The exit that caused the restart of all, under an id of its own, for the back-off of the whole pod."""
        return Exit(id=f"restart of all {self.number}", exit_code=self.exit_code, at=self.at)


class FailedHook(BaseModel):
    """A postStart hook that failed, so that the node ended its container instance."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    container: str
    restart: int
    message: str
    """How it failed, with its output."""


class Kill(BaseModel):
    """Why the workflow killed a container."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    why: str = ""
    """The reason in words, which the record of the exit repeats."""
    cause: str = ""
    """A `KillCause`, perhaps one of a newer version."""
    at: datetime | None = None
    """When the kill was decided; None if its cause is `LOST_FOR_GOOD`, which explains the exit at any time."""
    again: bool = False
    """An earlier step also had to kill the container, and may have ended it."""


class Repetition(BaseModel):
    """How often the same step was done in a row without a change of the view."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    done: str = ""
    """A hash of the step and of the view after it; "" = the last step does not count."""
    times: int = 0
    """How often the step was repeated after it was first done."""


class PodState(BaseModel):
    """The snapshot. Mutable; changed only by functions of this package, between two awaits.

    A person reads it as a run's input, in the order of its fields: the pod first, long bookkeeping last.
    """

    model_config = ConfigDict(extra="ignore")

    pod: WirePod = Field(default_factory=Pod)
    """The desired pod, with its defaults and a UID. Its status is kept in `status`."""
    decision_version: int = DECISION_VERSION
    """The version of the worker that took the run's first workflow task; see `syncpod.lifecycle.version`."""
    incarnation: str = ""
    adopting: bool = False
    """The pod's sandbox and containers were made for another workflow and are yet to be taken over. Nothing is made
    before that."""
    observed: ObservedPod = Field(default_factory=ObservedPod)
    """The view: everything observed, merged."""
    status: PodStatus = Field(default_factory=PodStatus)
    """The status that was computed last. Conditions get their transition times from it."""
    reached: str = "Pending"
    """The phase that the pod has reached. The status does not show a terminal phase while something can still run."""
    node: NodeFacts = Field(default_factory=NodeFacts)

    fence: int = 0
    """Grows with each step of this life, across continue-as-new too."""
    sandbox_floor: int = 0
    """The lowest sandbox attempt that is not used yet."""
    stopped_sandboxes: tuple[str, ...] = ()
    """Sandboxes in the view that a kill has stopped."""
    restarts: dict[str, int] = {}
    """By container: the number of its newest instance that ever ran."""
    exits: tuple[WireExit, ...] = ()
    """Past exits, oldest first: those of each container in the order of their numbers."""
    vanished: dict[str, ObservedContainer] = {}
    """By container: an instance that has run and is no longer listed although nobody saw it end."""
    reset: dict[str, int] = {}
    """By container: the newest instance that a restart of all containers removed. Exits up to it no longer count."""
    last_sandbox: ObservedSandbox | None = None
    """The newest sandbox that was ever listed."""
    disagreed: tuple[str, ...] = ()
    """Keys of the contradictions between record and runtime that an event has already reported."""
    killed: dict[str, Kill] = {}
    """By runtime id: why the workflow killed a container. Forgotten with the container."""
    probe_graces: dict[str, datetime] = {}
    """By runtime id, for a container that is killed for a failed probe: when its grace ends. Forgotten with it."""

    backoff: BackoffStore = Field(default_factory=BackoffStore)
    repeated: Repetition = Repetition()
    # The ends of back-offs, which only the functions of `workflows.pod.holds` change. One table of them would be no
    # simpler: a subject can have all three at once, each with its own content and its own end. And it would need the
    # same three names in the snapshot, since an older worker that gets a pod back reads them (docs/upgrading.md).
    released: dict[str, int] = {}
    """By container or step: the restart that an operator or the agent allows to start during its back-off, however long
    that still lasts."""
    over: dict[str, datetime] = {}
    """By container or step: back-offs that end by this time are over, as the node's queue has signalled. A longer
    back-off goes on."""
    cleared: dict[str, str] = {}
    """By container: the exit (runtime id) that its back-off has counted, kept until the next start succeeds or fails.
    So an exit counts once, even if the start takes several steps, such as a pull."""
    replacing: dict[str, bool] = {}
    """By runtime id: instances that are killed to be replaced, regardless of their restart policy. True: an operator
    has requested it, so no crash-loop back-off delays the next instance. Forgotten once the next instance exists."""
    restart_all: RestartOfAll | None = None
    """The newest restart of all containers."""
    missing_images: tuple[str, ...] = ()
    pulled: dict[str, int] = {}
    """By container: the restart for which its image was last pulled. With pull policy Always, each restart pulls."""
    waiting: dict[str, WaitingReason] = {}
    """By container: why its last start failed (the kubelet's reason cache)."""
    failed_hooks: tuple[FailedHook, ...] = ()
    """The last postStart hooks that failed, oldest first; the journal may read them only after the next start."""

    volumes_behind: bool = False
    """Labels, annotations or resources have changed, and the files that show them have not been rewritten yet."""

    allocated: PodResources | None = None
    """The resources that the node has allocated, if they differ from the desired ones; None if they do not."""
    actuated: dict[str, ResourceRequirements] = {}
    """By container: the resources last applied to its running instance, if they differ from the allocated ones."""
    actuated_pod: ResourceRequirements | None = None
    """The pod-level resources last applied; used only while `cgroup_behind`."""
    cgroup_behind: bool = False
    """The pod's cgroup does not have the allocated resources yet."""
    resize_pending: ResizeState | None = None
    resize_in_progress: ResizeState | None = None

    probes: dict[str, dict[str, str]] = {}
    """By type of probe, then by container id: the newest result, if there is one."""

    deletion: Deletion | None = None
    failure: PodFailure | None = None
    """Why the pod as a whole has failed for good: rejected, evicted, past its deadline, at its limit of restarts, or
    without its sandbox, which was lost."""
    rejection: PodFailure | None = None
    """Why the node has rejected the pod, as long as the admission will be tried again; else None. The status shows the
    pod as Failed, but the pod is not over: a back-off delays its sandbox, as after a failure to make it."""
    ends_sooner: bool = False
    """Since the last decision, an order has come to end the pod, or to end it sooner. A stuck kill must not delay
    that."""
    kill_by: datetime | None = None
    """The end of the pod's grace period, set when the kill begins. It survives the worker."""
    terminated: bool = False
    """All containers have been stopped for good, by deletion or because the pod has finished."""
    finished: bool = False
    """The node has been notified that the pod is over, and counts its resources as free."""
    removed: bool = False
    """Nothing of the pod runs, and its node has recorded that this life is over. The node removes the remains."""
    successor: dict[str, Any] | None = None
    """A Pod that was applied during the deletion. It follows in a run of its own."""

    events: tuple[WireEvent, ...] = ()
    history: tuple[HistoryEntry, ...] = ()
    written: dict[str, Any] = {}
    """Search attributes as last written, by name."""
    max_events: int = 0
    """Length of history, in events, at which a run continues as new; 0 means `entity.LONGEST_EVENTS`. Tests set it."""
    accepted: Accepted = Field(default_factory=Accepted)
    """The record of the signed commands that were carried out; it stays empty where commands are not signed."""

    @property
    def ref(self) -> PodRef:
        """The pod and its incarnation."""
        meta = self.pod.metadata
        return PodRef(namespace=meta.namespace, name=meta.name, uid=meta.uid, incarnation=self.incarnation)

    @property
    def kubelet(self) -> KubeletVersion:
        """The kubelet whose decisions this run takes."""
        return followed_by(self.decision_version)

    @property
    def own(self) -> ObservedPod:
        """The view without earlier lives: their sandboxes count as dead, and their containers as absent."""
        view = self.observed
        ours = ("", self.incarnation)
        if all(s.incarnation in ours for s in view.sandboxes) and all(c.incarnation in ours for c in view.containers):
            return view
        sandboxes = tuple(
            s if s.incarnation in ours else s.model_copy(update={"state": "SANDBOX_NOTREADY"}) for s in view.sandboxes
        )
        containers = tuple(c for c in view.containers if c.incarnation in ours)
        return view.model_copy(update={"sandboxes": sandboxes, "containers": containers})

    @property
    def ending(self) -> bool:
        """Whether nothing may start any more: the pod is being deleted, or it has finished or failed as a whole."""
        return self.deletion is not None or self.failure is not None or self.reached in TERMINAL_PHASES

    @property
    def allocated_pod(self) -> Pod:
        """The pod with its allocated resources.

        All steps get this pod, except the step that requests other resources.
        """
        return self.pod if self.allocated is None else with_resources(self.pod, self.allocated)

    @property
    def applied_resources(self) -> PodResources:
        """The resources that were applied last. A resize is decided by comparison with them."""
        allocated = self.allocated or resources_of(self.pod)
        whole = self.actuated_pod if self.cgroup_behind else allocated.pod
        return PodResources(containers={**allocated.containers, **self.actuated}, pod=whole)

    def container(self, name: str) -> Container | EphemeralContainer:
        """Return the container of this name, of any kind, with its allocated resources. Raises KeyError."""
        spec = self.allocated_pod.spec
        for container in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers):
            if container.name == name:
                return container
        raise KeyError(name)

    @property
    def pending_restart_of_all(self) -> RestartOfAll | None:
        """The restart of all containers that has removed every instance and not begun the starts; else None."""
        last = self.restart_all
        if last is None or last.begun or any(known.id in last.removed for known in self.own.containers):
            return None
        return last

    @property
    def restart_settings(self) -> RestartSettings:
        """The settings for restarts: the pod's annotations, else the node's settings, else the kubelet's."""
        return restart_settings(self.pod.metadata.annotations, self.node.restart_backoff_max)

    def is_followed(self, container: ObservedContainer) -> bool:
        """Say whether an instance was ended to be replaced."""
        return container.state == "exited" and container.id in self.replacing

    def last_exit(self, container: str) -> Exit | None:
        """Return the newest recorded exit of a container, or None."""
        return next((exit_ for exit_ in reversed(self.exits) if exit_.name == container), None)

    def next_restart(self, container: str) -> int:
        """Return the number of a container's next instance: one above every recorded or listed instance.

        An instance that was created but never ran counts only if another life made it: the runtime has reserved its
        name.

        Difference from kuberuntime_container.go, v1.36, startContainer: the kubelet reads the runtime and the log
        directory, and counts an instance that never started.
        """
        taken = [self.restarts[container]] if container in self.restarts else []
        for listed in self.observed.containers:
            foreign = listed.incarnation not in ("", self.incarnation)
            if listed.name == container and (foreign or listed.has_run):
                taken.append(listed.restart_count)
        return max(taken) + 1 if taken else 0

    def record_exit(self, exit_: Exit) -> None:
        """Record an exit before those of later instances; it replaces an earlier record of the same instance.

        Above :data:`RESTARTS_KEPT` the oldest exits are dropped, but never the last one of a container.
        """
        if any(known.id == exit_.id for known in self.exits):
            self.exits = tuple(exit_ if known.id == exit_.id else known for known in self.exits)
            return
        exits = [*self.exits]
        later = (at for at, known in enumerate(exits) if known.name == exit_.name and known.restart > exit_.restart)
        exits.insert(next(later, len(exits)), exit_)
        newest = {known.name: known.id for known in exits}
        while len(exits) > RESTARTS_KEPT:
            spare = next((at for at, known in enumerate(exits) if newest[known.name] != known.id), None)
            if spare is None:
                break
            del exits[spare]
        self.exits = tuple(exits)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undo every change made in the block, if the block raises: a message is folded in whole or not at all.

        No value of the state is changed in place; a change replaces it.
        """
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def event(
        self, now: datetime, kind: EventType, reason: str, message: str, container: str = "", *, times: int = 1
    ) -> None:
        """Record that an event happened `times` times, with its message clipped. Repeats of an event are counted.

        All events of a workflow task would have the same time. So each one after the first gets a microsecond more than
        the one before, and a list sorted by time has them in the order in which they happened.
        """
        message = clipped(message)
        kept = []
        seen: EventRecord | None = None
        for event in self.events:
            if (event.type, event.reason, event.message, event.container) == (kind, reason, message, container):
                seen = event
            else:
                kept.append(event)
        newest = kept[-1].last if kept else None
        if newest is not None and timedelta(0) <= newest - now < _ONE_TASK:
            now = newest + timedelta(microseconds=1)
        record = EventRecord(
            type=kind,
            reason=reason,
            message=message,
            container=container,
            count=seen.count + times if seen else times,
            first=seen.first if seen else now,
            last=now,
        )
        events = (*kept, record)
        if reason == REJECTED:
            events = without_surplus(events, lambda each: each.reason == REJECTED)
        self.events = events[-EVENTS_KEPT:]

    def note(self, now: datetime, kind: EntryKind, subject: str, reason: str = "", **more: Any) -> None:
        """Add a line to the pod's history, with its reason clipped. `more` has other fields of the line."""
        record = HistoryEntry(at=now, kind=kind, subject=subject, reason=clipped(reason), **more)
        history = (*self.history, record)
        if kind == "rejected":
            history = without_surplus(history, lambda each: each.kind == "rejected")
        self.history = history[-HISTORY_KEPT:]

    @property
    def stuck_kills(self) -> tuple[str, ...]:
        """The keys of the back-offs of kills that took too long."""
        return tuple(key for key, entry in self.backoff.entries.items() if entry.reason in STUCK_FAULTS)

    def forget_stuck_kills(self) -> None:
        """End the back-offs of kills that took too long: a container has ended after all, or has to end sooner."""
        if stuck := self.stuck_kills:
            kept = {key: entry for key, entry in self.backoff.entries.items() if key not in stuck}
            self.backoff = BackoffStore(entries=kept)

    def reject(self, now: datetime, name: str, why: str) -> None:
        """Record that a signal or a step's result was not accepted, and why."""
        text = why if len(why) <= 500 else why[:499] + "…"
        self.event(now, "Warning", REJECTED, text)
        self.note(now, "rejected", name, text)


_OLDEST = timedelta(days=36_500)
"""The greatest age of an exit: a listing may have any time in it, and now minus the age must stay a valid time."""


def age(observed: ObservedPod, container: ObservedContainer | Exit) -> timedelta:
    """Return how long before the listing a container exited, by the node's clock; zero if that is unknown."""
    if observed.observed_at is None or container.finished_at is None:
        return timedelta(0)
    return min(max(timedelta(0), observed.observed_at - container.finished_at), _OLDEST)
