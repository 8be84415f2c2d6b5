"""What workflows publish, as far as a test does not care."""

from __future__ import annotations

from syncpod.pod import ObjectMeta


class OfNoPod:
    """The part of a published state that says which pod it is of, and what that has left: none and nothing."""

    is_followed = False
    ended_life = None

    @property
    def metadata(self) -> ObjectMeta:
        return ObjectMeta()
