"""``syncpod explain --placement`` and ``syncpod fleet explain --placement``: why a pod is on its node, or on none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import require_json
from syncpod.cli.input.fleet_names import kind_and_name
from syncpod.cli.temporal import fleet, fleet_placement
from syncpod.cli.view import placement_explanation
from syncpod.fleet.workload_traits import TEMPLATED

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.temporal.fleet_placement import ExplainedPlacement


def explain_placement(
    what: Sequence[str] | None, namespace: str, output: str, others: Sequence[str], state_dir: str = ""
) -> None:
    """Print for each node whether a pod, or the next pod of a workload, may be placed on it. Raises BadInput, Failure.

    `others` are the other flags that were given; none of them is allowed with --placement.
    """
    require_json(output)
    if others:
        raise BadInput(f"--placement: shows all nodes as they are now, and cannot be combined with {', '.join(others)}")
    kind, asked = kind_and_name(what or [])

    async def work(client: Client) -> list[ExplainedPlacement]:
        if kind in TEMPLATED:
            return [await fleet_placement.explain_workload(client, kind, namespace, asked)]
        return await fleet_placement.explain_pod(client, namespace, asked)

    for each in fleet.run(work, state_dir=state_dir):
        name = each.pod.metadata.name
        if output == "json":
            said = placement_explanation.document(name, namespace, each.at, each.placement, each.silent)
            say(json.dumps(said, indent=4))
            continue
        called = f"the next pod of {each.owner}" if kind in TEMPLATED else f"pod {name}"
        say("\n".join(placement_explanation.lines(called, each.at, each.placement, each.silent)))
