"""One reason for which the two differ, with how it is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Facts = Mapping[str, Any]
"""What was seen of a pod on one side: each value under its path."""


class Reason(StrEnum):
    """What kind of reason it is."""

    BETTER = "decided otherwise here"
    MARKS = "marks and words of our own"
    ALONE = "a kubelet without an API server cannot"
    LAG = "a kubelet says it only at its next sync"
    CHANCE = "differs from run to run on either side"
    DEFECT = "ought not to be"


@dataclass(frozen=True)
class Sentence:
    """One reason for differences. A difference that its check does not pass stays unexplained.

    It has `holds`, `turned` or both: a sentence that nothing checks would explain everything at its paths.
    """

    text: str
    reason: Reason
    paths: tuple[str, ...]
    """Which facts it is about, as shell patterns; `[` is written `[[]`."""
    scenarios: tuple[str, ...] = ("*",)
    """Which scenarios it is about, as shell patterns."""
    holds: Callable[[Any, Any], bool] | None = None
    """Whether it explains these two values, the kubelet's and ours."""
    turned: Callable[[Facts, Facts], Facts] | None = None
    """The kubelet's facts as they would be but for this difference, given both sides': the fact then has to be ours."""
