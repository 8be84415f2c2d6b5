"""Manifests of pods with unique names."""

from __future__ import annotations

import json
import uuid
from typing import Any


def fresh_name() -> str:
    """A pod name that no other test has."""
    return f"web-{uuid.uuid4().hex[:8]}"


def manifest(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of one container, changed by `spec`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [{"name": "app", "image": "busybox:1"}], **spec},
    }


def as_json(*documents: dict[str, Any]) -> str:
    """A stream of documents."""
    return "\n".join(map(json.dumps, documents))
