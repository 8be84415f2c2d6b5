"""``syncpod exec``: run a command in a container."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.options import Container, InnerCommand, Namespace, PodName
from syncpod.cli.node_api import reached_pod

if TYPE_CHECKING:
    pass

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

    from syncpod.cli.actions.exec import lend, run_in

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
