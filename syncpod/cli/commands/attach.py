"""``syncpod attach``: connect to the streams of a container's own process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.commands.exec import has_terminal
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.options import Container, Namespace, PodName
from syncpod.cli.node_api import reached_pod
from syncpod.cli.streams import interrupts

if TYPE_CHECKING:
    pass


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
    import asyncio

    from syncpod.cli.machine.containers import chosen_container, running_instance

    name = pod_name([pod])
    tty = tty and has_terminal(stdin=stdin)
    interrupts.enable()
    found = reached_pod(namespace, name)
    instance = running_instance(found, chosen_container(found, container))
    from syncpod.cli.actions.attach import attach

    raise typer.Exit(asyncio.run(attach(found, instance.id, stdin=stdin, tty=tty)))
