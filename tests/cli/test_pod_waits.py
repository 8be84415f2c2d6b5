"""The wait for applied pods, with a scripted reader of their states."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client

from syncpod.cli.fetched import FetchedPod
from syncpod.cli.temporal import pod_waits
from syncpod.cli.temporal.pod_apply import Applied
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.messages.pod_commands import Change
from syncpod.pod import Pod, admit_pod

POD: Pod = admit_pod(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    }
)


@pytest.mark.timeout(60)
async def test_a_node_that_never_answers_does_not_outlast_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second reading would take an hour: it is given up at the deadline, and the first one counts."""
    rounds: list[int] = []

    async def read_all(_self: Any, keys: Sequence[object]) -> list[FetchedPod | None]:
        rounds.append(len(rounds))
        await asyncio.sleep(3600 if len(rounds) > 1 else 0)
        return [None for _ in keys]

    async def come_to(*_: Any) -> list[pod_waits.Settled]:
        return [pod_waits.Settled.NOT_YET]

    monkeypatch.setattr(TemporalPods, "read_all", read_all)
    monkeypatch.setattr(pod_waits, "_come_to", come_to)
    applied = Applied(POD, Change.CREATED, "n1")
    [(one, fetched, state)] = await pod_waits.until_settled(
        cast(Client, None), [applied], timeout=timedelta(seconds=pod_waits.POLL_SECONDS * 3)
    )
    assert (one, fetched, state, rounds) == (applied, None, pod_waits.Settled.NOT_YET, [0, 1])
