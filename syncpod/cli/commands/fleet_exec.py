"""``syncpod fleet exec`` and ``attach``: run a command in a container on any node of the fleet, or attach to it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import typer

from syncpod.cli.commands.exec import Stdin, Tty, has_terminal, lend
from syncpod.cli.failure import BadInput
from syncpod.cli.input.options import Container, InnerCommand, Namespace, OfNode, PodName, StateDir
from syncpod.cli.streams import interrupts

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.streams.command_streams import Write


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
    """Run `exec` or `attach` on the pod's node, with our input and terminal if requested; exit with its exit code."""
    from syncpod.cli.streams import terminal
    from syncpod.cli.temporal import fleet
    from syncpod.cli.temporal.fleet_pods import find_pod, kind_and_name

    kind_and_name([pod])
    tty = tty and has_terminal(stdin=stdin)
    flags = [f"--namespace={namespace}", *([f"--container={container}"] if container else [])]
    flags += [flag for flag, is_given in (("--stdin", stdin), ("--tty", tty)) if is_given]
    if stdin:
        terminal.our_input()  # raises if our input is closed, before a node is called

    async def work(client: Client) -> int:
        found = await find_pod(client, [pod], namespace, node)
        asked = [verb, found.name, *flags, *rest]

        if verb == "attach" or tty:
            from syncpod.cli.fleet_endpoint import to_endpoint

            async with to_endpoint(state_dir, found.node, "a terminal" if tty else f"`{verb}`") as way:
                return await lend(partial(way.run, asked, term=os.environ.get("TERM", "")), stdin=stdin, tty=tty)
        from syncpod.cli.fleet_remote_commands import run_there

        async def run(*, stdin: AsyncIterator[bytes] | None, write: Write, sizes: None) -> int:
            return await run_there(client, found.node, asked, stdin=stdin, write=write, state_dir=state_dir)

        return await lend(run, stdin=stdin, tty=False)

    raise typer.Exit(fleet.run(work, state_dir=state_dir))
