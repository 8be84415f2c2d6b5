"""``syncpod attach``: connect to the streams of a container's own process."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.options import Container, Namespace, PodName
from syncpod.cli.streams.own_terminal import has_terminal


def attach_(
    pod: PodName,
    namespace: Namespace = "default",
    container: Container = "",
    stdin: Annotated[bool, typer.Option("--stdin", "-i", help="Pass our input to the container.")] = False,
    tty: Annotated[bool, typer.Option("--tty", "-t", help="Give it our terminal; needs --stdin.")] = False,
) -> None:
    """Show a running container's output, or type into it.

    This connects to the container's own process: it shows the output from now on, and with --stdin sends our input.
    The command ends when the container or our input ends. Ctrl-C leaves the container running, unless it has our
    terminal (--stdin --tty): then Ctrl-C goes to the container, like every other key.

    \b
    Examples:
      syncpod attach web
      syncpod attach -it shell -c app
      echo reload | syncpod attach -i web
    """  # noqa: D301
    name = pod_name([pod])
    tty = tty and has_terminal(stdin=stdin)

    from syncpod.cli.actions.attach import attach_to_pod

    raise typer.Exit(attach_to_pod(namespace, name, container, stdin=stdin, tty=tty))
