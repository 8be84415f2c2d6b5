"""Decides which labels a selector selects.

Mirrors apimachinery, pkg/apis/meta/v1/helpers.go, v0.36, LabelSelectorAsSelector.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from syncpod.lifecycle.label_requirements import meets
from syncpod.pod import LabelSelector, LabelSelectorRequirement

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The only label that a namespace has: its name."""


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Say whether a selector selects these labels. None selects nothing, and an empty selector selects everything."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        meets(requirement, labels) for requirement in selector.match_expressions
    )


def selects_namespace(selector: LabelSelector | None, namespace: str) -> bool:
    """Say whether a selector selects a namespace.

    Difference: namespaces are not objects here, so a namespace has no label but its name.
    """
    return selects(selector, {NAMESPACE_NAME: namespace})


def narrowed(
    selector: LabelSelector | None, labels: Mapping[str, str], same: Iterable[str], other: Iterable[str] = ()
) -> LabelSelector | None:
    """Return a selector narrowed by a pod's own labels.

    The result also requires the pod's value of each label in `same`, and any other value of each label in `other`. A
    label that the pod does not have is ignored (mergeLabelSetWithSelector; applyPodAffinityTerm for mismatchLabelKeys).
    """
    if selector is None:
        return None
    added = (
        LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],))
        for keys, operator in ((same, "In"), (other, "NotIn"))
        for key in keys
        if key in labels
    )
    return selector.model_copy(update={"match_expressions": (*selector.match_expressions, *added)})
