"""The port for the removal of what a pod leaves to its node."""

from typing import Protocol

from syncpod.messages.steps import RemovePod


class Leaves(Protocol):
    """Says what a pod that is gone leaves. It never changes, and may be read in any thread."""

    @property
    def left(self) -> RemovePod | None:
        """What the node is to remove of a pod that is gone; None if a step has removed all."""
