"""Descriptions as ``describe`` prints them, whether a node or a fleet has the objects.

Mirrors kubectl's pkg/cmd/describe/describe.go, v1.36: two empty lines separate two objects, and a missing object does
not stop the others from being described.
"""

from __future__ import annotations

from collections.abc import Sequence

from syncpod.api.views.text import printable
from syncpod.cli.console import remark, say
from syncpod.cli.failure import Failure, together


class Descriptions:
    """Prints one description after another, and reports the missing objects at the end."""

    def __init__(self) -> None:
        """Print nothing yet."""
        self.failures: list[Failure] = []
        """A Failure for each object that could not be described."""
        self._has_printed = False

    def begin(self) -> None:
        """Separate the next description from the one before it."""
        if self._has_printed:
            say("\n")
        self._has_printed = True

    def show(self, lines: Sequence[str]) -> None:
        """Print a description."""
        self.begin()
        # Annotations and messages may have control characters from anybody: escape them for the terminal.
        say("\n".join(printable(line.expandtabs()) for line in "\n".join(lines).split("\n")))

    def end(self, nothing: str) -> None:
        """Raise one Failure for all objects that are not described; if nothing was printed, print `nothing`."""
        if told := [each for each in self.failures if str(each)]:
            raise together(told, done=self._has_printed)
        if self.failures:  # without a text: the node's own command has printed the reason
            raise self.failures[0]
        if not self._has_printed and nothing:
            remark(nothing)
