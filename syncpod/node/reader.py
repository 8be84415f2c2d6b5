"""The one place that reads whole pods from the runtime.

Two list calls, filtered by labels, say what exists. Exit codes, times and addresses need a status call for each sandbox
or container, which is made only if the answer can have changed. Steps read their pod after their last call (`read`),
the node agent reads all pods every second (`read_all`). Both use the one `PodReader` of the node's process, which
numbers the listings.

    ┌ ListPodSandbox ┐     ┌ PodSandboxStatus  unless known: READY with its address, or dead without ┐
    ┤                ├──►──┤                                                                         ├──► ObservedPod
    └ ListContainers ┘     └ ContainerStatus   unless known in this state; exited is known for ever  ┘
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeVar

from syncpod.cri.answers import word
from syncpod.cri.errors import CriError, DeadlineExceeded, NotFound, RuntimeFailure, believing
from syncpod.cri.port import ContainerAnswer, ContainerSummary, CriRuntime, SandboxStatus, SandboxSummary
from syncpod.lifecycle.exit import STATUS_UNKNOWN, UNKNOWN_TO_RUNTIME, Exit
from syncpod.lifecycle.listing_size import within_shares
from syncpod.lifecycle.observed import (
    ObservedContainer,
    ObservedPod,
    ObservedSandbox,
    Seq,
    order_containers,
    order_sandboxes,
)
from syncpod.lifecycle.start_errors import without_guess
from syncpod.node.listed_pods import Entry, ListedPod, ListedPods, Told, is_same, require_same, still_there, told_of
from syncpod.node.pod_threads import DiskWork, PodThreads, TooManySilent
from syncpod.node.seen_exits import SeenExits
from syncpod.node.termination_message import termination_message, wants_message
from syncpod.translation import names

log = logging.getLogger(__name__)

PID_NOT_SAID = -1
"""In place of a pid: the process runs, but the runtime does not report its pid."""

_ATTEMPTS_AT_ONCE = 64
"""How many pods' statuses `read_all` asks for at the same time; thousands would delay one another."""

_CALLS_PER_POD = 8
"""How many calls about one pod are made at the same time."""

_MESSAGE_SECONDS: Final = 10.0
"""How long to wait for the disk that has a container's termination message."""

_MOST_OF_A_POD: Final = 1_000
"""How many sandboxes and containers a pod may have in the runtime. Ours have a few dozens; each costs a call, and room
in the pod's signal."""

_Item = TypeVar("_Item")
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class Relist:
    """All pods of the node as one listing found them, and the failures.

    Each pod is in one of the two, by UID. A pod in neither has nothing in the runtime.
    """

    seq: Seq
    pods: Mapping[str, ObservedPod]
    failures: Mapping[str, CriError]


@dataclass(frozen=True, slots=True)
class Made:
    """The thing that a step has just made in a pod: a sandbox, or a container in it that runs."""

    sandbox_id: str
    container_id: str = ""


@dataclass(frozen=True, slots=True)
class InstanceKey:
    """One instance of a container, as it is named before it is made."""

    uid: str
    incarnation: str
    container: str
    restart: int


