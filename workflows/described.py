"""What a workflow says of its signals, updates and queries: their meaning, and the payload that each takes.

``temporal workflow metadata`` and the Temporal UI show it, and docs/temporal.md has the same words.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

A_POD = "a v1 Pod"
"""The payload that is a Pod's document."""
NOTHING = "{}"
"""The payload of what needs none: a command without one could not be signed."""


AN_EPHEMERAL_CONTAINER = "a v1 EphemeralContainer"
_DOCUMENTS = {"update_pod": A_POD, "apply": A_POD, "add_ephemeral_container": AN_EPHEMERAL_CONTAINER}
"""By the name of what a pod is sent: its payload where an empty object is none."""


def wrong_number(name: str, given: int) -> str:
    """Return what is wrong with a signal or an update of a pod that has not one payload, and what would be one."""
    return f"takes one payload, got {given}" + ("" if given else f": {_DOCUMENTS.get(name, '`{}`')} is one")


def takes(payload: type[BaseModel] | str, meaning: str) -> str:
    """Return the description of a signal or an update; `payload` is its model, or says what it is."""
    return f"{meaning}. Payload: {payload if isinstance(payload, str) else shape(payload)}"


def shape(model: type[BaseModel]) -> str:
    """Return a payload as JSON, with all its fields and their defaults."""
    return json.dumps({field.alias or name: _as_json(field.get_default(call_default_factory=True))
                       for name, field in model.model_fields.items()})  # fmt: skip


def _as_json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {}
    return list(value) if isinstance(value, tuple) else value
