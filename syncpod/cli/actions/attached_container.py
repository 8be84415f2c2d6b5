"""Waits for the start of a container that a command has just requested, and follows the container until it ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncpod.api.views.text import printable
from syncpod.cli.actions.attach import attach
from syncpod.cli.actions.exec import write_ours
from syncpod.cli.console import remark, warn
from syncpod.cli.failure import Failure
from syncpod.cli.machine.containers import current_instance, status_of
from syncpod.cli.machine.runtime_client import runtime_of, unanswered
from syncpod.cli.streams.command_streams import NeverRan, Output, StreamBroken
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.pods import not_found
from syncpod.cri.errors import CriError, TransportFault
from syncpod.journal.records import NEVER_RAN
from syncpod.node.log_reading import LogUnreadable, read_log

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cri.client import CriClient
    from syncpod.pod import Pod

_POLL_SECONDS: Final = 0.1
_LOOKS_FOR_THE_END: Final = 20
"""How often the state of a container is read after its streams have ended, before it counts as still running."""
_UNDER_WAY: Final = ("", "ContainerCreating", "PodInitializing")
"""Waiting reasons of a container that will start without help."""


async def until_begun(client: Client, pod: Pod, container: str) -> Pod:
    """Return the pod once the container runs or has ended. Raises Failure with the reason if it does not start."""
    meta = pod.metadata
    while True:
        fetched = await TemporalPods(client).read(meta.namespace, meta.name)
        if fetched is None or (fetched.current and fetched.pod.metadata.uid != meta.uid):
            raise not_found(meta.name, meta.namespace)
        status = status_of(fetched.pod, container)
        state, ended = status.state, status.last_state.terminated
        if state.running is not None or state.terminated is not None or ended is not None:
            return fetched.pod
        if fetched.pod.metadata.deletion_timestamp is not None or fetched.pod.status.phase in ("Succeeded", "Failed"):
            raise Failure(f'pod "{meta.name}" ends: container "{container}" will not be started')
        if state.waiting is not None and state.waiting.reason not in _UNDER_WAY:
            why = ": ".join(part for part in (state.waiting.reason, state.waiting.message) if part)
            raise Failure(
                f'container "{container}" does not start: {why}\n'
                f"it stays in the pod, which tries again: `syncpod describe pod {meta.name}` shows its state, "
                f"and once it runs, `syncpod attach {meta.name} -c {container}` attaches"
            )
        await asyncio.sleep(_POLL_SECONDS)


async def stay(pod: Pod, name: str) -> int:
    """Follow a started container until it ends, or we are detached from it; return its exit code. Raises Failure.

    If it reads no input, or has ended already, its log is followed, so that no output is missed.
    """
    instance = current_instance(pod, name)
    containers = (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)
    container = next(each for each in containers if each.name == name)
    runs = status_of(pod, name).state.running is not None
    async with runtime_of(pod) as runtime:
        try:
            if not (container.stdin and runs and await _attach(runtime, pod, instance.id, tty=container.tty)):
                await _follow(runtime, instance.id)
            return await _outcome(runtime, pod, name, instance.id)
        except TransportFault as fault:
            raise unanswered(fault) from None
        except CriError as error:
            why = error.message or error.code
            raise Failure(f'the runtime does not report container "{name}": {why}') from None


async def _attach(runtime: CriClient, pod: Pod, container_id: str, *, tty: bool) -> bool:
    """Attach until the container or our input ends; return False if it had ended before. Raises Failure."""
    try:
        await attach(pod, container_id, stdin=True, tty=tty)
    except Failure as failure:
        begun = isinstance(failure, StreamBroken) and not isinstance(failure, NeverRan)
        if begun or (await runtime.container_status(container_id)).container.state == "running":
            raise
        return False
    return True


async def _follow(runtime: CriClient, container_id: str) -> None:
    """Print a container's log until the container has ended; nothing if it never ran, and so has no log."""

    async def runs() -> bool:
        try:
            return (await runtime.container_status(container_id)).container.state == "running"
        except CriError:
            return False

    path = Path((await runtime.container_status(container_id)).container.log_path)
    try:
        async for line in read_log(path, runs):
            await write_ours(Output(line.stream), line.text + b"\n")
    except FileNotFoundError:
        return
    except PermissionError:
        # Not BadInput: that would mean that nothing was done, but the container has been added to the pod.
        raise Failure(f"{path}: permission denied; run as root") from None
    except LogUnreadable as why:
        raise Failure(f"the container's log cannot be read: {why}: {path}") from None


async def _outcome(runtime: CriClient, pod: Pod, container: str, container_id: str) -> int:
    """Return a container's exit code; 0 if it keeps running, since we were detached from it."""
    for _ in range(_LOOKS_FOR_THE_END):
        status = (await runtime.container_status(container_id)).container
        if status.state != "running":
            if status.reason in NEVER_RAN and status.message:
                warn(f"container {container}: {printable(status.message)}")
            return status.exit_code
        await asyncio.sleep(_POLL_SECONDS)
    remark(f"The container keeps running: `syncpod attach {pod.metadata.name} -c {container}` attaches again.")
    return 0