class PodReader:
    """Reads pods of `owner` (the node's name, `syncpod.dev/node`) from `runtime`. A node's process has exactly one.

    `boot` counts the process's starts on this node. Together with a counter that each listing takes before it begins,
    it is the `seq` that orders listings. Anything without the owner's label is ignored. Anything that has the label
    but can belong to no pod is ignored after one warning: somebody else has made it. Safe to use from many
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
    ) -> None:
        """`pod_timeout_seconds` limits how long `read_all` waits for a pod.

        `exits` has the ends that the node saw itself, for containers whose end the runtime does not know. `withholds`
        says, in any thread, whether the own message of a pod's container that was made at a time may show values of
        Secrets that the node does not know. `now` is the node's wall clock, in UTC.
        """
        self.now = now
        self.exits = exits
        self.threads = PodThreads()
        """The threads of the node's pods, for whatever touches a pod's files: also those of steps and of the agent."""
        self._runtime = runtime
        self._withholds = withholds
        self._boot = boot
        self._owner = owner
        self._pod_timeout = pod_timeout_seconds
        self.newest_begun = Seq(boot=boot)
        """The number of the newest listing that has begun."""
        self._sandboxes: dict[str, ObservedSandbox] = {}
        self._containers: dict[str, ObservedContainer] = {}
        self._built: dict[str, tuple[tuple[ObservedContainer, ...], ObservedPod]] = {}
        """The newest listing of each pod, by UID, and its containers with whole messages: one with the same records is
        a copy of it."""
        self._listed = ListedPods()
        self._told: dict[str, Told] = {}
        """By id: whose the sandbox or container is, as its status says."""
        self._late: dict[str, asyncio.Task[ObservedPod]] = {}
        self._hidden: set[InstanceKey] = set()
        self._attempts = asyncio.Semaphore(_ATTEMPTS_AT_ONCE)

    async def read(self, uid: str, *, made: Made | None = None) -> ObservedPod:
        """Read one pod; it is empty if the runtime has nothing of it. Raises CriError.

        Has no timeout beyond those of its calls. After a start this costs two lists and one status; with `made`, all
        are requested at once.
        """
        seq, observed_at = self._begin()
        pods, _ = await asyncio.gather(self._list({names.POD_UID_LABEL: uid}), self._ask_early(uid, made))
        return await self._complete(seq, observed_at, uid, pods.get(uid, ListedPod()))

    async def read_all(self) -> Relist:
        """Read every pod of the owner: the kubelet's relist (pleg/generic.go, v1.36, Relist).

        Raises CriError if the lists themselves fail. A pod whose status fails or is late is in `failures`. Unlike in
        the kubelet, it delays no other pod, and no more calls are made for it while earlier ones hang. If nothing has
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
            # Usually everything is known. Then no task and no timer is made, which matters with thousands of pods.
            known = self._known(listed)
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
        """Ask whether a container has exited. If so, no later listing asks about it again. Raises CriError.

        `succeeded` is called at once if it has, with 0; its termination message has then still to be read.
        """
        answer = await self._runtime.container_status(container_id)
        if answer.container.state != "exited":
            return False
        if answer.container.exit_code == 0:
            succeeded()
        await self._take(answer, sandbox_id)
        return True

    def hide(self, instance: InstanceKey) -> None:
        """Leave an instance out of all listings until it is to be shown: it is made before its turn has come."""
        self._hidden.add(instance)

    def show(self, instance: InstanceKey) -> None:
        """List an instance again."""
        self._hidden.discard(instance)

    def belongs_to_pod(self, id: str) -> bool:
        """Say whether the runtime's last valid list had a sandbox or container of this node as a pod's."""
        return self._listed.belongs_to_pod(id)

    def require_own(self, operation: str, id: str, uid: str) -> None:
        """Raise Unreadable if the id that the runtime has answered with, for a thing of this pod, is another pod's."""
        self._listed.require_own(operation, id, uid)

    def known_sandbox(self, sandbox_id: str) -> ObservedSandbox | None:
        """Return what was last asked about a sandbox; None if nothing was, or it is gone."""
        return self._sandboxes.get(sandbox_id)

    async def pid_of(self, container_id: str) -> int:
        """Return the pid of a running container's main process; 0 if it does not run or is gone. Raises CriError.

        PID_NOT_SAID if it runs and the runtime does not report the pid. On return the process may have ended, and its
        pid may belong to another: open a pidfd, then ask again.
        """
        try:
            found = (await self._runtime.container_status(container_id, verbose=True)).container
        except NotFound:
            return 0
        return (found.pid or PID_NOT_SAID) if found.state == "running" else 0

    async def sandbox_pid(self, sandbox_id: str) -> int:
        """Return the pid of a ready sandbox's pause process; otherwise like `pid_of`.

        Slow, or fails, if the shim hangs.
        """
        try:
            status = await self._runtime.pod_sandbox_status(sandbox_id, verbose=True)
        except NotFound:
            return 0
        return (status.pid or PID_NOT_SAID) if status.state == "SANDBOX_READY" else 0

    async def _attempt(self, seq: Seq, observed_at: datetime, uid: str, listed: ListedPod) -> ObservedPod | CriError:
        """Complete one pod's listing within its timeout, or return why not. A late one goes on and fills the cache."""
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
            # A lasting error shows at the next relist; asyncio need not report that nobody retrieved it.
            reading.exception()

    def _begin(self) -> tuple[Seq, datetime]:
        # Taken before the first call: absence counts only in a listing that began after the object was seen.
        self.newest_begun = Seq(boot=self._boot, counter=self.newest_begun.counter + 1)
        return self.newest_begun, self.now()

    async def _list(self, labels: Mapping[str, str]) -> dict[str, ListedPod]:
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

    async def _complete(self, seq: Seq, observed_at: datetime, uid: str, listed: ListedPod) -> ObservedPod:
        """Complete the listing of a pod with status calls. Raises CriError."""
        if listed.doubt is not None:
            raise listed.doubt
        await _together(self._require_gone(each) for each in listed.vanished)
        if (many := len(listed.sandboxes) + len(listed.containers)) > _MOST_OF_A_POD:
            text = (
                f"the runtime lists {many} sandboxes and containers of pod {uid}, and at most {_MOST_OF_A_POD} are read"
            )
            raise RuntimeFailure("list_containers", "INTERNAL", text)
        known = self._known(listed)
        if known is not None:
            return self._observed_pod(seq, observed_at, uid, listed, *known)
        slots = asyncio.Semaphore(_CALLS_PER_POD)
        asking_sandboxes = asyncio.create_task(_each(slots, listed.sandboxes, self._known_sandbox, self._ask_sandbox))
        asking_containers = asyncio.create_task(
            _each(slots, listed.containers, self._known_container, self._ask_container)
        )
        try:
            sandboxes, containers = await asyncio.gather(asking_sandboxes, asking_containers)
        finally:
            asking_sandboxes.cancel()
            asking_containers.cancel()
        return self._observed_pod(seq, observed_at, uid, listed, sandboxes, containers)

    async def _require_gone(self, entry: Entry) -> None:
        """Ask whether something that is listed no more is gone. Raises Unreadable if it is not, and CriError.

        It was alive, so another one would take its place, and both would run.
        """
        try:
            if isinstance(entry, SandboxSummary):
                await self._runtime.pod_sandbox_status(entry.id)
            else:
                await self._runtime.container_status(entry.id)
        except NotFound:
            self._listed.forget(entry.id)
            return
        raise still_there(entry)

    def _observed_pod(
        self,
        seq: Seq,
        observed_at: datetime,
        uid: str,
        listed: ListedPod,
        sandboxes: tuple[ObservedSandbox, ...],
        containers: tuple[ObservedContainer, ...],
    ) -> ObservedPod:
        """Return the listing of a pod, its messages cut; if nothing has changed, a copy with a new number."""
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

    async def _ask_early(self, uid: str, made: Made | None) -> None:
        """Ask for the status of what was just made; if there is none, whoever completes the listing asks again."""
        with contextlib.suppress(CriError):
            if made is None:
                return
            if not made.container_id:
                status = await self._runtime.pod_sandbox_status(made.sandbox_id)
                if status.labels.get(names.POD_UID_LABEL) == uid:
                    self._take_sandbox(status)
                return
            answer = await self._runtime.container_status(made.container_id, verbose=True)
            if answer.labels.get(names.POD_UID_LABEL) == uid:
                await self._take(answer, made.sandbox_id)

    def _known(self, listed: ListedPod) -> tuple[tuple[ObservedSandbox, ...], tuple[ObservedContainer, ...]] | None:
        """Return all of a pod from the cache; None if anything has to be asked for, or the list is doubtful."""
        if listed.doubt is not None or listed.vanished:
            return None
        sandboxes = _all_of(map(self._known_sandbox, listed.sandboxes))
        containers = _all_of(map(self._known_container, listed.containers))
        return None if sandboxes is None or containers is None else (sandboxes, containers)

    def _known_sandbox(self, listed: SandboxSummary) -> ObservedSandbox | None:
        """Return the cached status if it is still valid: a ready sandbox keeps its address, a dead one gets none."""
        known = self._sandboxes.get(listed.id)
        if known is None or known.state != listed.state or not is_same(listed, self._told.get(listed.id)):
            return None
        self._listed.vouch(listed)
        settled = known.network_mode == "NODE" or bool(known.ip) == known.ready
        return known if settled else None

    async def _ask_sandbox(self, listed: SandboxSummary) -> ObservedSandbox:
        status = await self._runtime.pod_sandbox_status(listed.id)
        require_same(listed, told_of(status))
        self._listed.vouch(listed)
        return self._take_sandbox(status)

    def _take_sandbox(self, status: SandboxStatus) -> ObservedSandbox:
        """Remember an answer for the listings to come."""
        with believing("podsandbox_status"):
            observed = self._sandboxes[status.id] = _observed_sandbox(status)
        self._told[status.id] = told_of(status)
        return observed

    def _known_container(self, listed: ContainerSummary) -> ObservedContainer | None:
        """Return the cached status if it is still valid.

        An exit that is known with its time is final; otherwise only a new state brings news.

        A running container's reason may change (OOMKilled, for one of many processes); its exit will show that. If the
        runtime lists as running what it said had ended, it is asked again: it was mistaken before, or is now, and a
        process that nobody sees would run beside the next one.
        """
        known = self._containers.get(listed.id)
        if known is None or known.state == "unknown" or not is_same(listed, self._told.get(listed.id)):
            return None
        self._listed.vouch(listed)
        if known.state == "exited" and listed.state != "running":
            is_unknown = known.reason in (UNKNOWN_TO_RUNTIME, STATUS_UNKNOWN)
            if is_unknown and self.exits is not None and self.exits.of(known.id) is not None:
                return None  # the kernel has said since how it ended
            return known if known.finished_at else None
        return known if known.state == listed.state else None

    async def _ask_container(self, listed: ContainerSummary) -> ObservedContainer:
        # Verbose, for the pid: the watcher of the process would ask for it at once.
        answer = await self._runtime.container_status(listed.id, verbose=listed.state == "running")
        require_same(listed, told_of(answer))
        self._listed.vouch(listed)
        return await self._take(answer, listed.sandbox_id)

    async def _take(self, answer: ContainerAnswer, sandbox_id: str) -> ObservedContainer:
        """Remember an answer for the listings to come."""
        observed = _observed_container(sandbox_id, answer)
        if (exit_ := observed.exit) is not None:
            observed = observed.ended_as(await self._complete_exit(exit_, answer, sandbox_id))
        self._containers[observed.id] = observed
        self._told[observed.id] = told_of(answer)
        return observed

    async def _complete_exit(self, exit_: Exit, answer: ContainerAnswer, sandbox_id: str) -> Exit:
        """Complete an exit by what the runtime does not report: how the node saw it, and the termination message.

        A guess of the runtime about it is dropped, and so is a reason that the death of its shim makes doubtful.
        """
        exit_ = without_guess(exit_)
        if self.exits is not None:
            exit_ = await self.exits.complete(exit_)
            if self.exits.is_doubtful(exit_) and not await self._is_ready(sandbox_id):
                # Its shim was killed: the runtime reports 255 then, for any exit code of the process.
                exit_ = replace(exit_, reason=UNKNOWN_TO_RUNTIME)
        if not wants_message(answer):
            return exit_
        uid, made_at = answer.labels.get(names.POD_UID_LABEL, ""), answer.container.created_at
        reading = partial(termination_message, answer, exit_, partial(self._withholds, uid, made_at))
        try:
            async with asyncio.timeout(_MESSAGE_SECONDS):
                said = await self.threads.run(uid, DiskWork.READ, reading)
        except (TimeoutError, TooManySilent):
            said = "Error on reading termination log: its disk does not answer"
        return replace(exit_, message=said)

    async def _is_ready(self, sandbox_id: str) -> bool:
        """Say whether a sandbox is ready, and so its shim alive."""
        try:
            return (await self._runtime.pod_sandbox_status(sandbox_id)).state == "SANDBOX_READY"
        except NotFound:
            return False

    def _forget_all_but(self, pods: Mapping[str, ListedPod]) -> None:
        """Drop what is not listed.

        An entry that a newer listing has just added may be dropped too, and is then asked for again.
        """
        sandboxes: set[str] = set()
        containers: set[str] = set()
        for listed in pods.values():
            sandboxes.update(sandbox.id for sandbox in listed.sandboxes)
            containers.update(container.id for container in listed.containers)
        self._sandboxes = {id: known for id, known in self._sandboxes.items() if id in sandboxes}
        self._containers = {id: known for id, known in self._containers.items() if id in containers}
        self._told = {id: told for id, told in self._told.items() if id in sandboxes or id in containers}
        self._built = {uid: built for uid, built in self._built.items() if uid in pods}


