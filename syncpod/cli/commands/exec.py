"""``syncpod exec`` and ``syncpod fleet exec``: run a command in a container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.contexts import OnlyFleet
from syncpod.cli.input.fleet_names import kind_and_name
from syncpod.cli.input.options import Container, InnerCommand, Namespace, OfNode, PodName, StateDir
from syncpod.cli.streams.own_terminal import has_terminal


@dataclass(frozen=True)
class ExecOptions:
    """The options of `exec` and `fleet exec`."""

    pod: PodName
    command: InnerCommand = None
    namespace: Namespace = "default"
    node: OnlyFleet[OfNode] = ""
    container: Container = ""
    stdin: Annotated[bool, typer.Option("--stdin", "-i", help="Pass our input to the command.")] = False
    tty: Annotated[bool, typer.Option("--tty", "-t", help="Give it our terminal; needs --stdin.")] = False
    state_dir: OnlyFleet[StateDir] = ""


def exec_(given: ExecOptions) -> None:
    """Run a command in a container; its exit code is passed on.

    With --stdin, the command reads our input. With --tty as well, it has our terminal, and every key goes to it, Ctrl-C
    included.

    \b
    Examples:
      syncpod exec web -- date
      syncpod exec -it web -c app -- sh
      syncpod exec -i web -- sh -c 'cat > /tmp/dump' < dump
    """  # noqa: D301
    name = pod_name([given.pod])
    command = _command(given, f"exec {name}")
    tty = given.tty and has_terminal(stdin=given.stdin)

    from syncpod.cli.actions.exec import run_command

    raise typer.Exit(run_command(given.namespace, name, given.container, command, stdin=given.stdin, tty=tty))


def fleet_exec(given: ExecOptions) -> None:
    """Run a command in a container on any node of the fleet, and exit with its exit code.

    If the node listens (`join --listen`), the command runs over the node's own endpoint, and may have a terminal.
    Otherwise it goes through the node's polls, without a terminal. A node never runs it twice. If the node stops
    answering before the result has come, the command may have been run. `deployment/web` means one of the Deployment's
    pods.
    """
    kind_and_name([given.pod])
    command = _command(given, f"fleet exec {given.pod}")
    tty = given.tty and has_terminal(stdin=given.stdin)

    from syncpod.cli.actions.fleet_exec import FleetExec, run_remotely

    wanted = FleetExec(
        "exec", given.pod, given.namespace, given.node, given.container, command, stdin=given.stdin, tty=tty
    )
    raise typer.Exit(run_remotely(wanted, given.state_dir))


def _command(given: ExecOptions, typed: str) -> list[str]:
    """Return the command to run. Raises BadInput without one."""
    if not given.command:
        raise BadInput(f"say what to run: syncpod {typed} -- COMMAND")
    return given.command
