"""``syncpod attach`` and ``syncpod fleet attach``: connect to the streams of a container's own process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.contexts import OnlyFleet
from syncpod.cli.input.fleet_names import kind_and_name
from syncpod.cli.input.options import Container, Namespace, OfNode, PodName, StateDir
from syncpod.cli.streams import interrupts
from syncpod.cli.streams.own_terminal import has_terminal


@dataclass(frozen=True)
class AttachOptions:
    """The options of `attach` and `fleet attach`."""

    pod: PodName
    namespace: Namespace = "default"
    node: OnlyFleet[OfNode] = ""
    container: Container = ""
    stdin: Annotated[bool, typer.Option("--stdin", "-i", help="Pass our input to the container.")] = False
    tty: Annotated[bool, typer.Option("--tty", "-t", help="Give it our terminal; needs --stdin.")] = False
    state_dir: OnlyFleet[StateDir] = ""


def attach_(given: AttachOptions) -> None:
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
    name = pod_name([given.pod])
    tty = given.tty and has_terminal(stdin=given.stdin)

    from syncpod.cli.actions.attach import attach_to_pod

    raise typer.Exit(attach_to_pod(given.namespace, name, given.container, stdin=given.stdin, tty=tty))


def fleet_attach(given: AttachOptions) -> None:
    """Show the output of a running container on any node of the fleet, or type into it.

    This is `syncpod attach` over the node's own endpoint, so the node must listen (`join --listen`).
    """
    kind_and_name([given.pod])
    tty = given.tty and has_terminal(stdin=given.stdin)
    interrupts.enable()

    from syncpod.cli.actions.fleet_exec import FleetExec, run_remotely

    wanted = FleetExec("attach", given.pod, given.namespace, given.node, given.container, stdin=given.stdin, tty=tty)
    raise typer.Exit(run_remotely(wanted, given.state_dir))
