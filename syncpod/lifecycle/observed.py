"""The container runtime's report of one pod, as plain values: the view that every decision is made from.

An `ObservedPod` is one complete listing of a pod: its sandboxes and containers, newest first, with the sequence number
that the node took when the listing *began*. Listings arrive in results of steps and in PLEG signals, not always in
order. `merge` folds each into the view, so that nothing observed is lost and no state goes back.

The records mirror those parts of the kubelet's `container.PodStatus` that decisions read (container/runtime.go, v1.36).
They cross Temporal in camelCase; unknown fields are ignored and every field has a default.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import total_ordering
from typing import Annotated, Final, Literal

from pydantic import Field

from syncpod.lifecycle.exit import Exit
from syncpod.lifecycle.start_errors import START_ERROR, FailedStart, failed_start
from syncpod.pod.status import ContainerUser
from syncpod.pod.wire import ForeignText, Model, Time

SandboxState = Literal["SANDBOX_READY", "SANDBOX_NOTREADY"]
ContainerRuntimeState = Literal["created", "running", "exited", "unknown"]
ExitCode = Annotated[int, Field(ge=-(2**31), lt=2**31)]
NetworkMode = Literal["POD", "NODE"]
Number = Annotated[int, Field(ge=0, lt=2**31 - 1)]
"""Number of a sandbox or an instance; the next number is still an int32."""

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
# The order of a container's states in its life. `unknown` has no rank of its own: see `_progress`.
_RANK: Final[dict[str, int]] = {"created": 0, "running": 1, "exited": 2}


@total_ordering
class Seq(Model):
    """When a listing began, by the node's own counters, not by its clock: any two listings of a node are ordered."""

    boot: int = 0
    """Number of the agent's life on its node; grows with each start."""
    counter: int = 0
    """Grows with each listing begun in the life `boot`."""

    def __lt__(self, other: Seq) -> bool:
        return (self.boot, self.counter) < (other.boot, other.counter)


class ObservedSandbox(Model):
    """One sandbox of the pod."""

    id: str = ""
    attempt: Number = 0
    """Attempt number in the sandbox's metadata."""
    state: SandboxState = "SANDBOX_NOTREADY"
    created_at: Time | None = None
    network_mode: NetworkMode = "POD"
    """Network namespace as the runtime reports it: the pod's own, or the node's."""
    ip: str | None = None
    """Primary IP; "" when the network status has none, None when the runtime gave no network status at all."""
    additional_ips: tuple[str, ...] = ()
    incarnation: str = ""
    """Incarnation id from the sandbox's annotation; "" when it carries none."""
    pid: int = 0
    """Process id of the pause process; 0 when not known."""

    @property
    def ready(self) -> bool:
        """Whether the runtime calls this sandbox ready."""
        return self.state == "SANDBOX_READY"


