"""Replays a recorded history, and names the first decision that now differs."""

from __future__ import annotations

from temporalio.client import WorkflowHistory

from syncpod.replay.run import replayed


class Differs(AssertionError):
    """A history does not replay; the sentence names the decision."""


async def replay(name: str, history: WorkflowHistory) -> None:
    """Replay a history; raises Differs where the workflow of this tree would have decided otherwise."""
    found = await replayed(history, None, "default")
    if found.difference is not None:
        raise Differs(f"history {name}, {found.difference.sentence()} {found.difference.cause}".rstrip())
