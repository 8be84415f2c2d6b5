"""``syncpod fleet exec`` and ``attach``: run a command in a container on any node of the fleet, or attach to it."""

from __future__ import annotations

import typer

from syncpod.cli.commands.exec import Stdin, Tty
from syncpod.cli.failure import BadInput
from syncpod.cli.input.fleet_names import kind_and_name
from syncpod.cli.input.options import Container, InnerCommand, Namespace, OfNode, PodName, StateDir
from syncpod.cli.streams import interrupts


def exec_(
    pod: PodName,
    command: InnerCommand = None,
    namespace: Namespace = "default",
    node: OfNode = "",
    container: Container = "",
    stdin: Stdin = False,
    tty: Tty = False,
    state_dir: StateDir = "",
) -> None:
    """Run a command in a container on any node of the fleet, and exit with its exit code.

    If the node listens (`join --listen`), the command runs over the node's own endpoint, and may have a terminal.
    Otherwise it goes through the node's polls, without a terminal. A node never runs it twice. If the node stops
    answering before the result has come, the command may have been run. `deployment/web` means one of the Deployment's
    pods.
    """
    if not command:
        raise BadInput(f"say what to run: syncpod fleet exec {pod} -- COMMAND")
    kind_and_name([pod])

    from syncpod.cli.actions.fleet_exec import FleetExec, run_remotely

    wanted = FleetExec("exec", pod, namespace, node, container, tuple(command), stdin=stdin, tty=tty)
    raise typer.Exit(run_remotely(wanted, state_dir))


def attach(
    pod: PodName,
    namespace: Namespace = "default",
    node: OfNode = "",
    container: Container = "",
    stdin: Stdin = False,
    tty: Tty = False,
    state_dir: StateDir = "",
) -> None:
    """Show the output of a running container on any node of the fleet, or type into it.

    This is `syncpod attach` over the node's own endpoint, so the node must listen (`join --listen`).
    """
    kind_and_name([pod])
    interrupts.enable()

    from syncpod.cli.actions.fleet_exec import FleetExec, run_remotely

    wanted = FleetExec("attach", pod, namespace, node, container, stdin=stdin, tty=tty)
    raise typer.Exit(run_remotely(wanted, state_dir))