class ObservedContainer(Model):
    """One instance of one container, of any kind (main, init, ephemeral)."""

    id: str = ""
    name: str = ""
    sandbox_id: str = ""
    state: ContainerRuntimeState = "unknown"
    exit_code: ExitCode = 0
    """0 unless it has exited."""
    reason: str = ""
    """`Completed`, `Error`, `OOMKilled`, `StartError`, ... as the runtime words it. Can be set before the exit."""
    message: ForeignText = ""
    hash: str = ""
    """Hash of the name and image that the container was made from, lowercase hex without 0x (its annotation)."""
    restart_count: Number = 0
    image: str = ""
    image_ref: str = ""
    created_at: Time | None = None
    started_at: Time | None = None
    finished_at: Time | None = None
    incarnation: str = ""
    log_path: str = ""
    pid: int = 0
    """Process id on the node; 0 when not known or not running."""
    stop_signal: str = ""
    """The signal with which the runtime stops it (`SIGTERM`); "" if the runtime does not report it."""
    user: ContainerUser | None = None
    """The user of its first process; None if the runtime does not report it, or if it has too many groups to list."""

    @property
    def has_run(self) -> bool:
        """Whether this instance counts: it runs, has a start time, or has ended without its start being cut off.

        A start that the runtime refuses (EXITED 128 `StartError`, with no start time) counts, as in the kubelet.
        """
        if self.started_at is not None or self.state == "running":
            return True
        return self.state == "exited" and not self.was_cut_off

    @property
    def was_cut_off(self) -> bool:
        """Whether the start of this instance was only cut off: nothing of it ran, and its number is still free."""
        return self.state == "exited" and self._failed_start == "cut off"

    @property
    def was_refused(self) -> bool:
        """Whether the runtime refused to start this instance: no process of it ever ran."""
        return self.state == "exited" and self._failed_start == "refused"

    @property
    def was_given_up(self) -> bool:
        """Whether the runtime gave up the start of this instance, so that its process may or may not run."""
        return self.state == "unknown" and self._failed_start == "unknown"

    @property
    def _failed_start(self) -> FailedStart | None:
        """The meaning of a failed start for the process; None if this instance is not a failed start."""
        if self.state not in ("exited", "unknown") or self.started_at is not None or self.reason != START_ERROR:
            return None
        return failed_start(self.message)

    @property
    def exit(self) -> Exit | None:
        """How this instance ended; None while it has not."""
        if self.state != "exited":
            return None
        return Exit(
            id=self.id,
            name=self.name,
            restart=self.restart_count,
            sandbox=self.sandbox_id,
            exit_code=self.exit_code,
            reason=self.reason,
            message=self.message,
            started_at=self.started_at,
            finished_at=self.finished_at,
        )

    def ended_as(self, exit_: Exit) -> ObservedContainer:
        """Return this instance with the state `exited` and the values of `exit_`. Its start time and id stay."""
        return self.model_copy(
            update={
                "state": "exited",
                "exit_code": exit_.exit_code,
                "reason": exit_.reason,
                "message": exit_.message,
                "finished_at": exit_.finished_at,
            }
        )


class ObservedPod(Model):
    """One whole listing of a pod. `sandboxes` and `containers` are newest first (see `ordered`)."""

    seq: Seq = Seq()
    uid: str = ""
    name: str = ""
    namespace: str = ""
    observed_at: Time | None = None
    """The node's clock when the listing began; for people, never for decisions."""
    sandboxes: tuple[ObservedSandbox, ...] = ()
    containers: tuple[ObservedContainer, ...] = ()

    def newest(self, name: str) -> ObservedContainer | None:
        """Return the status of container `name`: its newest instance, or None when the runtime has none."""
        for container in self.containers:
            if container.name == name:
                return container
        return None

    def newest_by_name(self) -> dict[str, ObservedContainer]:
        """Return each container's newest instance by container name."""
        newest: dict[str, ObservedContainer] = {}
        for container in self.containers:
            newest.setdefault(container.name, container)
        return newest

    def in_newest_sandbox(self) -> ObservedPod:
        """Return this listing with only the newest sandbox's containers; without containers if it is not ready.

        These are the containers that the kubelet calls active (kuberuntime_manager.go, v1.36, GetPodStatus).
        """
        current = self.sandboxes[0].id if self.sandboxes and self.sandboxes[0].ready else None
        containers = tuple(each for each in self.containers if each.sandbox_id == current)
        return self.model_copy(update={"containers": containers})

    def ordered(self) -> ObservedPod:
        """Return this listing with sandboxes and containers in their fixed order, newest first."""
        return self.model_copy(
            update={
                "sandboxes": order_sandboxes(self.sandboxes),
                "containers": order_containers(self.containers),
            }
        )


def order_sandboxes(sandboxes: Iterable[ObservedSandbox]) -> tuple[ObservedSandbox, ...]:
    """Order sandboxes newest first: higher attempt, then later creation, then id.

    Mirrors kuberuntime/helpers.go, v1.36, podSandboxByCreated. Difference: the kubelet compares creation times only.
    """
    by_id = sorted(sandboxes, key=lambda sandbox: sandbox.id)
    return tuple(sorted(by_id, key=lambda s: (s.attempt, s.created_at or _LONG_AGO), reverse=True))


