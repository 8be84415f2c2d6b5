"""``syncpod fleet exec`` and ``attach``: run a command in a container on any node of the fleet, or attach to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.cli.commands.exec import Stdin, Tty
from syncpod.cli.failure import BadInput
from syncpod.cli.input.options import Container, InnerCommand, Namespace, OfNode, PodName, StateDir
from syncpod.cli.streams import interrupts

if TYPE_CHECKING:
    pass


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
    from syncpod.cli.actions.fleet_exec import reach

    reach("exec", pod, ["--", *command], namespace, node, container, state_dir, stdin=stdin, tty=tty)


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
    interrupts.enable()
    from syncpod.cli.actions.fleet_exec import reach

    reach("attach", pod, [], namespace, node, container, state_dir, stdin=stdin, tty=tty)
