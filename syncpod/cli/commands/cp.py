"""``syncpod cp``: copy files to and from containers."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.input.copy_locations import copy_location, require_one_here
from syncpod.cli.input.options import Container, Namespace

NoPreserve = Annotated[
    bool, typer.Option("--no-preserve", help="Into a container: do not keep owners and permissions.")
]
Retries = Annotated[
    int | None,
    typer.Option(
        "--retries",
        metavar="N",
        help="Out of a container: how often to resume after a break; -1 = always.",
        show_default="0",
    ),
]


def cp(
    source: Annotated[str, typer.Argument(metavar="SRC", hidden=True, show_default=False)],
    destination: Annotated[str, typer.Argument(metavar="DST", hidden=True, show_default=False)],
    namespace: Namespace = "default",
    container: Container = "",
    no_preserve: NoPreserve = False,
    retries: Retries = None,
) -> None:
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
    ends = copy_location(source), copy_location(destination)
    require_one_here(*ends, no_preserve=no_preserve, retries=retries)

    from syncpod.cli.actions.cp import copy_files

    copy_files(*ends, namespace, container, preserve=not no_preserve, retries=retries or 0)
