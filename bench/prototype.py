"""The durable floor: a prototype of a node that only makes its calls to the runtime through Temporal.

Each pod has a workflow. The sandbox, each container, the stop and the removal are its activities, like the product's
steps. The prototype uses Temporal in the fastest way: the first workflow task schedules the whole start, the activities
wait for each other in the worker, and their results return together. It has nothing else that a node needs: no
manifests, no reading of the runtime, no status, no probes, and no recovery (a retry would create everything twice).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from temporalio import activity, workflow
from temporalio.common import RetryPolicy

from protos.cri.v1 import api_pb2 as cri
from protos.cri.v1 import api_pb2_grpc as stubs

TASK_QUEUE: Final = "prototype"
PODS_AT_ONCE: Final = 2 * (os.cpu_count() or 1)
"""How many pods start, and how many end, at the same time: the product's limits."""
HELD_SECONDS: Final = 1.0
"""The longest time for which the result of one part of a start is held back, to be returned with the others."""
_LOOKS_EVERY: Final = 0.003
"""Seconds between polls of an init container's status, the same interval as for the bare calls."""
_ONCE: Final[dict[str, Any]] = {
    "start_to_close_timeout": timedelta(minutes=5),
    "retry_policy": RetryPolicy(maximum_attempts=1),
}


# --- messages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """A pod: the CRI configurations of its sandbox and containers, each in the form that `packed` returns."""

    sandbox: str
    init_containers: list[str]
    containers: list[str]
    again: str
    """The first container, restart 1."""
    grace_seconds: int


@dataclass(frozen=True)
class Begin:
    """One part of a pod's start. Part 0 makes the sandbox, and each other part a container."""

    sandbox: str
    number: int
    parts: int
    container: str = ""
    ends: bool = False
    """Whether it is an init container: the next part waits until it has exited with 0."""


@dataclass(frozen=True)
class Again:
    """A container to make and start in a sandbox."""

    sandbox_id: str
    sandbox: str
    container: str


@dataclass(frozen=True)
class End:
    """The sandbox and containers of a pod, for its stop and its removal."""

    sandbox_id: str
    running: list[str]
    containers: list[str]
    grace_seconds: int


def packed(message: cri.PodSandboxConfig | cri.ContainerConfig) -> str:
    """Return a CRI message in base64."""
    return base64.b64encode(message.SerializeToString()).decode()


# --- the workflow -----------------------------------------------------------------------------------------------------


@workflow.defn(name="PrototypePod")
class PrototypePod:
    """The life of one pod. Its signals are `exited` and `stop`."""

    def __init__(self) -> None:
        """Begin without any signal."""
        self._exits = 0
        self._stops = False

    @workflow.run
    async def run(self, plan: Plan) -> None:
        """Start the pod, restart its first container after each `exited`, and end it after `stop`."""
        sandbox_id, *ids = await asyncio.gather(*(_begin(part) for part in parts_of(plan)))
        main, others = len(plan.init_containers), ids[len(plan.init_containers) + 1 :]
        running = ids[main]
        while True:
            await workflow.wait_condition(lambda: self._stops or self._exits > 0)
            if self._stops:
                break
            self._exits -= 1
            again = Again(sandbox_id, plan.sandbox, plan.again)
            running = await workflow.execute_activity("start_again", again, result_type=str, **_ONCE)
            ids.append(running)
        end = End(sandbox_id, [running, *others], ids, plan.grace_seconds)
        # Two activities, as in the product: the result of the stop is in the history before anything is removed.
        await workflow.execute_activity("stop_pod", end, **_ONCE)
        await workflow.execute_activity("remove_pod", end, **_ONCE)

    @workflow.signal
    def exited(self) -> None:
        """Report that the first container has exited."""
        self._exits += 1

    @workflow.signal
    def stop(self) -> None:
        """End the pod."""
        self._stops = True


def parts_of(plan: Plan) -> list[Begin]:
    """Return the parts of a pod's start, in their order."""
    containers = [(each, True) for each in plan.init_containers] + [(each, False) for each in plan.containers]
    parts = 1 + len(containers)
    rest = (Begin(plan.sandbox, 1 + at, parts, each, ends) for at, (each, ends) in enumerate(containers))
    return [Begin(plan.sandbox, 0, parts), *rest]


def _begin(part: Begin) -> Coroutine[Any, Any, str]:
    name = "start_container" if part.container else "create_sandbox"
    return workflow.execute_activity(name, part, result_type=str, **_ONCE)


# --- the activities ---------------------------------------------------------------------------------------------------


