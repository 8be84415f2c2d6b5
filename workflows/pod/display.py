"""Shows a run's pod to people and to its node: search attributes, current details, and the published state."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from syncpod.lifecycle.actions import StepName
    from workflows.pod import (
        search_attributes,
        temporal_ui,
    )
    from workflows.pod.decision import Hold, UnderWay
    from workflows.pod.published import PublishedPod
    from workflows.pod.state import PodState
    from workflows.pod.worker_hooks import WorkerHooks


class Display:
    """Shows the present state of one run to people and to the node's agent."""

    def __init__(self, state: PodState, sender: str, worker_hooks: WorkerHooks) -> None:
        """Prepare to show `state`; `sender` names the person or program that sent the pod."""
        self.state, self.sender, self.worker_hooks = state, sender, worker_hooks
        self.holds: tuple[Hold, ...] = ()
        self.under_way: dict[tuple[StepName, str], UnderWay] = {}

    def write_attributes(self, *, rests: bool = False) -> None:
        """Write the search attributes that changed. `rests` is True if no step is about to change the pod."""
        started_with = any(pair.key.name == "PodStatus" for pair in workflow.info().typed_search_attributes)
        updates = search_attributes.updates(self.state, started_with=started_with, rests=rests)
        if updates:
            workflow.upsert_search_attributes(updates)

    def show(self, *, is_gone: bool = False) -> None:
        """Set the workflow's current details, and publish the state; costs no history."""
        workflow.set_current_details(temporal_ui.details(self.state, self.holds, self.sender))
        self.worker_hooks.publish(lambda: self.as_published(is_gone=is_gone))
        self.worker_hooks.count_resizes(self.state)

    def as_published(self, *, is_gone: bool = False) -> PublishedPod:
        """Return a copy of the present state that later changes do not affect."""
        # Replay: a shallow copy is enough, since the state's values are replaced and never changed.
        length = workflow.info().get_current_history_length()
        under_way = tuple(self.under_way.values())
        return PublishedPod(self.state.model_copy(), workflow.now(), length, self.holds, under_way, is_gone)
