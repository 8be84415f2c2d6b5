"""``syncpod fleet cp``: copy files to and from containers, on whichever node of the fleet they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.actions.cp import copied
from syncpod.cli.commands.cp import NoPreserve
from syncpod.cli.input.copy_locations import copy_location, require_one_here
from syncpod.cli.input.options import Container, Namespace, OfNode, StateDir

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.streams.command_streams import Write


def cp(
    source: Annotated[str, typer.Argument(metavar="SRC", hidden=True, show_default=False)],
    destination: Annotated[str, typer.Argument(metavar="DST", hidden=True, show_default=False)],
    namespace: Namespace = "default",
    node: OfNode = "",
    container: Container = "",
    no_preserve: NoPreserve = False,
    state_dir: StateDir = "",
) -> None:
    """Copy files and directories to and from containers, on whichever node of the fleet they are.

    As with `syncpod cp`, one of SRC and DST is a local path, and the other is POD:PATH or NAMESPACE/POD:PATH. The
    container needs `tar`.
    """
    from syncpod.cli.fleet_remote_commands import run_there
    from syncpod.cli.temporal import fleet
    from syncpod.cli.temporal.fleet_pods import find_pod

    ends = copy_location(source), copy_location(destination)
    require_one_here(*ends, no_preserve=no_preserve, retries=None)
    inside = ends[0] if ends[0].pod else ends[1]
    where = inside.namespace or namespace
    flags = [f"--namespace={where}", *([f"--container={container}"] if container else [])]

    async def work(client: Client) -> None:
        found = await find_pod(client, [inside.pod], where, node)

        async def run(command: Sequence[str], stdin: AsyncIterator[bytes] | None, write: Write) -> int:
            words = ["exec", found.name, *flags, *(["--stdin"] if stdin is not None else []), "--", *command]
            return await run_there(client, found.node, words, stdin=stdin, write=write, state_dir=state_dir, typed="cp")

        await copied(run, container or found.name, *ends, preserve=not no_preserve)

    fleet.run(work, state_dir=state_dir)
