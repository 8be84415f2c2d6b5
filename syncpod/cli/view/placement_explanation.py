"""The output of ``explain --placement``: for each node whether a pod may be there, and why not. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syncpod.api.views.text import columns
from syncpod.fleet.placement import NodeFit, Placement

NEVER_SPOKEN = "it has not reported yet"


def lines(called: str, at: str, placement: Placement, silent: Sequence[str]) -> list[str]:
    """Return the lines; `called` names the pod, `at` is its node, `silent` are the nodes that have never reported."""
    where = f"is on {at}" if at else "is on no node"
    told = [f"{called} {where}; as nodes are now, {_would(at, placement)}"]
    rows = [("NODE", "FITS", "SCORE", "WHY NOT"), *map(_row, placement.nodes)]
    rows += [(name, "no", "-", NEVER_SPOKEN) for name in silent]
    return [*told, *columns(rows)]


def document(name: str, namespace: str, at: str, placement: Placement, silent: Sequence[str]) -> dict[str, Any]:
    """Return the explanation as JSON."""
    nodes: list[dict[str, Any]] = [
        {"node": each.node, "fits": each.fits, "reasons": list(each.reasons), "detail": each.detail}
        | ({"score": each.score} if each.fits else {})
        for each in placement.nodes
    ]
    nodes += [{"node": each, "fits": False, "reasons": [NEVER_SPOKEN], "detail": ""} for each in silent]
    return {
        "pod": name,
        "namespace": namespace,
        "node": at,
        "chosen": placement.node,
        "summary": placement.summary,
        "nodes": nodes,
    }


def _would(at: str, placement: Placement) -> str:
    if not placement.node:
        return placement.summary
    if placement.node == at:
        return "it would be placed there again"
    return f"it would be placed on {placement.node}"


def _row(fit: NodeFit) -> tuple[str, ...]:
    if fit.fits:
        return fit.node, "yes", str(fit.score), ""
    why = f"{', '.join(fit.reasons)}{f' ({fit.detail})' if fit.detail else ''}"
    return fit.node, "no", "-", why
