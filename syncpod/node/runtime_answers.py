"""Caches the runtime's statuses of the node's sandboxes and containers as long as they are valid.

A list shows which objects exist, and their states. Exit codes, times and addresses need a status call for each sandbox
or container, which is made only if the answer can have changed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

from syncpod.cri.answers import word
from syncpod.cri.errors import CriError, NotFound, RuntimeFailure, valid_answer
from syncpod.cri.port import ContainerAnswer, ContainerSummary, CriRuntime, SandboxStatus, SandboxSummary
from syncpod.lifecycle.exit import STATUS_UNKNOWN, UNKNOWN_TO_RUNTIME, Exit
from syncpod.lifecycle.observed import ObservedContainer, ObservedSandbox
from syncpod.lifecycle.start_errors import without_guess
from syncpod.node.listed_pods import (
    Entry,
    ListedEntries,
    ListedPods,
    Owner,
    is_same,
    owner_of,
    require_same,
    still_there,
)
from syncpod.node.pod_threads import DiskWork, PodThreads, TooManySilent
from syncpod.node.seen_exits import SeenExits
from syncpod.node.termination_message import termination_message, wants_message
from syncpod.translation import names

Answers = tuple[tuple[ObservedSandbox, ...], tuple[ObservedContainer, ...]]
"""All sandboxes and containers of a pod."""

_CALLS_PER_POD = 8
"""Maximum number of concurrent status calls for one pod."""

_MESSAGE_SECONDS: Final = 10.0
"""Seconds to wait for the disk that has a container's termination message."""

_MOST_OF_A_POD: Final = 1_000
"""Maximum number of sandboxes and containers of one pod. A pod usually has a few dozen; each costs a call, and room in
the pod's signal."""

_Item = TypeVar("_Item")
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class Made:
    """The object that a step has just made in a pod: a sandbox, or a running container in that sandbox."""

    sandbox_id: str
    container_id: str = ""


