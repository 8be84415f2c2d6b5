"""The work of ``syncpod fleet rollout``: the rollout of a workload's template, and its earlier revisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.fleet_names import fleet_names
from syncpod.cli.temporal import fleet, fleet_workloads
from syncpod.cli.temporal.fleet_workloads import WORKLOADS
from syncpod.fleet.workload_traits import KINDS, PAUSABLE, TEMPLATED, one_of

if TYPE_CHECKING:
    from temporalio.client import Client


def set_paused(what: list[str], namespace: str, state_dir: str, *, paused: bool) -> None:
    """Pause or resume the rollouts of a workload. Raises BadInput, Failure."""
    kind, name = named_workload(what)
    if not KINDS[kind].is_pausable:
        raise BadInput(f"{' '.join(what)}: only a {one_of(PAUSABLE)} can be paused and resumed")

    async def work(client: Client) -> None:
        (view,) = await fleet_workloads.views(client, kind, namespace, [name])
        if view.paused == paused:
            raise Failure(f'{KINDS[kind].resources} "{name}" is {"already" if paused else "not"} paused')
        await fleet_workloads.pause(client, kind, namespace, name, paused=paused)
        say(f"{KINDS[kind].resource}/{name} {'paused' if paused else 'resumed'}")

    fleet.run(work, state_dir=state_dir)


def named_workload(what: list[str]) -> tuple[str, str]:
    """Return kind and name of a workload that has revisions. Raises BadInput."""
    found = fleet_names(what, WORKLOADS, one_of(TEMPLATED).lower())
    pairs = [(kind, name) for kind, names in found.items() for name in names]
    if len(pairs) != 1:
        raise BadInput(f"{' '.join(what)}: name one {one_of(TEMPLATED)}, such as deployment/web")
    return pairs[0]
