"""The error of a simulation that broke an invariant."""

from __future__ import annotations


class Violation(AssertionError):
    """An invariant is broken. The text names it and says what was seen."""