class RuntimeAnswers:
    """The newest statuses from `runtime` of the node's listed objects. The node's process has exactly one."""

    def __init__(
        self,
        runtime: CriRuntime,
        listed: ListedPods,
        threads: PodThreads,
        exits: SeenExits | None,
        withholds: Callable[[str, datetime | None], bool],
    ) -> None:
        """Begin with an empty cache. `exits` and `withholds` are as for `PodReader`.

        `listed` gets each entry that a status confirms.
        """
        self._runtime = runtime
        self._listed = listed
        self._threads = threads
        self.exits = exits
        self._withholds = withholds
        self._sandboxes: dict[str, ObservedSandbox] = {}
        self._containers: dict[str, ObservedContainer] = {}
        self._identities: dict[str, Owner] = {}
        """The owner that the status of each sandbox or container names, by id."""

    def sandbox(self, sandbox_id: str) -> ObservedSandbox | None:
        """Return the last status of a sandbox; None if none was read yet, or if the sandbox is gone."""
        return self._sandboxes.get(sandbox_id)

    def known(self, listed: ListedEntries) -> Answers | None:
        """Return a pod's cached sandboxes and containers; None if a status call is needed, or the list is doubtful."""
        if listed.doubt is not None or listed.vanished:
            return None
        sandboxes = _all_of(map(self._known_sandbox, listed.sandboxes))
        containers = _all_of(map(self._known_container, listed.containers))
        return None if sandboxes is None or containers is None else (sandboxes, containers)

    async def complete(self, listed: ListedEntries, uid: str) -> Answers:
        """Return a pod's listed objects, with a status call for each that is not cached. Raises CriError."""
        if listed.doubt is not None:
            raise listed.doubt
        await _together(self._require_gone(each) for each in listed.vanished)
        if (many := len(listed.sandboxes) + len(listed.containers)) > _MOST_OF_A_POD:
            text = (
                f"the runtime lists {many} sandboxes and containers of pod {uid}, and at most {_MOST_OF_A_POD} are read"
            )
            raise RuntimeFailure("list_containers", "INTERNAL", text)
        known = self.known(listed)
        if known is not None:
            return known
        slots = asyncio.Semaphore(_CALLS_PER_POD)
        asking_sandboxes = asyncio.create_task(_each(slots, listed.sandboxes, self._known_sandbox, self._read_sandbox))
        asking_containers = asyncio.create_task(
            _each(slots, listed.containers, self._known_container, self._read_container)
        )
        try:
            return await asyncio.gather(asking_sandboxes, asking_containers)
        finally:
            asking_sandboxes.cancel()
            asking_containers.cancel()

    async def request_early(self, uid: str, made: Made | None) -> None:
        """Request the status of an object that was just made. If that fails, `complete` requests it again."""
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
                await self.take(answer, made.sandbox_id)

    async def _require_gone(self, entry: Entry) -> None:
        """Check by a status call that an entry, which the list lacks, is gone. Raises Unreadable, CriError.

        The sandbox or container ran when it was last listed. If it still runs, a replacement would run beside it.
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

    def _known_sandbox(self, listed: SandboxSummary) -> ObservedSandbox | None:
        """Return the cached status if it is still valid: a ready sandbox keeps its address, a dead one gets none."""
        known = self._sandboxes.get(listed.id)
        if known is None or known.state != listed.state or not is_same(listed, self._identities.get(listed.id)):
            return None
        self._listed.confirm(listed)
        settled = known.network_mode == "NODE" or bool(known.ip) == known.ready
        return known if settled else None

    async def _read_sandbox(self, listed: SandboxSummary) -> ObservedSandbox:
        status = await self._runtime.pod_sandbox_status(listed.id)
        require_same(listed, owner_of(status))
        self._listed.confirm(listed)
        return self._take_sandbox(status)

    def _take_sandbox(self, status: SandboxStatus) -> ObservedSandbox:
        """Cache a status for later listings."""
        with valid_answer("podsandbox_status"):
            observed = self._sandboxes[status.id] = _observed_sandbox(status)
        self._identities[status.id] = owner_of(status)
        return observed

    def _known_container(self, listed: ContainerSummary) -> ObservedContainer | None:
        """Return the cached status if it is still valid.

        An exit with a time is final; any other status is valid until the listed state changes.

        A running container's reason may change before that (OOMKilled, for one of many processes), and its exit will
        show it. If the cached status is exited, and the runtime lists the container as running, the status is requested
        again: one of the two is wrong, and a running container must not be replaced.
        """
        known = self._containers.get(listed.id)
        if known is None or known.state == "unknown" or not is_same(listed, self._identities.get(listed.id)):
            return None
        self._listed.confirm(listed)
        if known.state == "exited" and listed.state != "running":
            is_unknown = known.reason in (UNKNOWN_TO_RUNTIME, STATUS_UNKNOWN)
            if is_unknown and self.exits is not None and self.exits.of(known.id) is not None:
                return None  # the kernel has reported the container's exit since
            return known if known.finished_at else None
        return known if known.state == listed.state else None

    async def _read_container(self, listed: ContainerSummary) -> ObservedContainer:
        # The call is verbose for the pid, which the watcher of the process would otherwise request at once.
        answer = await self._runtime.container_status(listed.id, verbose=listed.state == "running")
        require_same(listed, owner_of(answer))
        self._listed.confirm(listed)
        return await self.take(answer, listed.sandbox_id)

    async def take(self, answer: ContainerAnswer, sandbox_id: str) -> ObservedContainer:
        """Cache a status for later listings."""
        observed = _observed_container(sandbox_id, answer)
        if (exit_ := observed.exit) is not None:
            observed = observed.ended_as(await self._complete_exit(exit_, answer, sandbox_id))
        self._containers[observed.id] = observed
        self._identities[observed.id] = owner_of(answer)
        return observed

    async def _complete_exit(self, exit_: Exit, answer: ContainerAnswer, sandbox_id: str) -> Exit:
        """Complete an exit that the runtime reports by the exit that the node saw, and by the termination message.

        A guess of the runtime about the exit is dropped. Its reason is replaced if the shim has died, which makes it
        doubtful.
        """
        exit_ = without_guess(exit_)
        if self.exits is not None:
            exit_ = await self.exits.complete(exit_)
            if self.exits.is_doubtful(exit_) and not await self._is_ready(sandbox_id):
                # The container's shim was killed: then the runtime reports 255 for any exit code.
                exit_ = replace(exit_, reason=UNKNOWN_TO_RUNTIME)
        if not wants_message(answer):
            return exit_
        uid, made_at = answer.labels.get(names.POD_UID_LABEL, ""), answer.container.created_at
        reading = partial(termination_message, answer, exit_, partial(self._withholds, uid, made_at))
        try:
            async with asyncio.timeout(_MESSAGE_SECONDS):
                said = await self._threads.run(uid, DiskWork.READ, reading)
        except (TimeoutError, TooManySilent):
            said = "Error on reading termination log: its disk does not answer"
        return replace(exit_, message=said)

    async def _is_ready(self, sandbox_id: str) -> bool:
        """Return whether a sandbox is ready, so that its shim is alive."""
        try:
            return (await self._runtime.pod_sandbox_status(sandbox_id)).state == "SANDBOX_READY"
        except NotFound:
            return False

    def forget_all_but(self, sandboxes: AbstractSet[str], containers: AbstractSet[str]) -> None:
        """Drop all statuses but those of the objects with these ids."""
        self._sandboxes = {id: known for id, known in self._sandboxes.items() if id in sandboxes}
        self._containers = {id: known for id, known in self._containers.items() if id in containers}
        self._identities = {
            id: identity for id, identity in self._identities.items() if id in sandboxes or id in containers
        }


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
    """Return a record for each item, from the cache or by a call; items that are gone from the runtime are left out."""

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
    """Return the container of a runtime's answer, with the values of its annotations."""
    return answer.container.model_copy(
        update={
            "sandbox_id": sandbox_id,
            "hash": word(answer.annotations.get(names.CONTAINER_HASH_ANNOTATION, "")),
            "incarnation": word(answer.annotations.get(names.INCARNATION_ANNOTATION, "")),
        }
    )
