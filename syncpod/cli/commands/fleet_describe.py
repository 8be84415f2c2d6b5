"""``syncpod fleet describe``: a workload or a node of a fleet, and why a pod is where it is, or nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput
from syncpod.cli.input.options import Namespace, StateDir

if TYPE_CHECKING:
    from temporalio.client import Client

_NODES = ("node", "nodes", "no")


def describe(
    what: Annotated[list[str], typer.Argument(metavar="KIND NAME", hidden=True, show_default=False)],
    namespace: Namespace = "default",
    state_dir: StateDir = "",
) -> None:
    """Show a workload or a node of the fleet: `deployment web`, `daemonset logs`, `node edge-1`.

    Of a workload: how its rollout stands, its pods, why each is to go or is nowhere, and of each node why not there.
    """
    from datetime import UTC, datetime

    from syncpod.cli.temporal import fleet, fleet_workloads
    from syncpod.cli.view.fleet_description import describe_node, describe_workload

    words = [word for each in what for word in each.split("/", 1)]
    kind, names = fleet_workloads.KINDS.get(words[0]), words[1:]
    if kind is None and words[0] not in _NODES:
        raise BadInput(f"KIND: must be deployment, daemonset or node, not {words[0]}")
    if not names:
        raise BadInput(f"NAME: required: which {words[0]}")

    async def work(client: Client) -> None:
        now = datetime.now(UTC)
        if kind is None:
            found = [describe_node(each, now) for each in await fleet.views(client, names)]
        else:
            views = await fleet_workloads.views(client, kind, namespace, names)
            found = [describe_workload(each, now) for each in views]
        say("\n\n".join("\n".join(lines) for lines in found))

    fleet.run(work, state_dir=state_dir)
