"""``syncpod exec``: run a command in a container."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.options import Container, InnerCommand, Namespace, PodName
from syncpod.cli.streams.own_terminal import has_terminal

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
    name = pod_name([pod])
    if not command:
        raise BadInput(f"say what to run: syncpod exec {name} -- COMMAND")
    tty = tty and has_terminal(stdin=stdin)

    from syncpod.cli.actions.exec import run_command

    raise typer.Exit(run_command(namespace, name, container, command, stdin=stdin, tty=tty))
