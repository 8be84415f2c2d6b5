"""The status of a rollout, in kubectl's words. Pure: a workload in, a sentence out.

Mirrors pkg/polymorphichelpers/rollout_status.go of kubectl, v1.36. Difference: a rollout may be rolled back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from syncpod.fleet.workload_traits import KINDS
from syncpod.messages.workload import WorkloadView


@dataclass(frozen=True)
class RolloutStatus:
    """The status of a rollout."""

    state: Literal["waiting", "done", "failed"]
    text: str


def rollout_status(view: WorkloadView, revision: int = 0) -> RolloutStatus:
    """Return the status of the rollout of a workload's newest template.

    The status is "failed" if the newest revision has another number than `revision`; 0 = any number.
    """
    traits = KINDS[view.kind]
    kind = traits.title
    named = f'{kind} "{view.name}"'
    newest = view.history[-1] if view.history else None
    if view.deleting:
        return RolloutStatus("failed", f"{named} is being deleted")
    if revision and newest is not None and newest.number != revision:
        return RolloutStatus(
            "failed", f"desired revision ({revision}) is different from the running revision ({newest.number})"
        )
    if newest is not None and newest.given_up:
        return RolloutStatus("failed", f"{named} was rolled back: {newest.given_up}")
    is_target = newest is None or newest.template == view.revision
    if not view.observed or not (is_target or view.paused):
        return RolloutStatus("waiting", f"Waiting for {kind} spec update to be observed...")
    if view.stalled:
        return RolloutStatus("failed", f"{named} exceeded its progress deadline: {view.stalled}")
    updated = min(view.updated if is_target else 0, view.desired)
    waiting = f"Waiting for {named} rollout to finish"
    if traits.is_per_node and view.complete:  # the numbers count lost and cordoned nodes, the rollout does not
        return RolloutStatus("done", f"{named} successfully rolled out")
    if updated < view.desired:
        said = f"{updated} out of {view.desired} new {traits.pods} have been updated"
        return RolloutStatus("waiting", f"{waiting}: {said}...")
    if view.replicas > view.updated and not traits.is_per_node:
        left = view.replicas - view.updated
        return RolloutStatus("waiting", f"{waiting}: {left} old replicas are pending termination...")
    if view.available < updated:
        said = f"{view.available} of {updated} updated {traits.pods} are available"
        return RolloutStatus("waiting", f"{waiting}: {said}...")
    return RolloutStatus("done", f"{named} successfully rolled out")
