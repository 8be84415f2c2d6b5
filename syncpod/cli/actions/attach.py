"""Connects our input, output and terminal to those of a container's own process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from syncpod.cli.actions.exec import lend
from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.containers import chosen_container, running_instance
from syncpod.cli.machine.runtime_client import runtime_of, unanswered
from syncpod.cli.node_api import reached_pod
from syncpod.cli.streams import interrupts
from syncpod.cli.streams.command_streams import stream
from syncpod.cri.errors import CriError, TransportFault

if TYPE_CHECKING:
    from syncpod.cli.streams.command_streams import Write
    from syncpod.pod import Container as ContainerSpec
    from syncpod.pod import EphemeralContainer, Pod


def attach_to_pod(namespace: str, pod: str, container: str, *, stdin: bool, tty: bool) -> int:
    """Attach to a container of a pod ("" = the default one), as `attach` does. Raises BadInput, and Failure."""
    interrupts.enable()
    found = reached_pod(namespace, pod)
    instance = running_instance(found, chosen_container(found, container))
    return asyncio.run(attach(found, instance.id, stdin=stdin, tty=tty))


async def attach(pod: Pod, container_id: str, *, stdin: bool, tty: bool) -> int:
    """Connect our streams to a running container's, until it has ended or our input has; return 0.

    `container_id` is the runtime's, with or without its scheme. How the container ended is in the pod's status, not in
    the exit code (kubectl's attach.go, v1.36, also returns 0). With `tty`, the container gets our terminal; a note says
    if the container was made without one. Difference: input for a container that reads none is refused; kubectl drops
    it.

    Raises BadInput, and Failure if the runtime refuses or cannot be reached, or the stream breaks.
    """
    raw_id = container_id.rpartition("://")[2]
    container = _spec_of(pod, raw_id)
    if stdin and not container.stdin:
        raise BadInput(f'container "{container.name}" reads no input: its manifest does not set `stdin: true`')
    if tty and not container.tty:
        remark(f'Note: container "{container.name}" has no terminal (`tty: true`); continuing without one')
        tty = False
    async with runtime_of(pod) as runtime:
        try:
            # Requests the streams that the container was created with, whatever ours are, as the kubelet does.
            url = await runtime.attach(raw_id, tty=container.tty, stdin=stdin, stdout=True, stderr=not container.tty)
        except TransportFault as fault:
            raise unanswered(fault) from None
        except CriError as error:
            raise Failure(f'the runtime refuses to attach to container "{container.name}": {error.message}') from None
        if tty:
            remark("If you don't see a command prompt, try pressing enter.")

        async def run(*, stdin: Any, write: Write, sizes: AsyncIterator[tuple[int, int]] | None) -> int:
            redrawing = None if sizes is None else _redrawing(sizes)
            return await stream(url, stdin=stdin, sizes=redrawing, write=write, tty=container.tty)

        return await lend(run, stdin=stdin, tty=tty)


def _spec_of(pod: Pod, raw_id: str) -> ContainerSpec | EphemeralContainer:
    """Return the spec of the container whose instance has this runtime id. Raises Failure if there is none."""
    spec, status = pod.spec, pod.status
    statuses = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
    name = next((each.name for each in statuses if each.container_id.endswith(f"//{raw_id}")), None)
    for container in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers):
        if container.name == name:
            return container
    raise Failure(f'pod "{pod.metadata.name}" has no container {raw_id}')


async def _redrawing(sizes: AsyncIterator[tuple[int, int]]) -> AsyncIterator[tuple[int, int]]:
    """Yield another size before the first, so that full-screen programs redraw, as kubectl does."""
    first = True
    async for columns, rows in sizes:
        if first:
            first = False
            yield columns + 1, rows + 1
        yield columns, rows
