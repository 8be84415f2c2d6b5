"""``syncpod fleet exec`` and ``attach``: run a command in a container on any node of the fleet, or attach to it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.commands.exec import Stdin, Tty, has_terminal, write_ours
from syncpod.cli.failure import BadInput
from syncpod.cli.input.options import Container, Namespace, OfNode, StateDir
from syncpod.cli.streams import interrupts

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.messages.fleet import FleetNodeView

PodName = Annotated[str, typer.Argument(metavar="POD", hidden=True, show_default=False)]


def exec_(
    pod: PodName,
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", hidden=True, show_default=False)] = None,
    namespace: Namespace = "default",
    node: OfNode = "",
    container: Container = "",
    stdin: Stdin = False,
    tty: Tty = False,
    state_dir: StateDir = "",
) -> None:
    """Run a command in a container on any node of the fleet, and exit with its exit code.

    If the node listens (`join --listen`), the command runs over the node's own endpoint, and may have a terminal.
    Otherwise it goes through the node's polls, without a terminal. A node never runs it twice. If the node falls silent
    before it has answered, the command may have been run. `deployment/web` means one of the Deployment's pods.
    """
    if not command:
        raise BadInput(f"say what to run: syncpod fleet exec {pod} -- COMMAND")
    _reach("exec", pod, ["--", *command], namespace, node, container, state_dir, stdin=stdin, tty=tty)


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
    _reach("attach", pod, [], namespace, node, container, state_dir, stdin=stdin, tty=tty)


def _reach(
    verb: str,
    pod: str,
    rest: Sequence[str],
    namespace: str,
    node: str,
    container: str,
    state_dir: str,
    *,
    stdin: bool,
    tty: bool,
) -> None:
    """Have the pod's node run `exec` or `attach`, with our input and terminal if they are asked for."""
    from syncpod.cli.streams import terminal
    from syncpod.cli.temporal import fleet
    from syncpod.cli.temporal.fleet_pods import find_pod, kind_and_name

    kind_and_name([pod])
    tty = tty and has_terminal(stdin=stdin)
    flags = [f"--namespace={namespace}", *([f"--container={container}"] if container else [])]
    flags += [flag for flag, is_given in (("--stdin", stdin), ("--tty", tty)) if is_given]
    source = terminal.our_input() if stdin else -1

    async def work(client: Client) -> int:
        found = await find_pod(client, [pod], namespace, node)
        asked = [verb, found.name, *flags, *rest]
        if verb == "attach" or tty:
            return await _directly(found.node, asked, state_dir, source, tty=tty)
        from syncpod.cli.fleet_remote_commands import run_there

        given = terminal.read(source) if stdin else None
        return await run_there(client, found.node, asked, stdin=given, write=write_ours, state_dir=state_dir)

    raise typer.Exit(fleet.run(work, state_dir=state_dir))


async def _directly(node: FleetNodeView, asked: Sequence[str], state_dir: str, source: int, *, tty: bool) -> int:
    """Run a command over the node's endpoint, with our input if there is a `source`, and with our terminal."""
    from syncpod.cli.fleet_endpoint import to_endpoint
    from syncpod.cli.streams import terminal

    async with to_endpoint(state_dir, node, "a terminal" if tty else f"`{asked[0]}`") as way:
        with terminal.raw(source) if tty else contextlib.nullcontext():
            return await way.run(
                asked,
                write=write_ours,
                stdin=terminal.read(source) if source >= 0 else None,
                sizes=terminal.sizes(source) if tty else None,
                term=os.environ.get("TERM", ""),
            )
