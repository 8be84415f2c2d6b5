"""Addresses of pages of the Temporal UI."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

NOT_READY: Final = 'PodReady = false AND PodPhase != "Succeeded" AND ExecutionStatus = "Running"'
"""The list filter that finds the pods which should be ready and are not."""


def not_ready_page(ui: str, namespace: str) -> str:
    """Return the address of the list of the pods that are not ready; `ui` is the UI's own address."""
    return f"{ui}/namespaces/{quote(namespace, safe='')}/workflows?query={quote(NOT_READY, safe='')}"
