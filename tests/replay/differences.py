"""Replays a recorded history, and names the first decision that now differs."""

from __future__ import annotations

from temporalio.client import WorkflowHistory

from syncpod.replay.run import replayed


class Differs(AssertionError):
    """A history does not replay. The text names the decision that differs."""


async def replay(name: str, history: WorkflowHistory) -> None:
    """Replay a history; raises Differs if the workflow of this tree decides differently."""
    found = await replayed(history, None, "default")
    if found.difference is not None:
        raise Differs(f"history {name}, {found.difference.sentence()} {found.difference.cause}".rstrip())
