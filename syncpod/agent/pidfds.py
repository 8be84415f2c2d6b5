"""Notices that a container's process has exited, some 50 ms before the runtime reports it.

It holds a pidfd of each running container's first process and of each pause process. A pidfd becomes readable when its
process exits, even if the process is not a child of the worker, or the runtime is down. An exit only triggers reads:
the pod is listed until the runtime reports the exit too. The relist finds exits that were missed. The kernel also
reports the exit code (:mod:`syncpod.kernel.pidfd_info`), which is written to disk in case the runtime never receives
it. While the runtime does not answer, no workflow is signalled, since without the runtime no workflow could act on the
exit.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from syncpod.cri.errors import CriError
from syncpod.kernel.pidfd_info import exit_code_once_reaped, reports_exits
from syncpod.lifecycle.exit import DOUBTFUL_EXIT_CODE
from syncpod.lifecycle.observed import ObservedPod
from syncpod.node.reader import PID_UNREPORTED
from syncpod.node.seen_exits import SeenExits

log = logging.getLogger(__name__)

PidOf = Callable[[str], Awaitable[int]]
"""Returns the pid of a container or sandbox by its id; 0 if it does not run, PID_UNREPORTED if the runtime reports no
pids. Raises CriError."""
Exited = Callable[[str, str], None]
"""Called with the pod's UID and the id of the container or sandbox, once for each exit."""

SANDBOX_DELAY_SECONDS = 2.0
"""Seconds between the first listing of a sandbox and the call that returns its pid. The call is slow, and would delay
the start of the sandbox's containers. A pause process hardly ever exits earlier; if it does, the relist notices."""

_PROC = Path("/proc")

NO_EXIT_CODES = (
    "this kernel cannot report an exit code by pidfd (Linux 6.15 and later can): "
    "the exit code of a container that ends while its runtime is down may be lost"
)


class PidfdWatcher:
    """The pidfds of one node; `watch` updates them from a listing. All methods belong to one event loop."""

    def __init__(
        self,
        exited: Exited,
        *,
        container_pid: PidOf,
        sandbox_pid: PidOf,
        exits: SeenExits | None = None,
        sandbox_delay_seconds: float = SANDBOX_DELAY_SECONDS,
    ) -> None:
        """Call `exited` at each exit, and also if the process turns out to have exited before it could be watched.

        `exits` receives the exit code of each watched container, if the kernel reports exit codes.
        """
        self._exited = exited
        self._exits = exits
        if exits is not None and not reports_exits():
            self._exits = None
            log.info("%s", NO_EXIT_CODES)
        self._container_pid = container_pid
        self._sandbox_pid = sandbox_pid
        self._sandbox_delay = sandbox_delay_seconds
        self._running: dict[str, dict[str, _Listener]] = {}
        self._is_silent = False
        """Whether the runtime returned no pid at the last call, for instance because it simulates its pods. Then it is
        not called for further pids until a listing has one."""

    def watch(self, listing: ObservedPod) -> None:
        """Watch the pod's running containers and sandboxes, and no others. Returns at once.

        One exception: if the runtime lists a container as ended without a reliable exit code, its process may still
        run, or wait to be reaped. This process is watched as long as the container is listed. The runtime is called for
        a container's pid only if the listing lacks it.
        """
        containers = {container.id: container.pid for container in listing.containers if container.state == "running"}
        sandboxes = {sandbox.id for sandbox in listing.sandboxes if sandbox.ready}
        doubtful = {container.id for container in listing.containers if container.exit_code == DOUBTFUL_EXIT_CODE}
        watched = self._running.setdefault(listing.uid, {})
        for id_ in watched.keys() - containers.keys() - sandboxes - doubtful:
            watched.pop(id_).close()

        def exited(id_: str) -> None:
            self._exited(listing.uid, id_)

        if any(containers.values()):
            self._is_silent = False
        unknown = PID_UNREPORTED if self._is_silent else 0
        for id_ in sorted(sandboxes):
            if id_ not in watched:
                watched[id_] = _Listener(id_, self._sandbox_pid, exited, pid=unknown, delay_seconds=self._sandbox_delay)
        for id_ in sorted(containers):
            if id_ not in watched:
                pid = containers[id_] or unknown
                watched[id_] = _Listener(id_, self._pid_of_container, exited, exits=self._exits, pid=pid)
        if not watched:
            del self._running[listing.uid]

    async def _pid_of_container(self, id_: str) -> int:
        pid = await self._container_pid(id_)
        self._is_silent = pid == PID_UNREPORTED
        return pid

    def listening(self) -> frozenset[str]:
        """Return the ids of the containers and sandboxes that are being watched now."""
        return frozenset(id_ for watched in self._running.values() for id_, it in watched.items() if it.is_open)

    def sees_all(self) -> bool:
        """Say whether every running process is watched, or is about to be."""
        return not any(it.is_blind for watched in self._running.values() for it in watched.values())

    def close(self) -> None:
        """Stop watching everything."""
        for watched in self._running.values():
            for listener in watched.values():
                listener.close()
        self._running.clear()


