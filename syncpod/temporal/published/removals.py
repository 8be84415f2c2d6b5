"""The port for the removal of a pod's remains by its node."""

from typing import Protocol

from syncpod.messages.identity import EndedLife


class EndsLives(Protocol):
    """Says which life of a pod is over. It never changes, and may be read in any thread."""

    @property
    def ended_life(self) -> EndedLife | None:
        """The life that is over, whose remains the node removes; None while it goes on."""
