"""Measures when something happened in the runtime, by one loop of listings for both the engine and the bare calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from protos.cri.v1 import api_pb2 as cri
from syncpod.translation import names
from tests.runtimes.bare import BareCri

PAUSE_SECONDS = 0.003
"""The pause between listings: a change of one pod is seen at most this late, plus one listing (under 1 ms)."""
PAUSE_SECONDS_OF_EACH = 0.0005
"""A further pause for each listed container, since listings of a crowd take CPU time from it. Without this pause, the
bare calls started a hundred pods in 12.3 and 12.6 s; with it, in 10.0 and 10.9 s."""


@dataclass(frozen=True)
class Listing:
    """A listing of the runtime, by pod name and container name."""

    containers: Mapping[str, Mapping[str, tuple[cri.Container, ...]]] = field(default_factory=dict)
    sandboxes: Mapping[str, tuple[cri.PodSandbox, ...]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of containers."""
        return sum(len(instances) for by_name in self.containers.values() for instances in by_name.values())

    def running(self, pod: str, container: str = "main") -> str:
        """Return the id of the pod's running container of that name; "" if none runs."""
        return self._in_state(pod, container, cri.CONTAINER_RUNNING)

    def exited(self, pod: str, container: str = "main") -> str:
        """Return the id of an exited instance of it; "" if there is none."""
        return self._in_state(pod, container, cri.CONTAINER_EXITED)

    def stopped(self, pod: str) -> bool:
        """Say whether nothing of the pod runs, its sandbox included."""
        ready = any(sandbox.state == cri.SANDBOX_READY for sandbox in self.sandboxes.get(pod, ()))
        alive = (each.state == cri.CONTAINER_RUNNING for some in self.containers.get(pod, {}).values() for each in some)
        return not ready and not any(alive)

    def gone(self, pod: str) -> bool:
        """Say whether nothing of the pod is left."""
        return not self.sandboxes.get(pod) and not self.containers.get(pod)

    def _in_state(self, pod: str, container: str, state: int) -> str:
        instances = self.containers.get(pod, {}).get(container, ())
        return next((each.id for each in instances if each.state == state), "")


Condition = Callable[[Listing], bool]


class Watch:
    """Lists the runtime's containers every few milliseconds while a caller waits; `async with` ends it."""

    def __init__(self, bare: BareCri) -> None:
        """List with these calls."""
        self._bare = bare
        self._waiting: list[tuple[Condition, asyncio.Future[float]]] = []
        self._wanted = asyncio.Event()
        self._loop = asyncio.create_task(self._run(), name="watch")

    async def until(self, condition: Condition, *, patience: float = 60.0) -> float:
        """Return when a listing first met the condition, by `time.perf_counter`. Raises TimeoutError."""
        met: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append((condition, met))
        self._wanted.set()
        async with asyncio.timeout(patience):
            await asyncio.wait((met, self._loop), return_when=asyncio.FIRST_COMPLETED)
        if not met.done():
            self._loop.result()  # raises the loop's error
        return met.result()

    async def __aenter__(self) -> Self:
        """Return the watch; nothing is listed until a caller waits."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the loop."""
        self._loop.cancel()
        await asyncio.gather(self._loop, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            listing = await self._list()
            now = time.perf_counter()
            self._waiting = [(condition, met) for condition, met in self._waiting if not met.done()]
            for condition, met in self._waiting:
                if condition(listing):
                    met.set_result(now)
            if all(met.done() for _, met in self._waiting):
                self._wanted.clear()
            else:
                await asyncio.sleep(PAUSE_SECONDS + PAUSE_SECONDS_OF_EACH * listing.size)

    async def _list(self) -> Listing:
        """List containers before sandboxes, so that a container whose sandbox is removed meanwhile still counts."""
        listed = await self._bare.runtime.ListContainers(cri.ListContainersRequest())
        containers: dict[str, dict[str, tuple[cri.Container, ...]]] = {}
        for container in listed.containers:
            of_pod = containers.setdefault(container.labels[names.POD_NAME_LABEL], {})
            name = container.metadata.name
            of_pod[name] = (*of_pod.get(name, ()), container)
        sandboxes: dict[str, tuple[cri.PodSandbox, ...]] = {}
        for sandbox in (await self._bare.runtime.ListPodSandbox(cri.ListPodSandboxRequest())).items:
            sandboxes[sandbox.metadata.name] = (*sandboxes.get(sandbox.metadata.name, ()), sandbox)
        return Listing(containers, sandboxes)
