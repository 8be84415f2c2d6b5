"""What the workflows of pods and of nodes have in common."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from syncpod.lifecycle.version import decisions_of, too_old


class TooOld(Exception):
    """A history was begun by decisions that this tree does not have; the text says so, and what to do."""


def decisions_taken() -> int:
    """Return the version of this run's decisions; to be called in ``__init__`` of a workflow.

    Raises TooOld while it replays a history of decisions that this tree does not have. The workflow task fails with
    that sentence, which the SDK logs as a warning; the pod, which belongs to its runtime, runs on. A failed run would
    be worse: the node kills what runs for a pod whose workflow has ended.
    """
    info = workflow.info()
    decisions = decisions_of(info.get_current_build_id())
    # Replay: the build id is that of the worker that took the first task, as its history has it.
    if (refusal := too_old(decisions)) and workflow.unsafe.is_replaying():
        raise TooOld(
            f"workflow {info.workflow_id} cannot go on here: {refusal}. "
            "Begin it anew: a pod by `syncpod adopt --force`, a node by ending its workflow"
        )
    return decisions
