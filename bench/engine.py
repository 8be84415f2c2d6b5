"""The engine's side: applies, watches and deletes pods as the ``syncpod`` command does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowHandle

from syncpod.cli.temporal.pod_apply import apply_pod
from syncpod.messages.identity import pod_workflow_id
from syncpod.pod import Pod

_QUERY = timedelta(seconds=10)
_PAUSE_SECONDS = 0.005
PATIENCE_SECONDS = 90.0


class Engine:
    """The pods of one node, through their workflows."""

    def __init__(self, client: Client, node: str) -> None:
        """Apply to the worker that serves `node`."""
        self._client = client
        self._node = node

    def handle(self, name: str) -> WorkflowHandle[Any, Any]:
        """Return the handle of a pod's workflow."""
        return self._client.get_workflow_handle(pod_workflow_id("default", name))

    async def apply(self, pod: Pod) -> None:
        """Apply a pod, and wait until its workflow has accepted it. Raises RuntimeError if the worker is away."""
        applied = await apply_pod(self._client, pod, node=self._node, has_attributes=True)
        if applied.silence:
            raise RuntimeError(f"the worker of {self._node} does not answer")

    async def until_running(self, name: str, *, restarts: int = 0) -> float:
        """Return when a query first showed the pod as Running, by `time.perf_counter`. Raises TimeoutError.

        All its containers must have `restarts` restarts.
        """
        return await self.until(name, lambda status: _is_running(status, restarts))

    async def until_waiting(self, name: str, reason: str) -> None:
        """Wait until a container's state is waiting, with this reason. Raises TimeoutError."""

        def waits(status: Mapping[str, Any]) -> bool:
            states = [container["state"] for container in status.get("containerStatuses", ())]
            return any(state.get("waiting", {}).get("reason") == reason for state in states)

        await self.until(name, waits)

    async def until(self, name: str, condition: Callable[[Mapping[str, Any]], bool]) -> float:
        """Return when a query of the pod's status first met the condition. Raises TimeoutError."""
        handle = self.handle(name)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                answer: Mapping[str, Any] = await handle.query("pod", rpc_timeout=_QUERY)
                if condition(answer.get("status", {})):
                    return time.perf_counter()
                await asyncio.sleep(_PAUSE_SECONDS)

    async def container_id(self, name: str) -> str:
        """Return the runtime's id of the pod's only container, from the pod's status."""
        answer: Mapping[str, Any] = await self.handle(name).query("pod", rpc_timeout=_QUERY)
        (container,) = answer["status"]["containerStatuses"]
        return str(container["containerID"]).partition("://")[2]

    async def delete(self, name: str) -> None:
        """Delete the pod, with its own grace period."""
        await self.handle(name).signal("delete_pod", {})

    async def until_ended(self, name: str) -> float:
        """Return when the pod's workflow had completed. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.handle(name).result()
        return time.perf_counter()

    async def clear(self, *pod_names: str) -> None:
        """Delete pods and wait until nothing is left of them."""
        await together(self.delete(name) for name in pod_names)
        await together(self.until_ended(name) for name in pod_names)

    async def history_length(self, name: str) -> int:
        """Return how many events the history of the pod's workflow has."""
        return (await self.handle(name).describe()).history_length


async def together(works: Iterable[Awaitable[object]]) -> None:
    """Await all of them concurrently; raises the first error after all have ended."""
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _is_running(status: Mapping[str, Any], restarts: int) -> bool:
    containers = status.get("containerStatuses", ())
    return status.get("phase") == "Running" and all(
        "running" in container["state"] and container["restartCount"] == restarts for container in containers
    )
