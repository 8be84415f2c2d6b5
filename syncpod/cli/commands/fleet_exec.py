"""``syncpod fleet exec``: run a command in a container, on whichever node of the fleet it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.commands.exec import Stdin, write_ours
from syncpod.cli.failure import BadInput
from syncpod.cli.input.options import Container, Namespace, OfNode, StateDir

if TYPE_CHECKING:
    from temporalio.client import Client


def exec_(
    pod: Annotated[str, typer.Argument(metavar="POD", hidden=True, show_default=False)],
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", hidden=True, show_default=False)] = None,
    namespace: Namespace = "default",
    node: OfNode = "",
    container: Container = "",
    stdin: Stdin = False,
    state_dir: StateDir = "",
) -> None:
    """Run a command in a container on whichever node of the fleet it is; its exit code is passed on.

    The node runs it at most once. If it falls silent meanwhile, the command may have been run. `deployment/web` is one
    of its pods. With --stdin, the command reads our input.
    """
    from syncpod.cli.fleet_errands import run_there
    from syncpod.cli.streams import terminal
    from syncpod.cli.temporal import fleet
    from syncpod.cli.temporal.fleet_pods import find_pod, kind_and_name

    kind_and_name([pod])
    if not command:
        raise BadInput(f"say what to run: syncpod fleet exec {pod} -- COMMAND")
    flags = [f"--namespace={namespace}", *([f"--container={container}"] if container else [])]
    source = terminal.our_input() if stdin else -1

    async def work(client: Client) -> int:
        found = await find_pod(client, [pod], namespace, node)
        asked = ["exec", found.name, *flags, *(["--stdin"] if stdin else []), "--", *command]
        given = terminal.read(source) if stdin else None
        return await run_there(client, found.node, asked, stdin=given, write=write_ours)

    raise typer.Exit(fleet.run(work, state_dir=state_dir))
