"""Runs commands in containers, and passes our input, output and terminal on."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from syncpod.cli.failure import Failure
from syncpod.cli.machine.containers import chosen_container, running_instance
from syncpod.cli.machine.runtime_client import runtime_of, unanswered
from syncpod.cli.node_api import reached_pod
from syncpod.cli.streams import terminal
from syncpod.cli.streams.command_streams import Output, stream
from syncpod.cri.errors import CriError, TransportFault

if TYPE_CHECKING:
    from syncpod.cli.machine.containers import ContainerInstance
    from syncpod.cli.streams.command_streams import Write
    from syncpod.cri.client import CriClient
    from syncpod.pod import Pod


def run_command(namespace: str, pod: str, container: str, command: Sequence[str], *, stdin: bool, tty: bool) -> int:
    """Run a command in a container of a pod ("" = the default one), and return its exit code.

    With `stdin` it reads our input, and with `tty` it has our terminal. Raises BadInput, and Failure.
    """
    return asyncio.run(_run(reached_pod(namespace, pod), container, command, stdin=stdin, tty=tty))


async def _run(pod: Pod, container: str, command: Sequence[str], *, stdin: bool, tty: bool) -> int:
    chosen = chosen_container(pod, container)
    instance = running_instance(pod, chosen)
    async with runtime_of(pod) as runtime:
        return await lend(partial(run_in, runtime, instance, chosen, command), stdin=stdin, tty=tty)


async def lend(run: Callable[..., Awaitable[int]], *, stdin: bool, tty: bool) -> int:
    """Call `run` with our streams, and return its exit code. Raises BadInput if our input is closed.

    `run` gets `write` for our output, and `stdin` and the terminal's `sizes`, which are None if not requested. With
    `tty`, our terminal is in raw mode meanwhile: it passes on each key.
    """
    source = terminal.our_input() if stdin else -1
    with terminal.raw(source) if tty else contextlib.nullcontext():
        return await run(
            stdin=terminal.read(source) if stdin else None,
            write=write_ours,
            sizes=terminal.sizes(source) if tty else None,
        )


async def run_in(
    runtime: CriClient,
    instance: ContainerInstance,
    container: str,
    command: Sequence[str],
    *,
    stdin: AsyncIterator[bytes] | None,
    write: Write,
    sizes: AsyncIterator[tuple[int, int]] | None = None,
) -> int:
    """Run a command in a container and return its exit code; with `sizes` it has a terminal.

    Raises Failure if the runtime refuses or cannot be reached, or the stream breaks (`StreamBroken`).
    """
    tty = sizes is not None
    try:
        url = await runtime.exec(
            instance.id, tuple(command), tty=tty, stdin=stdin is not None, stdout=True, stderr=not tty
        )
    except TransportFault as fault:
        raise unanswered(fault) from None
    except CriError as error:
        raise Failure(f'the runtime refuses to run a command in container "{container}": {error.message}') from None
    return await stream(url, stdin=stdin, sizes=sizes, write=write, tty=tty)


async def write_ours(which: Output, data: bytes) -> None:
    """Write a command's output to our own."""
    await terminal.write((sys.stderr if which is Output.STDERR else sys.stdout).fileno(), data)