class Places:
    """A semaphore with two priorities: a caller that can wait enters only if no other caller is waiting."""

    def __init__(self, number: int) -> None:
        """Begin with `number` free places."""
        self._free = number
        self._first: deque[asyncio.Future[None]] = deque()
        self._later: deque[asyncio.Future[None]] = deque()

    async def enter(self, *, can_wait: bool = False) -> None:
        """Wait for a place, and take it."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._later if can_wait else self._first).append(turn)
        self._call()
        await turn

    def leave(self) -> None:
        """Give a place back."""
        self._free += 1
        self._call()

    @contextlib.asynccontextmanager
    async def held(self, *, can_wait: bool = False) -> AsyncIterator[None]:
        """Hold a place for the block."""
        await self.enter(can_wait=can_wait)
        try:
            yield
        finally:
            self.leave()

    def _call(self) -> None:
        while self._free and (self._first or self._later):
            (self._first or self._later).popleft().set_result(None)
            self._free -= 1


@dataclass
class _Start:
    """A pod's start in this worker: the id that each part has made, "" if the part failed; `over` is set at the end."""

    ids: list[asyncio.Future[str]]
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Calls:
    """The activities, all calls to one runtime."""

    def __init__(self, runtime: stubs.RuntimeServiceAsyncStub) -> None:
        """Call `runtime`."""
        self._runtime = runtime
        self._starts: dict[str | None, _Start] = {}
        self._beginning = Places(PODS_AT_ONCE)
        self._ending = Places(PODS_AT_ONCE)

    @property
    def activities(self) -> Sequence[Callable[..., Any]]:
        """All activities."""
        return self.create_sandbox, self.start_container, self.start_again, self.stop_pod, self.remove_pod

    @activity.defn
    async def create_sandbox(self, part: Begin) -> str:
        """Run the sandbox, and return its id."""
        start = self._start_of(part)
        await self._beginning.enter()
        async with self._in_company(start, part):
            answer = await self._runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=_sandbox(part.sandbox)))
            start.ids[0].set_result(answer.pod_sandbox_id)
        return answer.pod_sandbox_id

    @activity.defn
    async def start_container(self, part: Begin) -> str:
        """Start a container once the previous part has ended, and return its id. Raises RuntimeError if that failed."""
        start = self._start_of(part)
        async with self._in_company(start, part):
            if not await start.ids[part.number - 1]:
                raise RuntimeError("the part of the start before this one has failed")
            made = await self._start(start.ids[0].result(), part.sandbox, part.container)
            if part.ends:
                await self._exited(made)
            start.ids[part.number].set_result(made)
        return made

    @activity.defn
    async def start_again(self, again: Again) -> str:
        """Make and start a container, and return its id."""
        async with self._beginning.held():
            return await self._start(again.sandbox_id, again.sandbox, again.container)

    @activity.defn
    async def stop_pod(self, end: End) -> None:
        """Stop the containers with grace, all at once, then the sandbox."""
        async with self._ending.held():
            requests = (cri.StopContainerRequest(container_id=each, timeout=end.grace_seconds) for each in end.running)
            await asyncio.gather(*(self._runtime.StopContainer(request) for request in requests))
            await self._runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=end.sandbox_id))

    @activity.defn
    async def remove_pod(self, end: End) -> None:
        """Remove the containers and the sandbox. Stops of other pods come first."""
        async with self._ending.held(can_wait=True):
            for each in end.containers:
                await self._runtime.RemoveContainer(cri.RemoveContainerRequest(container_id=each))
            await self._runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=end.sandbox_id))

    def _start_of(self, part: Begin) -> _Start:
        pod = activity.info().workflow_id
        if pod not in self._starts:
            loop = asyncio.get_running_loop()
            self._starts[pod] = _Start([loop.create_future() for _ in range(part.parts)])
        return self._starts[pod]

    @contextlib.asynccontextmanager
    async def _in_company(self, start: _Start, part: Begin) -> AsyncIterator[None]:
        """Run the block, then wait at most HELD_SECONDS for the end of the whole start.

        If the block fails, its part has the id "", and the next part fails too.
        """
        try:
            yield
        except BaseException:
            start.ids[part.number].set_result("")
            raise
        finally:
            if part.number == part.parts - 1:
                start.over.set()
                del self._starts[activity.info().workflow_id]
                self._beginning.leave()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HELD_SECONDS):
                await start.over.wait()

    async def _start(self, sandbox_id: str, sandbox: str, container: str) -> str:
        config = cri.ContainerConfig.FromString(base64.b64decode(container))
        created = await self._runtime.CreateContainer(
            cri.CreateContainerRequest(pod_sandbox_id=sandbox_id, config=config, sandbox_config=_sandbox(sandbox))
        )
        await self._runtime.StartContainer(cri.StartContainerRequest(container_id=created.container_id))
        return created.container_id

    async def _exited(self, container_id: str) -> None:
        """Wait for a container's exit. Raises RuntimeError if its exit code is not 0."""
        request = cri.ContainerStatusRequest(container_id=container_id)
        while True:
            status = (await self._runtime.ContainerStatus(request)).status
            if status.state == cri.CONTAINER_EXITED:
                break
            await asyncio.sleep(_LOOKS_EVERY)  # containerd 1.6 sends no events
        if status.exit_code:
            raise RuntimeError(f"{status.metadata.name} exited {status.exit_code}")


def _sandbox(text: str) -> cri.PodSandboxConfig:
    return cri.PodSandboxConfig.FromString(base64.b64decode(text))
