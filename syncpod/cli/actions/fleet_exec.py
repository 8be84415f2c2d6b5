"""The work of ``syncpod fleet exec`` and ``attach``: reach a container on any node of the fleet."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import typer

from syncpod.cli.actions.exec import lend
from syncpod.cli.fleet_endpoint import to_endpoint
from syncpod.cli.fleet_remote_commands import run_there
from syncpod.cli.streams import terminal
from syncpod.cli.streams.own_terminal import has_terminal
from syncpod.cli.temporal import fleet
from syncpod.cli.temporal.fleet_pods import find_pod, kind_and_name

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.streams.command_streams import Write


def reach(
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
            async with to_endpoint(state_dir, found.node, "a terminal" if tty else f"`{verb}`") as way:
                return await lend(partial(way.run, asked, term=os.environ.get("TERM", "")), stdin=stdin, tty=tty)

        async def run(*, stdin: AsyncIterator[bytes] | None, write: Write, sizes: None) -> int:
            return await run_there(client, found.node, asked, stdin=stdin, write=write, state_dir=state_dir)

        return await lend(run, stdin=stdin, tty=False)

    raise typer.Exit(fleet.run(work, state_dir=state_dir))