def order_containers(containers: Iterable[ObservedContainer]) -> tuple[ObservedContainer, ...]:
    """Order containers newest first: later creation, then higher restart count, then id.

    Mirrors kuberuntime/helpers.go, v1.36, containerStatusByCreated. Difference: the last two keys are ours, so that
    containers created at the same time always have the same order.
    """
    by_id = sorted(containers, key=lambda container: container.id)
    return tuple(sorted(by_id, key=lambda c: (c.created_at or _LONG_AGO, c.restart_count), reverse=True))


def order_restarts(containers: Iterable[ObservedContainer]) -> tuple[ObservedContainer, ...]:
    """Order the instances of each container by number, newest first; each container keeps its places in the list.

    The workflow numbers the instances, but the node's clock dates them, and that clock may have been set back since the
    previous instance. Difference: the kubelet orders by date (kuberuntime/helpers.go, v1.36, containerStatusByCreated).
    After the clock was set back, the kubelet takes an older instance for the newest, and starts another one while the
    newest runs.
    """
    listed = tuple(containers)
    by_name: dict[str, list[ObservedContainer]] = {}
    for container in listed:
        by_name.setdefault(container.name, []).append(container)
    for instances in by_name.values():
        instances.sort(key=lambda instance: instance.restart_count)
    return tuple(by_name[container.name].pop() for container in listed)


def merge(known: ObservedPod, incoming: ObservedPod) -> ObservedPod:
    """Fold the listing `incoming` into the view `known`.

    - An incoming listing with a newer `seq` decides which sandboxes and containers exist.
    - An older listing, or the same one again, adds and removes nothing: it only moves known sandboxes and containers
      forward.
    - A container goes from created to running to exited, a sandbox from ready to not ready; never back. `unknown` comes
      and goes with newer listings, until the container has exited.

    Merging a listing twice gives the same view as merging it once. The result is ordered, with the newer `seq`.
    Raises ValueError when both name a pod UID and the two differ.
    """
    if known.uid and incoming.uid and known.uid != incoming.uid:
        raise ValueError(f"listing of pod {incoming.uid} cannot be merged into the view of pod {known.uid}")
    is_newer = known.seq < incoming.seq
    leading, trailing = (incoming, known) if is_newer else (known, incoming)
    seen_sandboxes = {sandbox.id: sandbox for sandbox in trailing.sandboxes}
    seen_containers = {container.id: container for container in trailing.containers}
    return ObservedPod(
        seq=leading.seq,
        uid=leading.uid or trailing.uid,
        name=leading.name or trailing.name,
        namespace=leading.namespace or trailing.namespace,
        observed_at=leading.observed_at or trailing.observed_at,
        sandboxes=order_sandboxes(_merge_sandbox(s, seen_sandboxes.get(s.id)) for s in leading.sandboxes),
        containers=order_containers(_merge_container(c, seen_containers.get(c.id)) for c in leading.containers),
    )


def _merge_sandbox(newer: ObservedSandbox, older: ObservedSandbox | None) -> ObservedSandbox:
    if older is None or older.ready or not newer.ready:
        return newer
    return newer.model_copy(update={"state": older.state})


def _merge_container(newer: ObservedContainer, older: ObservedContainer | None) -> ObservedContainer:
    """Return the newer listing's record, or the older listing's if that listing has a later state of the container."""
    if older is None or _progress(older) <= _progress(newer):
        return newer
    if newer.state == "unknown" and older.state != "exited":
        # The runtime has lost the state since. The start time still shows that the instance has run.
        return newer if newer.started_at else newer.model_copy(update={"started_at": older.started_at})
    return older


def _progress(container: ObservedContainer) -> int:
    """Return the rank of a container's state in its life. An unknown state ranks by whether it ever started."""
    if container.state == "unknown":
        return _RANK["running"] if container.started_at else _RANK["created"]
    return _RANK[container.state]