def _instance(container: ContainerSummary) -> InstanceKey:
    incarnation = container.annotations.get(names.INCARNATION_ANNOTATION, "")
    return InstanceKey(container.labels.get(names.POD_UID_LABEL, ""), incarnation, container.name, container.attempt)


def _all_of(records: Iterable[_Record | None]) -> tuple[_Record, ...] | None:
    """Return the records if none is missing."""
    found = []
    for record in records:
        if record is None:
            return None
        found.append(record)
    return tuple(found)


async def _each(
    slots: asyncio.Semaphore,
    items: Sequence[_Item],
    known: Callable[[_Item], _Record | None],
    ask: Callable[[_Item], Awaitable[_Record]],
) -> tuple[_Record, ...]:
    """Return a record for each item, cached or asked for; those that have vanished are left out."""

    async def asked(item: _Item) -> _Record | None:
        async with slots:
            try:
                return await ask(item)
            except NotFound:
                return None

    records = [known(item) for item in items]
    missing = [index for index, record in enumerate(records) if record is None]
    answers = await _together(asked(items[index]) for index in missing)
    for index, answer in zip(missing, answers, strict=True):
        records[index] = answer
    return tuple(record for record in records if record is not None)


async def _together(coroutines: Iterable[Coroutine[None, None, _Record]]) -> list[_Record]:
    """Run all concurrently; when one fails, cancel the others and raise its error."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _identity(listed: ListedPod) -> tuple[str, str]:
    """Return the pod's name and namespace by its sandboxes or the labels of its containers; "" if it has none."""
    for sandbox in listed.sandboxes:
        return sandbox.name, sandbox.namespace
    for container in listed.containers:
        return container.labels.get(names.POD_NAME_LABEL, ""), container.labels.get(names.POD_NAMESPACE_LABEL, "")
    return "", ""


def _observed_sandbox(status: SandboxStatus) -> ObservedSandbox:
    return ObservedSandbox(
        id=status.id,
        attempt=status.attempt,
        state=status.state,
        created_at=status.created_at,
        network_mode=status.network_mode,
        ip=status.ip,
        additional_ips=status.additional_ips,
        incarnation=word(status.annotations.get(names.INCARNATION_ANNOTATION, "")),
        pid=status.pid,
    )


def _observed_container(sandbox_id: str, answer: ContainerAnswer) -> ObservedContainer:
    """Return the container that the runtime answered about, with what its annotations say."""
    return answer.container.model_copy(
        update={
            "sandbox_id": sandbox_id,
            "hash": word(answer.annotations.get(names.CONTAINER_HASH_ANNOTATION, "")),
            "incarnation": word(answer.annotations.get(names.INCARNATION_ANNOTATION, "")),
        }
    )
