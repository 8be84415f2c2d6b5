"""A reason for differences between kubelet and node, with its check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Facts = Mapping[str, Any]
"""The observation of a pod on one side: values by path."""


class Reason(StrEnum):
    """The kind of a reason."""

    BETTER = "decided otherwise here"
    MARKS = "marks and words of our own"
    ALONE = "a kubelet without an API server cannot"
    LAG = "a kubelet says it only at its next sync"
    CHANCE = "differs from run to run on either side"
    DEFECT = "ought not to be"


@dataclass(frozen=True)
class Sentence:
    """One reason for differences, with a check: a difference that fails the check stays unexplained.

    It must have `holds`, `turned` or both. Without a check it would explain every difference at its paths.
    """

    text: str
    reason: Reason
    paths: tuple[str, ...]
    """Shell patterns for the paths of the facts that it explains; `[` is written `[[]`."""
    scenarios: tuple[str, ...] = ("*",)
    """Shell patterns for the scenarios to which it applies."""
    holds: Callable[[Any, Any], bool] | None = None
    """Returns whether it explains these two values, the kubelet's and ours."""
    turned: Callable[[Facts, Facts], Facts] | None = None
    """Returns the kubelet's facts as they would be without this difference, given both sides' facts. The difference is
    explained if the returned value equals ours."""
