"""Whether a node still has pods. While it has, its name, runtime and cluster must not change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError
from syncpod.node.pod_records import RECORD_NAME
from syncpod.translation.names import NODE_LABEL

_PATIENCE_SECONDS: Final = 5.0


def has_records(state_dir: Path) -> bool:
    """Say whether the state directory has the record of a pod. Blocks."""
    return next((state_dir / "pods").glob(f"*/{RECORD_NAME}"), None) is not None


async def has_pods(state_dir: Path, node: str, endpoint: str) -> bool:
    """Say whether a node has pods: by its records on disk, or by the sandboxes in the runtime that it used.

    A runtime that does not answer counts as having no pods.
    """
    if await asyncio.to_thread(has_records, state_dir):
        return True
    try:
        async with CriClient(endpoint, timeout_seconds=_PATIENCE_SECONDS) as runtime:
            return bool(await runtime.list_pod_sandboxes(labels={NODE_LABEL: node}))
    except CriError:
        return False
