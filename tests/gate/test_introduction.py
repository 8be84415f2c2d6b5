"""A gate introduces a node to its fleet at the node's first poll with a certificate, and again after a while."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.api.workflowservice.v1 import StartWorkflowExecutionRequest

from syncpod.gate.calls import POLL
from syncpod.gate.introduction import AGAIN_SECONDS, METHOD, Introductions
from syncpod.signing.keys import make_signing_keys


class Behind:
    """A server that records which workflows it is requested to start."""

    def __init__(self) -> None:
        self.started: list[str] = []

    async def call(self, method: str, request: bytes) -> bytes:
        assert method == METHOD
        self.started.append(StartWorkflowExecutionRequest.FromString(request).workflow_id)
        return b""


async def test_a_node_is_introduced_once_for_each_certificate_and_again_later(tmp_path: Path) -> None:
    behind = Behind()
    introductions = Introductions("f", "default", make_signing_keys(tmp_path), behind.call)
    for serial, method, now, expected in (
        ("1", "RecordActivityTaskHeartbeat", 0.0, 0),
        ("1", POLL, 0.0, 1),
        ("1", POLL, AGAIN_SECONDS - 1, 1),
        ("2", POLL, AGAIN_SECONDS - 1, 2),  # it was removed, and is back
        ("1", POLL, AGAIN_SECONDS, 3),
    ):
        await introductions.introduce("n1", serial, method, now)
        assert len(behind.started) == expected
    introductions.forget()
    await introductions.introduce("n1", "2", POLL, AGAIN_SECONDS)
    assert behind.started == ["fleet-node/n1"] * 4


async def test_a_node_that_could_not_be_introduced_is_introduced_at_its_next_poll(tmp_path: Path) -> None:
    behind = Behind()

    async def call(method: str, request: bytes) -> bytes:
        await behind.call(method, request)
        if len(behind.started) == 1:
            raise ConnectionError
        return b""

    introductions = Introductions("f", "default", make_signing_keys(tmp_path), call)
    with pytest.raises(ConnectionError):
        await introductions.introduce("n1", "1", POLL, 0)
    await introductions.introduce("n1", "1", POLL, 0)
    assert len(behind.started) == 2
