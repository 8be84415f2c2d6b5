"""Serves a node's metrics with a value in each counter, including those that stay empty on a healthy node.

``python -m tests.deploy.rare_metrics PORT``. The node's own code counts and serves the metrics, so names and labels
are those of a node.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from activities.node import metrics as steps
from syncpod import telemetry
from syncpod.agent import metrics
from syncpod.agent.published_pods import PublishedPods
from syncpod.agent.scraping.terminations import Terminations
from tests.agent.node_endpoint import node_endpoint, node_of
from tests.agent.published import OfNoPod

_DUE = datetime(2026, 11, 23, tzinfo=UTC)


class BeingDeleted(OfNoPod):
    """The published state of a pod whose deletion is long overdue."""

    uid, at, history_length, is_gone, is_unready = "u1", _DUE, 7, False, True

    def pod(self) -> dict[str, Any]:
        return {"metadata": {"namespace": "default", "name": "stuck", "uid": "u1", "deletionTimestamp": str(_DUE)}}


async def serve(port: int, directory: Path) -> None:
    """Increase each counter twice, and serve the metrics."""
    telemetry.configure({}, service="rare", scraped=True)
    for _ in range(2):
        metrics.evictions.add(1, {"eviction_signal": "memory.available"})
        metrics.collected("container", 1)
        metrics.workflow_restarts.add(1)
        steps.count_failed_sandbox()
    published = PublishedPods(node_of(directory))
    published.take("pod/default/stuck", "run", BeingDeleted())
    await node_endpoint("127.0.0.1", port, directory, published, terminations=Terminations(metrics.terminated)).run()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(serve(int(sys.argv[1]), Path(scratch)))
