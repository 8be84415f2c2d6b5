"""A worker notices that its Temporal server does not answer, also if the server only hangs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.takeover import cluster
from syncpod.agent.takeover.cluster import ClusterGuard
from syncpod.agent.takeover.lock import NotThisNode


async def noticed(monkeypatch: pytest.MonkeyPatch, answers: list[str]) -> list[bool]:
    """Whether the server counted as silent at each check, for these answers; "" = none in time. "other" comes last."""
    given: Iterator[str] = iter(answers)

    async def identity(_client: Any) -> str:
        if answer := next(given):
            return answer
        raise RPCError("Timeout expired", RPCStatusCode.DEADLINE_EXCEEDED, b"")

    monkeypatch.setattr(cluster, "LOOK_SECONDS", 0)
    monkeypatch.setattr(cluster, "cluster_identity", identity)
    guard, silent = ClusterGuard(cast(Client, None), "own", node="n1", address="a"), list[datetime | None]()
    guard.watch(silent.append)
    outages = list[tuple[datetime, datetime | None]]()
    guard.watch_outages(lambda *outage: outages.append(outage))
    begun = datetime.now(UTC)
    with pytest.raises(NotThisNode):
        await guard.run()
    assert all(begun <= each <= datetime.now(UTC) for each in silent if each is not None)
    assert len({each for each in silent if each is not None}) <= 1, "it is the time of the last answer"
    assert [at for at, ended in outages if ended is None] == sorted({each for each in silent if each is not None})
    assert [at for at, ended in outages if ended is not None and ended > at] == [at for at, _ in outages[::2]]
    return [each is not None for each in silent]


async def test_a_server_that_hangs_is_silent_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await noticed(monkeypatch, ["own", "", "", "", "", "own", "other"]) == [False, True, True, False, False]


async def test_a_check_that_fails_after_a_pause_of_the_worker_is_no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is over when the worker goes on, whether or not the server has answered."""
    assert await noticed(monkeypatch, ["own", "", "own", "other"]) == [False, False, False]
