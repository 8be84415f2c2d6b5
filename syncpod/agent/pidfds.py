"""Hears that a container's process has ended when it ends, some 50 ms before the runtime says so.

A pidfd of each running container's first process and of each pause process becomes readable at its exit, whoever its
parent is, even while the runtime is down. It only wakes: the pod is then listed until the runtime says so too, and what
is missed the relist finds. How a container has ended the kernel says as well (:mod:`syncpod.kernel.pidfd_info`), and it
is noted for the case that the runtime will not know. No workflow is told before the runtime answers again: nothing can
be done about an end without it, and it has to be asked what else has happened.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import chain, repeat
from pathlib import Path

from syncpod.cri.errors import CriError
from syncpod.kernel.pidfd_info import exit_code, tells_exits
from syncpod.lifecycle.observed import ObservedPod
from syncpod.node.reader import PID_NOT_SAID

log = logging.getLogger(__name__)

PidOf = Callable[[str], Awaitable[int]]
"""The pid of a running container (or sandbox) by its id; 0 if it does not run, PID_NOT_SAID if the runtime does not say
it. Raises CriError."""
Exited = Callable[[str, str], None]
"""Told the pod's uid and the container's or sandbox's id, once for each."""
Ended = Callable[[str, int, datetime], None]
"""Told a container's id, its exit code, and when its end was heard."""

SANDBOX_DELAY_SECONDS = 2.0
"""How long after a sandbox was first seen its process is asked for: a slow question, which would hold up the start of
its containers. A pause process hardly ever ends before, and the relist sees it if it does."""

_PROC = Path("/proc")
_REAPED_AFTER = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)
"""Seconds between the questions how a process has ended, of which the kernel says nothing until its parent has taken
note; then one each second, for a parent that hangs."""


KERNEL_IS_SILENT = (
    "this kernel does not say by pidfd how a process has ended (Linux 6.15 does): "
    "how a container ends while its runtime is down may stay unknown"
)


class Pidfds:
    """The pidfds of one node, kept by `watch` to what runs. All methods belong to one event loop."""

    def __init__(
        self,
        exited: Exited,
        *,
        container_pid: PidOf,
        sandbox_pid: PidOf,
        ended: Ended | None = None,
        sandbox_delay_seconds: float = SANDBOX_DELAY_SECONDS,
    ) -> None:
        """Call `exited` at each exit, or when there is nothing to listen to since the runtime says it has ended.

        Call `ended` with how a container has ended that was listened to, where the kernel says it.
        """
        self._exited = exited
        self._ended = ended
        if ended is not None and not tells_exits():
            self._ended = None
            log.info("%s", KERNEL_IS_SILENT)
        self._container_pid = container_pid
        self._sandbox_pid = sandbox_pid
        self._sandbox_delay = sandbox_delay_seconds
        self._running: dict[str, dict[str, _Listener]] = {}

    def watch(self, listing: ObservedPod) -> None:
        """Watch what runs in the pod, and nothing else of it. Returns at once.

        A container's process is asked for only where the listing does not have it.
        """
        containers = {container.id: container.pid for container in listing.containers if container.state == "running"}
        sandboxes = {sandbox.id for sandbox in listing.sandboxes if sandbox.ready}
        watched = self._running.setdefault(listing.uid, {})
        for id_ in [id_ for id_ in watched if id_ not in containers and id_ not in sandboxes]:
            watched.pop(id_).close()

        def exited(id_: str) -> None:
            self._exited(listing.uid, id_)

        for id_ in sorted(sandboxes):
            if id_ not in watched:
                watched[id_] = _Listener(id_, self._sandbox_pid, exited, delay_seconds=self._sandbox_delay)
        for id_ in sorted(containers):
            if id_ not in watched:
                watched[id_] = _Listener(id_, self._container_pid, exited, ended=self._ended, pid=containers[id_])
        if not watched:
            del self._running[listing.uid]

    def listening(self) -> frozenset[str]:
        """Ids of the containers and sandboxes whose exit would be heard now."""
        return frozenset(id_ for watched in self._running.values() for id_, it in watched.items() if it.is_open)

    def close(self) -> None:
        """Watch nothing any more."""
        for watched in self._running.values():
            for listener in watched.values():
                listener.close()
        self._running.clear()


class _Listener:
    """Listens to one process, and calls `exited` once. It stays, deaf, until the runtime too says that it has ended."""

    def __init__(
        self,
        id_: str,
        pid_of: PidOf,
        exited: Callable[[str], None],
        *,
        ended: Ended | None = None,
        pid: int = 0,
        delay_seconds: float = 0.0,
    ) -> None:
        """Open after the delay; `pid` is what the process was when it was listed, 0 = not said."""
        self._id = id_
        self._pid_of = pid_of
        self._exited = exited
        self._ended = ended
        self._pidfd = -1
        self._asking: asyncio.Task[None] | None = None
        self._opening = asyncio.create_task(self._open(pid, delay_seconds), name=f"pidfd {id_}")

    @property
    def is_open(self) -> bool:
        return self._pidfd >= 0

    def close(self) -> None:
        self._opening.cancel()
        if self._asking is not None:
            self._asking.cancel()
        if self.is_open:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    async def _open(self, pid: int, delay_seconds: float) -> None:
        await asyncio.sleep(delay_seconds)
        try:
            pid = pid or await self._pid_of(self._id)
            if pid == PID_NOT_SAID:
                return  # such as a simulated one: relisting finds its exit
            if pid == 0:
                self._exited(self._id)
                return
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._exited(self._id)
            return
        except (CriError, OSError) as error:
            log.info("process of %s cannot be watched, relisting finds its exit: %s", self._id, error)
            return
        try:
            is_it = _is_in_cgroup_of(pid, self._id) or await self._pid_of(self._id) == pid
        except CriError:
            is_it = False
        except asyncio.CancelledError:
            os.close(pidfd)
            raise
        if not is_it:
            os.close(pidfd)
            self._exited(self._id)
            return
        self._pidfd = pidfd
        asyncio.get_running_loop().add_reader(pidfd, self._heard)

    def _heard(self) -> None:
        pidfd, self._pidfd = self._pidfd, -1
        asyncio.get_running_loop().remove_reader(pidfd)
        if self._ended is None:
            os.close(pidfd)
        else:
            self._asking = asyncio.create_task(_ask(pidfd, self._id, self._ended), name=f"how {self._id} ended")
            # Closed so, and not by the task, since one that is cancelled before it begins does nothing.
            self._asking.add_done_callback(lambda _: os.close(pidfd))
        self._exited(self._id)


async def _ask(pidfd: int, id_: str, ended: Ended) -> None:
    """Ask how a process has ended, until the kernel says it."""
    at = datetime.now(UTC)
    try:
        for pause in chain(_REAPED_AFTER, repeat(1.0)):
            await asyncio.sleep(pause)
            code = exit_code(pidfd)
            if code is not None:
                ended(id_, code, at)
                return
    except OSError as error:
        log.info("the kernel does not say how %s has ended: %s", id_, error)


def _is_in_cgroup_of(pid: int, id_: str) -> bool:
    """Say whether the process is in a cgroup named after the container: proof that it is the one, for a file's price.

    Asked with its pidfd open: the pid that the runtime reported may have ended before, and have become another's. Where
    this proves nothing (a runtime that names cgroups otherwise), the runtime is asked again.
    """
    try:
        return id_ in (_PROC / str(pid) / "cgroup").read_text()
    except OSError:
        return False
