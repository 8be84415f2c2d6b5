"""The ports for the agent's list of the node's pods: which pod a workflow has, and whether that pod's life is over."""

from typing import Protocol

from syncpod.messages.identity import EndedLife
from syncpod.pod import ObjectMeta


class PublishedLife(Protocol):
    """The part of a published state that identifies its pod. A state never changes, and may be read in any thread."""

    @property
    def uid(self) -> str:
        """The pod's UID; "" for a node."""

    @property
    def incarnation(self) -> str:
        """The id of this life of the pod; "" for a node."""

    @property
    def metadata(self) -> ObjectMeta:
        """The pod's metadata; empty for a node."""

    @property
    def is_gone(self) -> bool:
        """Whether the pod's life is over: the node removes its remains, and the workflow publishes nothing more."""

    @property
    def is_followed(self) -> bool:
        """Whether another pod is to start in this pod's place when this one ends."""


class EndsLives(Protocol):
    """The part of a published state about the end of its pod. A state never changes, and may be read in any thread."""

    @property
    def ended_life(self) -> EndedLife | None:
        """The life that is over, whose remains the node removes; None while the pod lives."""
