"""One call asks the runtime for many pods whether it is ready."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import AsyncMock

import pytest

from activities.node.recent_answers import FRESH_SECONDS, Readiness
from syncpod.cri.port import RuntimeStatus

READY = RuntimeStatus(
    runtime_ready=True,
    network_ready=True,
    runtime_message="",
    network_message="",
    supplemental_groups_policy=True,
    user_namespaces_host_network=True,
    mount_options=True,
    runtime_handlers=(),
    info={},
)


async def test_a_ready_runtime_is_not_asked_again_for_a_moment_and_one_that_is_not_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("activities.node.recent_answers.monotonic", lambda: now)
    cri = AsyncMock()
    readiness = Readiness(cri)
    cri.status.return_value = READY
    assert [await readiness.status() for _ in range(3)] == [READY] * 3
    assert cri.status.await_count == 1
    now += FRESH_SECONDS
    cri.status.return_value = replace(READY, network_ready=False)
    assert [(await readiness.status()).network_ready for _ in range(3)] == [False] * 3
    assert cri.status.await_count == 4
