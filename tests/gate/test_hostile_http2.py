"""Attacks by a stolen node below gRPC; docs/engineering/attacks.md has a row for each of these tests."""

from __future__ import annotations

import pytest
from temporalio.api.workflowservice.v1 import request_response_pb2 as wire

from syncpod.gate import bounds
from tests.gate.conftest import Gated
from tests.gate.hostile_http2 import ACKNOWLEDGED, PREFACE, SETTINGS, call, connect, growing, sent_until_closed
from tests.gate.test_attacks import call as called
from tests.gate.test_attacks import connected


async def another_is_served(door: Gated) -> None:
    async with connected(door, "a") as [a]:
        await called(a, "GetSystemInfo", wire.GetSystemInfoRequest(), 60)


@pytest.mark.parametrize("acknowledged", [b"", ACKNOWLEDGED])
async def test_headers_that_grow_when_unpacked_close_the_connection(
    door: Gated, caplog: pytest.LogCaptureFixture, acknowledged: bytes
) -> None:
    reader, writer = await connect(door, door.pair("b"))
    await sent_until_closed(reader, writer, [PREFACE + SETTINGS + acknowledged, growing(1, 12_000)])
    assert "the headers of a call may have at most 8192 bytes" in caplog.text
    await another_is_served(door)


async def test_who_leaves_the_settings_unanswered_has_few_headers_unpacked(
    door: Gated, caplog: pytest.LogCaptureFixture
) -> None:
    """gRPC would hold it to no limit."""
    reader, writer = await connect(door, door.pair("b"))
    blocks = [growing(2 * number + 1, 4_000) for number in range(10)]
    await sent_until_closed(reader, writer, [PREFACE + SETTINGS, *blocks])
    assert "without acknowledging the server's settings" in caplog.text
    await another_is_served(door)


async def test_who_is_refused_too_often_is_disconnected(door: Gated, caplog: pytest.LogCaptureFixture) -> None:
    """gRPC itself refuses these calls because of their headers, without notice to the gate."""
    reader, writer = await connect(door, door.pair("b"))
    blocks = [growing(2 * number + 1, 200) for number in range(2 * bounds.REFUSED_BURST)]
    await sent_until_closed(reader, writer, [PREFACE + SETTINGS + ACKNOWLEDGED, *blocks])
    assert "more than 500 of the node's calls were refused" in caplog.text
    await another_is_served(door)


async def test_a_flood_of_small_frames_is_disconnected(door: Gated, caplog: pytest.LogCaptureFixture) -> None:
    reader, writer = await connect(door, door.pair("b"))
    flood = SETTINGS * (2 * bounds.FRAMES_BURST)
    await sent_until_closed(reader, writer, [PREFACE + SETTINGS + ACKNOWLEDGED + call(1), flood])
    assert "a node may send at most 500 small frames a second" in caplog.text
    await another_is_served(door)
