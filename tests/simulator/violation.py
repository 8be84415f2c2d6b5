"""The error of a simulation that broke an invariant."""

from __future__ import annotations


class Violation(AssertionError):
    """An invariant does not hold; the text says which, and what was seen."""
