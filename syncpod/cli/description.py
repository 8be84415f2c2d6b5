"""Descriptions as ``describe`` prints them, whether a node or a fleet has the objects.

Mirrors kubectl's pkg/cmd/describe/describe.go, v1.36: two empty lines stand between two objects, and one that does not
exist keeps none of the others from being described.
"""

from __future__ import annotations

from collections.abc import Sequence

from syncpod.api.views.text import printable
from syncpod.cli.console import remark, say
from syncpod.cli.failure import Failure


class Descriptions:
    """Prints one description after another, and at the end what is missing."""

    def __init__(self) -> None:
        """Print nothing yet."""
        self.failures: list[Failure] = []
        """Why something is not described: a Failure for each."""
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
        """Print that there is nothing, if so. Raises Failure if something is not described, as one for all."""
        if told := [each for each in self.failures if str(each)]:
            from syncpod.cli.several import together

            raise together(told, done=self._has_printed)
        if self.failures:  # a node has said why
            raise self.failures[0]
        if not self._has_printed and nothing:
            remark(nothing)