class _Listener:
    """Watches one process, and calls `exited` once. Then it stays, inactive, until the runtime reports the exit too."""

    def __init__(
        self,
        id_: str,
        pid_of: PidOf,
        exited: Callable[[str], None],
        *,
        exits: SeenExits | None = None,
        pid: int = 0,
        delay_seconds: float = 0.0,
    ) -> None:
        """Open the pidfd after the delay.

        `pid` is the pid in the listing; 0 = call `pid_of`; PID_UNREPORTED = the runtime reports none, so watch nothing.
        """
        self._id = id_
        self._pid_of = pid_of
        self._exited = exited
        self._exits = exits
        self._pidfd = -1
        self.is_blind = False
        """Whether the process cannot be watched, so that only a listing will show its exit."""
        self._asking: asyncio.Task[None] | None = None
        self._opening: asyncio.Task[None] | None = None
        if pid == PID_UNREPORTED:
            self.is_blind = True
        else:
            self._opening = asyncio.create_task(self._open(pid, delay_seconds), name=f"pidfd {id_}")

    @property
    def is_open(self) -> bool:
        return self._pidfd >= 0

    def close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        if self._asking is not None:
            self._asking.cancel()
        if self.is_open:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
            if self._exits is not None:
                self._exits.give_up(self._id)

    async def _open(self, pid: int, delay_seconds: float) -> None:
        await asyncio.sleep(delay_seconds)
        try:
            pid = pid or await self._pid_of(self._id)
            if pid == PID_UNREPORTED:
                self.is_blind = True
                return  # for instance a simulated process, whose exit a relist finds
            if pid == 0:
                self._exited(self._id)
                return
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._exited(self._id)
            return
        except (CriError, OSError) as error:
            log.info("the process of %s cannot be watched, so its exit is found by relisting: %s", self._id, error)
            self.is_blind = True
            return
        try:
            is_its_process = _is_in_cgroup_of(pid, self._id) or await self._pid_of(self._id) == pid
        except CriError:
            is_its_process = False
        except asyncio.CancelledError:
            os.close(pidfd)
            raise
        if not is_its_process:
            os.close(pidfd)
            self._exited(self._id)
            return
        self._pidfd = pidfd
        if self._exits is not None:
            # Expect the exit from now on: after a shim was killed, the runtime lists exit code 255 before it kills the
            # container's processes.
            self._exits.expect(self._id)
        asyncio.get_running_loop().add_reader(pidfd, self._process_ended)

    def _process_ended(self) -> None:
        pidfd, self._pidfd = self._pidfd, -1
        asyncio.get_running_loop().remove_reader(pidfd)
        if self._exits is None:
            os.close(pidfd)
        else:
            self._ask_how(pidfd, self._exits)
        self._exited(self._id)

    def _ask_how(self, pidfd: int, exits: SeenExits) -> None:
        """Get the process's exit code from the kernel, in a task of its own."""
        self._asking = asyncio.create_task(_ask(pidfd, self._id, exits), name=f"how {self._id} ended")

        def over(_: asyncio.Task[None]) -> None:
            # The task itself does not do this: a task that is cancelled before it starts never runs its code.
            os.close(pidfd)
            exits.give_up(self._id)

        self._asking.add_done_callback(over)


async def _ask(pidfd: int, id_: str, exits: SeenExits) -> None:
    """Note the exit code of a process that has ended, once the kernel has it."""
    at = datetime.now(UTC)
    try:
        exits.note(id_, await exit_code_once_reaped(pidfd), at)
    except OSError as error:
        log.info("the kernel does not report the exit code of %s: %s", id_, error)


def _is_in_cgroup_of(pid: int, id_: str) -> bool:
    """Say whether the process is in a cgroup named after the container, which proves that it is the container's.

    Called with the pidfd open: the process may have exited since the runtime reported its pid, and the pid may have
    been reused. If False, for instance because the runtime names cgroups differently, the runtime is asked again.
    """
    try:
        return id_ in (_PROC / str(pid) / "cgroup").read_text()
    except OSError:
        return False
