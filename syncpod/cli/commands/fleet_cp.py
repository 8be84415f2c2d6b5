"""``syncpod fleet cp``: copy files to and from containers, on whichever node of the fleet they are."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.commands.cp import NoPreserve
from syncpod.cli.input.copy_locations import copy_location, require_one_here
from syncpod.cli.input.options import Container, Namespace, OfNode, StateDir


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
    ends = copy_location(source), copy_location(destination)
    require_one_here(*ends, no_preserve=no_preserve, retries=None)

    from syncpod.cli.actions.fleet_cp import FleetCopy, copy_files

    copy_files(FleetCopy(*ends, namespace, node, container, preserve=not no_preserve), state_dir)
