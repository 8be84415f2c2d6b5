"""Applies manifests to a fleet, compares them with what the fleet has, and waits until their pods are up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from syncpod.cli.actions.fleet_rollout import follow_rollout
from syncpod.cli.console import say, warn
from syncpod.cli.failure import Failure, together
from syncpod.cli.temporal import fleet, fleet_objects, fleet_pod_changes, fleet_workloads
from syncpod.cli.temporal.fleet_images import image_warnings
from syncpod.cli.temporal.fleet_pod_waits import until_up
from syncpod.fleet.workload_traits import KINDS

if TYPE_CHECKING:
    from datetime import timedelta

    from temporalio.client import Client

    from syncpod.cli.input.fleet_manifests import FleetManifests
    from syncpod.cli.temporal.fleet_pod_changes import PodChange
    from syncpod.fleet.workloads import Workload
    from syncpod.pod import ConfigMap, Secret


def apply_manifests(manifests: FleetManifests, patience: timedelta | None, state_dir: str, *, wait: bool) -> None:
    """Apply these objects to the fleet, and print each change; with `wait`, wait until the pods are up.

    `patience` is the limit of apply and wait together; None = as long as it takes. Raises BadInput before anything is
    applied, and Failure.
    """
    sealing = fleet.object_sealing(state_dir)

    async def work(client: Client) -> None:
        end = asyncio.get_running_loop().time() + patience.total_seconds() if patience else None
        await _warn(client, manifests)
        for each in manifests.objects:
            _print_change(each, await fleet_objects.apply(client, sealing, each))
        pods: list[PodChange] = []
        if manifests.pods:
            async for change in fleet_pod_changes.apply(client, manifests.pods):
                say(f"pod/{change.pod.metadata.name} {change}")
                pods.append(change)
        for workload in manifests.workloads:
            _print_change(workload, await fleet_workloads.apply(client, workload))
        if wait:
            await _until_up(client, manifests.workloads, pods, end)

    fleet.run(work, state_dir=state_dir)


def try_manifests(manifests: FleetManifests, mark: str, state_dir: str) -> None:
    """Print what `apply_manifests` would change, each line with `mark` at its end; nothing is changed.

    Raises BadInput, and one Failure for all objects that would be refused, as far as that can be seen.
    """
    sealing = fleet.object_sealing(state_dir)

    async def work(client: Client) -> None:
        await _warn(client, manifests)
        failures = list[Failure]()
        for each in manifests.objects:
            _print_change(each, f"{await fleet_objects.forecast(client, sealing, each)}{mark}")
        if manifests.pods:
            async for change in fleet_pod_changes.forecast(client, manifests.pods):
                if isinstance(change, Failure):
                    failures.append(change)
                else:
                    say(f"pod/{change.pod.metadata.name} {change}{mark}")
        for workload in manifests.workloads:
            try:
                _print_change(workload, f"{await fleet_workloads.forecast(client, workload)}{mark}")
            except Failure as failure:
                failures.append(failure)
        if failures:
            raise together(failures, done=False)

    fleet.run(work, state_dir=state_dir)


async def _warn(client: Client, manifests: FleetManifests) -> None:
    """Print the manifests' warnings, and one for each image that a node lacks. Raises Failure."""
    for warning in (*manifests.warnings, *await image_warnings(client, [*manifests.pods, *manifests.workloads])):
        warn(warning)


def _print_change(changed: ConfigMap | Secret | Workload, change: str) -> None:
    kind = changed.kind
    say(f"{KINDS[kind].resource if kind in KINDS else kind.lower()}/{changed.metadata.name} {change}")


async def _until_up(
    client: Client, workloads: Sequence[Workload], pods: Sequence[PodChange], end: float | None
) -> None:
    """Wait until each rollout has ended and each pod is up; raise one Failure for all that fail, or take too long."""
    waits = [
        follow_rollout(client, each.kind, each.metadata.name, each.metadata.namespace or "default", 0, end)
        for each in workloads
    ]
    results = await asyncio.gather(*waits, until_up(client, pods, end), return_exceptions=True)
    failures = list[Failure]()
    for result in results:
        if isinstance(result, Failure):
            failures.append(result)
        elif result is not None:
            raise result
    if failures:
        raise together(failures, done=True)
