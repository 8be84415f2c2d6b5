"""``syncpod exec``: run a command in a container."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.options import Container, InnerCommand, Namespace, PodName
from syncpod.cli.node_api import reached_pod

if TYPE_CHECKING:
    from syncpod.cli.machine.containers import ContainerInstance
    from syncpod.cli.streams.command_streams import Output, Write
    from syncpod.cri.client import CriClient

Stdin = Annotated[bool, typer.Option("--stdin", "-i", help="Pass our input to the command.")]
Tty = Annotated[bool, typer.Option("--tty", "-t", help="Give it our terminal; needs --stdin.")]


def exec_(
    pod: PodName,
    command: InnerCommand = None,
    namespace: Namespace = "default",
    container: Container = "",
    stdin: Stdin = False,
    tty: Tty = False,
) -> None:
    """Run a command in a container; its exit code is passed on.

    With --stdin, the command reads our input. With --tty as well, it has our terminal, and every key goes to it, Ctrl-C
    included.

    \b
    Examples:
      syncpod exec web -- date
      syncpod exec -it web -c app -- sh
      syncpod exec -i web -- sh -c 'cat > /tmp/dump' < dump
    """  # noqa: D301
    import asyncio

    name = pod_name([pod])
    if not command:
        raise BadInput(f"say what to run: syncpod exec {name} -- COMMAND")
    tty = tty and has_terminal(stdin=stdin)

    found = reached_pod(namespace, name)

    async def run() -> int:
        from syncpod.cli.machine.containers import chosen_container, running_instance
        from syncpod.cli.machine.runtime_client import runtime_of

        chosen = chosen_container(found, container)
        instance = running_instance(found, chosen)
        async with runtime_of(found) as runtime:
            return await lend(partial(run_in, runtime, instance, chosen, command), stdin=stdin, tty=tty)

    raise typer.Exit(asyncio.run(run()))


def has_terminal(*, stdin: bool) -> bool:
    """Return whether our input is a terminal; if not, print a note that there is none, as kubectl does."""
    if stdin and sys.stdin is not None and sys.stdin.isatty():
        return True
    remark("Note: no terminal to give it (--tty needs --stdin and a terminal); continuing without one")
    return False


async def lend(run: Callable[..., Awaitable[int]], *, stdin: bool, tty: bool) -> int:
    """Call `run` with our streams, and return its exit code. Raises BadInput if our input is closed.

    `run` gets `write` for our output, and `stdin` and the terminal's `sizes`, which are None if not requested. With
    `tty`, our terminal is in raw mode meanwhile: it passes on each key.
    """
    from syncpod.cli.streams import terminal

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
    from syncpod.cli.machine.runtime_client import unanswered
    from syncpod.cli.streams.command_streams import stream
    from syncpod.cri.errors import CriError, TransportFault

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
    from syncpod.cli.streams import terminal
    from syncpod.cli.streams.command_streams import Output

    await terminal.write((sys.stderr if which is Output.STDERR else sys.stdout).fileno(), data)
