"""Removes the remains of a failed test from a runtime that other tests share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from syncpod.cri.errors import CriError, NotFound, Unimplemented
from syncpod.cri.port import CriRuntime


async def sweep(cri: CriRuntime, labels: Mapping[str, str]) -> None:
    """Remove every sandbox with these labels and its containers, in any state.

    One that resists does not hold up the others; the first error is raised when all have been tried.
    """
    sandboxes = await cri.list_pod_sandboxes(labels=labels)
    outcomes = await asyncio.gather(*(_remove(cri, sandbox.id) for sandbox in sandboxes), return_exceptions=True)
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


async def _remove(cri: CriRuntime, sandbox_id: str) -> None:
    for tries_left in (2, 1, 0):
        try:
            await _try_to_remove(cri, sandbox_id)
        except CriError:
            if not tries_left:
                raise
            await asyncio.sleep(0.5)  # its shim was just ending; at a second call the runtime knows that
        else:
            return


async def _try_to_remove(cri: CriRuntime, sandbox_id: str) -> None:
    with contextlib.suppress(NotFound):
        await cri.stop_pod_sandbox(sandbox_id)
    for container in await cri.list_containers(sandbox_id=sandbox_id):
        with contextlib.suppress(NotFound):
            await cri.stop_container(container.id, timeout_seconds=0)
        # A task that the runtime has lost sight of would keep the container from being removed.
        with contextlib.suppress(NotFound, Unimplemented):
            await cri.discard_task(container.id)
        with contextlib.suppress(NotFound):
            await cri.remove_container(container.id)
    with contextlib.suppress(NotFound, Unimplemented):
        await cri.discard_task(sandbox_id)
    with contextlib.suppress(NotFound):
        await cri.remove_pod_sandbox(sandbox_id)
