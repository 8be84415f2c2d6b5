"""Copies files to and from containers, with the ``tar`` of each container."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from syncpod.cli.actions.exec import run_in
from syncpod.cli.machine.containers import chosen_container, running_instance
from syncpod.cli.machine.runtime_client import runtime_of
from syncpod.cli.node_api import reached_pod
from syncpod.cli.streams.tar_copy import Copying

if TYPE_CHECKING:
    from syncpod.cli.input.copy_locations import CopyLocation
    from syncpod.cli.streams.command_streams import Write
    from syncpod.pod import Pod


def copy_files(
    source: CopyLocation, destination: CopyLocation, namespace: str, container: str, *, preserve: bool, retries: int
) -> None:
    """Copy between this machine and a pod, one of them the source; `namespace` is that of a pod without one.

    Raises BadInput for a container that the pod lacks, and Failure.
    """
    inside = source if source.pod else destination
    pod = reached_pod(inside.namespace or namespace, inside.pod)
    asyncio.run(_copy(pod, source, destination, container, preserve=preserve, retries=retries))


async def _copy(
    pod: Pod, source: CopyLocation, destination: CopyLocation, container: str, *, preserve: bool, retries: int
) -> None:
    """Copy between this machine and a container of the pod. Raises BadInput, Failure."""
    chosen = chosen_container(pod, container)
    instance = running_instance(pod, chosen)
    async with runtime_of(pod) as runtime:

        async def run(command: Sequence[str], stdin: AsyncIterator[bytes] | None, write: Write) -> int:
            return await run_in(runtime, instance, chosen, command, stdin=stdin, write=write)

        await copied(run, f'container "{chosen}"', source, destination, preserve=preserve, retries=retries)


async def copied(
    run: Callable[..., Awaitable[int]],
    container: str,
    source: CopyLocation,
    destination: CopyLocation,
    *,
    preserve: bool,
    retries: int = 0,
) -> None:
    """Copy between this machine and a container, in which `run` runs commands. Raises Failure.

    `container` names it in messages, as `container "main"`.
    """
    copying = Copying(run, container)
    if source.pod:
        await copying.out_of(source.path, Path(destination.path), retries=retries)
    else:
        await copying.into(Path(source.path), destination.path, preserve=preserve)
