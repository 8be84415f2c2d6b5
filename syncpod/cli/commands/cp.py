"""``syncpod cp`` and ``syncpod fleet cp``: copy files to and from containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from syncpod.cli.input.contexts import OnlyFleet, OnlyNode
from syncpod.cli.input.copy_locations import CopyLocation, copy_location, require_one_here
from syncpod.cli.input.options import Container, Namespace, OfNode, StateDir


@dataclass(frozen=True)
class CpOptions:
    """The options of `cp` and `fleet cp`."""

    source: Annotated[str, typer.Argument(metavar="SRC", hidden=True, show_default=False)]
    destination: Annotated[str, typer.Argument(metavar="DST", hidden=True, show_default=False)]
    namespace: Namespace = "default"
    node: OnlyFleet[OfNode] = ""
    container: Container = ""
    no_preserve: Annotated[
        bool, typer.Option("--no-preserve", help="Into a container: do not keep owners and permissions.")
    ] = False
    retries: OnlyNode[
        Annotated[
            int | None,
            typer.Option(
                "--retries",
                metavar="N",
                help="Out of a container: how often to resume after a break; -1 = always.",
                show_default="0",
            ),
        ]
    ] = None
    state_dir: OnlyFleet[StateDir] = ""


def cp(given: CpOptions) -> None:
    """Copy files and directories to and from containers.

    One of SRC and DST is a path here, the other POD:PATH or NAMESPACE/POD:PATH. Copying into a container: if DST is a
    directory, SRC becomes an entry of it. Copying out: the contents of a directory go into DST, which is created if it
    is missing. The container needs `tar`. Entries that would lead out of DST are skipped with a warning.

    \b
    Examples:
      syncpod cp dump.sql db:/tmp/
      syncpod cp web:/var/log/nginx ./logs -c app
      syncpod cp team/web:/etc/hosts hosts
    """  # noqa: D301
    ends = _ends(given, "syncpod")

    from syncpod.cli.actions.cp import copy_files

    copy_files(*ends, given.namespace, given.container, preserve=not given.no_preserve, retries=given.retries or 0)


def fleet_cp(given: CpOptions) -> None:
    """Copy files and directories to and from containers, on whichever node of the fleet they are.

    As with `syncpod cp`, one of SRC and DST is a local path, and the other is POD:PATH or NAMESPACE/POD:PATH. The
    container needs `tar`.
    """
    ends = _ends(given, "syncpod fleet")

    from syncpod.cli.actions.fleet_cp import FleetCopy, copy_files

    wanted = FleetCopy(*ends, given.namespace, given.node, given.container, preserve=not given.no_preserve)
    copy_files(wanted, given.state_dir)


def _ends(given: CpOptions, program: str) -> tuple[CopyLocation, CopyLocation]:
    """Return source and destination. Raises BadInput."""
    ends = copy_location(given.source), copy_location(given.destination)
    require_one_here(*ends, program, no_preserve=given.no_preserve, retries=given.retries)
    return ends
