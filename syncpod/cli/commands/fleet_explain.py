"""``syncpod fleet explain --placement``: why a pod is on its node, or on none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput
from syncpod.cli.input.options import Namespace, StateDir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temporalio.client import Client

Placement = Annotated[bool, typer.Option("--placement", help="Of each node of the fleet, why the pod is not there.")]


def explain(
    what: Annotated[list[str], typer.Argument(metavar="POD", hidden=True, show_default=False)],
    namespace: Namespace = "default",
    placement: Placement = False,
    output: Annotated[str, typer.Option("--output", "-o", metavar="json", help="The output format.")] = "",
    state_dir: StateDir = "",
) -> None:
    """Explain where a pod could be: `web-1`, or the next pod of a workload, `deployment web`.

    Each node is judged as it is now, by the rules that the fleet itself places by. The node that has the pod is judged
    as if it had it not.
    """
    if not placement:
        raise BadInput("--placement: required: a fleet knows where pods may be; what became of them, their nodes know")
    explain_placement(what, namespace, output, state_dir)


def explain_placement(what: Sequence[str], namespace: str, output: str, state_dir: str = "") -> None:
    """Print of each node whether a pod, or the next pod of a workload, may be there. Raises BadInput, Failure."""
    import json

    from syncpod.cli.temporal import fleet, fleet_placement
    from syncpod.cli.temporal.fleet_workloads import KINDS
    from syncpod.cli.view import placement_explanation

    if output not in ("", "json"):
        raise BadInput(f"--output: must be json, not {output}")
    words = [word for each in what for word in each.split("/", 1)]
    kind = KINDS.get(words[0]) if len(words) > 1 else None
    names = words[1:] if kind or words[:1] in (["pod"], ["pods"], ["po"]) else words
    if len(names) != 1:
        raise BadInput("POD: must be one pod, or a kind and one name: deployment web")

    async def work(client: Client) -> list[fleet_placement.Explained]:
        if kind is not None:
            return [await fleet_placement.explain_workload(client, kind, namespace, names[0])]
        return await fleet_placement.explain_pod(client, namespace, names[0])

    for each in fleet.run(work, state_dir=state_dir):
        name = each.pod.metadata.name
        if output == "json":
            said = placement_explanation.document(name, namespace, each.at, each.placement, each.silent)
            say(json.dumps(said, indent=4))
            continue
        called = f"the next pod of {each.owner}" if kind is not None else f"pod {name}"
        say("\n".join(placement_explanation.lines(called, each.at, each.placement, each.silent)))
