"""What a simulation has found wrong."""

from __future__ import annotations


class Violation(AssertionError):
    """An invariant does not hold; the text says which, and what was seen."""
