"""The limits of a node's report to its fleet: the state that includes the report must fit into one payload."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from syncpod.messages.fleet import LIFE_LIMIT, Attended, PodReport
from syncpod.messages.identity import Message
from syncpod.messages.node import KNOWN_LIMIT, PodKey
from workflows.fleet.node_changes import PLACED_LIMIT, unchanged
from workflows.fleet.node_state import FleetNodeState

REPORTED_LIMIT: Final = 2 * PLACED_LIMIT
"""The most pods of a report: as many as a fleet places on a node, and as many again that are still ending."""
POD_LIMIT: Final = 4096
"""How many bytes of JSON a report may have about one pod."""
NODE_LIMIT: Final = 16 * 1024
"""How many bytes of JSON a report may have about the node itself."""
_ALWAYS: Final = 350_000
"""How many bytes of JSON the reports of all pods may have in any case."""
_NAME: Final = 256
"""The most characters of a version, a name or a namespace."""


def why_too_large(state: FleetNodeState, answer: Attended) -> str:
    """Return one sentence that says why a report cannot be taken; "" if it can."""
    listed: dict[str, Sequence[PodKey | PodReport]]
    listed = {"present": answer.present or (), "pods": answer.pods, "gone": answer.gone}
    for field, keys in listed.items():
        if len(keys) > REPORTED_LIMIT:
            return f"its report is refused: {field}: must have no more than {REPORTED_LIMIT} pods, has {len(keys)}"
        for at, key in enumerate(keys):
            if len(key.namespace) > _NAME or len(key.name) > _NAME:
                return f"its report is refused: {field}[{at}]: must have a name of no more than {_NAME} characters"
    if len(answer.version) > _NAME:
        return f"its report is refused: version: must be no more than {_NAME} characters"
    if len(answer.life) > LIFE_LIMIT:
        return f"its report is refused: life: must be no more than {LIFE_LIMIT} characters"
    if answer.node is not None and (size := _size(answer.node)) > NODE_LIMIT:
        return f"its report is refused: node: must be no more than {NODE_LIMIT} bytes as JSON, is {size}"
    for at, report in enumerate(answer.pods):
        if (size := _size(report)) > POD_LIMIT:
            return f"its report is refused: pods[{at}]: must be no more than {POD_LIMIT} bytes as JSON, is {size}"
    kept = state.pods | {each.key: each for each in answer.pods}
    if answer.present is not None:
        there = unchanged(answer)
        kept = {key: report for key, report in kept.items() if key in there}
    if len(kept) > REPORTED_LIMIT:
        return f"its report is refused: pods: must be no more than {REPORTED_LIMIT} with earlier ones, are {len(kept)}"
    total = sum(map(_size, kept.values()))
    if total > _ALWAYS and total > (room := _room(state)):
        return f"its report is refused: pods: must be no more than {room} bytes as JSON in all, are {total}"
    return ""


def _room(state: FleetNodeState) -> int:
    """Return how many bytes the reports of all pods may have, in addition to the documents of the pods."""
    documents = sum(len(json.dumps(placed.document, separators=(",", ":"))) for placed in state.placed.values())
    return max(_ALWAYS, KNOWN_LIMIT - documents)


def _size(message: Message) -> int:
    return len(json.dumps(message.model_dump(mode="json", exclude_defaults=True), separators=(",", ":")))
