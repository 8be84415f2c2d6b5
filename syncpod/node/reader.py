"""The one place that reads whole pods from the runtime.

Two list calls, filtered by labels, show what exists. Exit codes, times and addresses need a status call for each
sandbox or container, which `syncpod.node.runtime_answers` makes only if the answer can have changed. Steps read their
pod after their last call (`read`), the node agent reads all pods every second (`read_all`). Both use the one
`PodReader` of the node's process, which numbers the listings.

    ┌ ListPodSandbox ┐     ┌ PodSandboxStatus  unless known: READY with its address, or dead without ┐
    ┤                ├──►──┤                                                                         ├──► ObservedPod
    └ ListContainers ┘     └ ContainerStatus   unless known in this state; exited is known for ever  ┘
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from syncpod.cri.errors import CriError, DeadlineExceeded, NotFound
from syncpod.cri.port import ContainerSummary, CriRuntime
from syncpod.lifecycle.listing_size import within_shares
from syncpod.lifecycle.observed import (
    ObservedContainer,
    ObservedPod,
    ObservedSandbox,
    Seq,
    order_containers,
    order_sandboxes,
)
from syncpod.node.listed_pods import ListedEntries, ListedPods
from syncpod.node.pod_threads import PodThreads
from syncpod.node.runtime_answers import Made, RuntimeAnswers
from syncpod.node.seen_exits import SeenExits
from syncpod.translation import names

log = logging.getLogger(__name__)

PID_UNREPORTED = -1
"""Stands for the pid of a process that runs, but whose pid the runtime does not report."""

_ATTEMPTS_AT_ONCE = 64
"""Maximum number of pods whose statuses `read_all` requests at once, since thousands of requests would delay one
another."""


@dataclass(frozen=True, slots=True)
class Relist:
    """All pods of the node in one listing, and the failures.

    Each listed pod is in `pods` or in `failures`, by UID. A pod in neither has nothing in the runtime.
    """

    seq: Seq
    pods: Mapping[str, ObservedPod]
    failures: Mapping[str, CriError]


@dataclass(frozen=True, slots=True)
class InstanceKey:
    """Identifies one instance of a container, even before the runtime has made it."""

    uid: str
    incarnation: str
    container: str
    restart: int


class PodReader:
    """Reads pods of `owner` (the node's name, `syncpod.dev/node`) from `runtime`. A node's process has exactly one.

    `boot` counts the process's starts on this node. The `seq` of a listing, by which listings are ordered, is `boot`
    and a counter that grows before each listing. Objects without the owner's label are ignored. Objects that have the
    label but can belong to no pod are ignored after one warning: somebody else has made them. Safe to use from many
    tasks of one event loop.
    """

    def __init__(
        self,
        runtime: CriRuntime,
        *,
        boot: int,
        owner: str,
        pod_timeout_seconds: float = 2.0,
        exits: SeenExits | None = None,
        withholds: Callable[[str, datetime | None], bool] = lambda _uid, _began: False,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        threads: PodThreads | None = None,
    ) -> None:
        """`pod_timeout_seconds` limits how long `read_all` waits for a pod.

        `exits` has the exits that the node observed, for containers whose exit the runtime cannot report.
        `withholds(uid, made_at)` returns whether the termination message of a pod's container may contain values of
        Secrets that the node cannot recognize; it is called in threads. `now` is the node's wall clock, in UTC.
        `threads` are those of the node's pods; None = new ones.
        """
        self.now = now
        self.threads = threads or PodThreads()
        """The threads of the node's pods, for all work on a pod's files: also that of steps and of the agent."""
        self._runtime = runtime
        self._boot = boot
        self._owner = owner
        self._pod_timeout = pod_timeout_seconds
        self.newest_begun = Seq(boot=boot)
        """The number of the newest listing that has begun."""
        self._built: dict[str, tuple[tuple[ObservedContainer, ...], ObservedPod]] = {}
        """By UID: each pod's containers with uncut messages, and its newest listing. If nothing has changed, the next
        listing is a copy of it."""
        self._listed = ListedPods()
        self.answers = RuntimeAnswers(runtime, self._listed, self.threads, exits, withholds)
        """The cached statuses of the runtime's listed objects."""
        self._late: dict[str, asyncio.Task[ObservedPod]] = {}
        self._hidden: set[InstanceKey] = set()
        self._attempts = asyncio.Semaphore(_ATTEMPTS_AT_ONCE)

    @property
    def exits(self) -> SeenExits | None:
        """The exits that the node observed itself."""
        return self.answers.exits

    async def read(self, uid: str, *, made: Made | None = None) -> ObservedPod:
        """Read one pod; the result is empty if the runtime has no sandbox or container of the pod. Raises CriError.

        Has no timeout beyond those of its calls. After a start this costs two lists and one status; with `made`, all
        three are requested at once.
        """
        seq, observed_at = self._begin()
        pods, _ = await asyncio.gather(self._list({names.POD_UID_LABEL: uid}), self.answers.request_early(uid, made))
        return await self._complete(seq, observed_at, uid, pods.get(uid, ListedEntries()))

    def nothing(self, uid: str) -> ObservedPod:
        """Return the listing of a pod whose objects have all been removed just now, without asking the runtime."""
        seq, observed_at = self._begin()
        return ObservedPod(seq=seq, uid=uid, observed_at=observed_at)

    async def read_all(self) -> Relist:
        """Read every pod of the owner: the kubelet's relist (pleg/generic.go, v1.36, Relist).

        Raises CriError if the lists themselves fail. A pod whose status fails or is late is in `failures`. Unlike in
        the kubelet, that pod delays no other pod, and gets no more calls while earlier ones hang. If nothing has
        changed since the last time, this costs two calls.
        """
        seq, observed_at = self._begin()
        ended = self.exits.ids() if self.exits is not None else frozenset()
        pods = await self._list({})
        self._forget_all_but(pods)
        if self.exits is not None and ended:
            self.exits.forget(ended - {container.id for pod in pods.values() for container in pod.containers})
        by_uid: dict[str, ObservedPod | CriError] = {}
        for uid, listed in pods.items():
            # Usually all statuses are cached. Then no task and no timer is made, which saves time with thousands of
            # pods.
            known = self.answers.known(listed)
            if known is not None and uid not in self._late:
                by_uid[uid] = self._observed_pod(seq, observed_at, uid, listed, *known)
        unknown = {uid: listed for uid, listed in pods.items() if uid not in by_uid}
        outcomes = await asyncio.gather(
            *(self._attempt(seq, observed_at, uid, listed) for uid, listed in unknown.items())
        )
        by_uid.update(zip(unknown, outcomes, strict=True))
        gone = [
            uid for uid, pod in by_uid.items() if isinstance(pod, ObservedPod) and not (pod.sandboxes or pod.containers)
        ]
        for uid in gone:
            del by_uid[uid]
        return Relist(
            seq=seq,
            pods={uid: outcome for uid, outcome in by_uid.items() if isinstance(outcome, ObservedPod)},
            failures={uid: outcome for uid, outcome in by_uid.items() if isinstance(outcome, CriError)},
        )

    async def has_exited(
        self, container_id: str, *, sandbox_id: str, succeeded: Callable[[], None] = lambda: None
    ) -> bool:
        """Return whether a container has exited, by a status call. Later listings then need no call. Raises CriError.

        If its exit code is 0, `succeeded` is called at once, before the termination message is read.
        """
        answer = await self._runtime.container_status(container_id)
        if answer.container.state != "exited":
            return False
        if answer.container.exit_code == 0:
            succeeded()
        await self.answers.take(answer, sandbox_id)
        return True

    def hide(self, instance: InstanceKey) -> None:
        """Leave an instance out of all listings until `show`.

        Use it for one that is created before its start is due.
        """
        self._hidden.add(instance)

    def show(self, instance: InstanceKey) -> None:
        """List an instance again."""
        self._hidden.discard(instance)

    def belongs_to_pod(self, id: str) -> bool:
        """Return whether a sandbox or container with this id is known to belong to a pod of this node."""
        return self._listed.belongs_to_pod(id)

    def require_own(self, operation: str, id: str, uid: str) -> None:
        """Raise Unreadable if `id`, which the runtime returned for a new object of this pod, belongs to another pod."""
        self._listed.require_own(operation, id, uid)

    def known_sandbox(self, sandbox_id: str) -> ObservedSandbox | None:
        """Return the last status of a sandbox; None if none was read yet, or if the sandbox is gone."""
        return self.answers.sandbox(sandbox_id)

    async def pid_of(self, container_id: str) -> int:
        """Return the pid of a running container's main process; 0 if it does not run or is gone. Raises CriError.

        PID_UNREPORTED if it runs and the runtime does not report the pid. When this returns, the process may have
        ended, and another process may have its pid: open a pidfd, then call this again.
        """
        try:
            found = (await self._runtime.container_status(container_id, verbose=True)).container
        except NotFound:
            return 0
        return (found.pid or PID_UNREPORTED) if found.state == "running" else 0

    async def sandbox_pid(self, sandbox_id: str) -> int:
        """Return the pid of a ready sandbox's pause process; otherwise like `pid_of`.

        Slow, or fails, if the shim hangs.
        """
        try:
            status = await self._runtime.pod_sandbox_status(sandbox_id, verbose=True)
        except NotFound:
            return 0
        return (status.pid or PID_UNREPORTED) if status.state == "SANDBOX_READY" else 0

    async def _attempt(
        self, seq: Seq, observed_at: datetime, uid: str, listed: ListedEntries
    ) -> ObservedPod | CriError:
        """Complete one pod's listing; return the error if this fails or takes too long.

        A late reading continues, and fills the cache.
        """
        if uid not in self._late:
            async with self._attempts:
                reading = asyncio.create_task(self._complete(seq, observed_at, uid, listed))
                try:
                    await asyncio.wait((reading,), timeout=self._pod_timeout)
                except asyncio.CancelledError:
                    reading.cancel()
                    raise
            if reading.done():
                error = reading.exception()
                if error is None or isinstance(error, CriError):
                    return error or reading.result()
                raise error
            self._late[uid] = reading
            reading.add_done_callback(lambda ended: self._arrived(uid, ended))
        text = f"pod {uid} could not be read within {self._pod_timeout:g} s"
        return DeadlineExceeded("read_pod", "DEADLINE_EXCEEDED", text)

    def _arrived(self, uid: str, reading: asyncio.Task[ObservedPod]) -> None:
        del self._late[uid]
        if not reading.cancelled():
            # A lasting error shows at the next relist, so asyncio need not report this one as unretrieved.
            reading.exception()

    def _begin(self) -> tuple[Seq, datetime]:
        # The number is taken before the first call: only a listing that began after an object was seen can show its
        # absence.
        self.newest_begun = Seq(boot=self._boot, counter=self.newest_begun.counter + 1)
        return self.newest_begun, self.now()

    async def _list(self, labels: Mapping[str, str]) -> dict[str, ListedEntries]:
        selection = {names.NODE_LABEL: self._owner, **labels}
        sandboxes, containers = await asyncio.gather(
            self._runtime.list_pod_sandboxes(labels=selection), self._runtime.list_containers(labels=selection)
        )
        return self._listed.sort(
            sandboxes,
            containers,
            of=labels.get(names.POD_UID_LABEL, ""),
            hidden=lambda container: bool(self._hidden) and _instance(container) in self._hidden,
        )

    async def _complete(self, seq: Seq, observed_at: datetime, uid: str, listed: ListedEntries) -> ObservedPod:
        """Complete the listing of a pod with status calls. Raises CriError."""
        return self._observed_pod(seq, observed_at, uid, listed, *await self.answers.complete(listed, uid))

    def _observed_pod(
        self,
        seq: Seq,
        observed_at: datetime,
        uid: str,
        listed: ListedEntries,
        sandboxes: tuple[ObservedSandbox, ...],
        containers: tuple[ObservedContainer, ...],
    ) -> ObservedPod:
        """Return a pod's listing with cut messages; if nothing has changed, a copy of the newest with a new number."""
        sandboxes, containers = order_sandboxes(sandboxes), order_containers(containers)
        whole, built = self._built.get(uid, ((), None))
        if built is not None and built.sandboxes == sandboxes and whole == containers:
            return built.model_copy(update={"seq": seq, "observed_at": observed_at})
        name, namespace = _identity(listed)
        built = ObservedPod(
            seq=seq,
            uid=uid,
            name=name,
            namespace=namespace,
            observed_at=observed_at,
            sandboxes=sandboxes,
            containers=within_shares(containers),
        )
        if sandboxes or containers:
            self._built[uid] = containers, built
        return built

    def _forget_all_but(self, pods: Mapping[str, ListedEntries]) -> None:
        """Drop the cached statuses of objects that are not listed.

        The status of an entry that a newer listing has just added may be dropped too, and is then requested again.
        """
        sandboxes: set[str] = set()
        containers: set[str] = set()
        for listed in pods.values():
            sandboxes.update(sandbox.id for sandbox in listed.sandboxes)
            containers.update(container.id for container in listed.containers)
        self.answers.forget_all_but(sandboxes, containers)
        self._built = {uid: built for uid, built in self._built.items() if uid in pods}


def _instance(container: ContainerSummary) -> InstanceKey:
    incarnation = container.annotations.get(names.INCARNATION_ANNOTATION, "")
    return InstanceKey(container.labels.get(names.POD_UID_LABEL, ""), incarnation, container.name, container.attempt)


def _identity(listed: ListedEntries) -> tuple[str, str]:
    """Return the pod's name and namespace from its sandboxes, else from its containers' labels; "" if it has none."""
    for sandbox in listed.sandboxes:
        return sandbox.name, sandbox.namespace
    for container in listed.containers:
        return container.labels.get(names.POD_NAME_LABEL, ""), container.labels.get(names.POD_NAMESPACE_LABEL, "")
    return "", ""
