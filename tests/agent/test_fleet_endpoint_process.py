"""A node's endpoint after its invitation file was damaged: one log line, and it continues with the loaded settings."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from syncpod.agent.fleet import endpoint_process
from syncpod.agent.fleet.endpoint import Endpoint
from syncpod.messages.endpoint import Ended, Forward
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import keep_membership
from syncpod.streaming.multiplex import Multiplex
from tests.agent.waiting import until
from tests.gate.test_invitation import invited

WRONG = "the node's endpoint cannot use the node's invitation: key: is not that of the certificate"


@pytest.fixture
def state_dir(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Path:
    caplog.set_level(logging.INFO)
    (made := tmp_path / "node").mkdir(mode=0o700)
    return made


@pytest.fixture
async def endpoint(tmp_path: Path) -> AsyncIterator[tuple[Endpoint, Invitation]]:
    async def carry(link: Multiplex, asked: Forward) -> Ended:
        return Ended(refused="nothing is carried")

    shown = invited(tmp_path)
    endpoint = Endpoint(shown, os.environ, carry)
    await endpoint.start("127.0.0.1", 0)
    yield endpoint, shown
    await endpoint.close()


async def test_an_endpoint_that_runs_says_once_what_is_wrong_and_again_only_after_it_was_right(
    endpoint: tuple[Endpoint, Invitation], state_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running, shown = endpoint
    identity = endpoint_process._Identity(state_dir)
    damaged = replace(invited(tmp_path), key=shown.key)
    for times in (1, 2):
        keep_membership(state_dir, damaged)
        for _ in range(3):
            assert endpoint_process._shown(running, identity, shown) == shown
        assert caplog.text.count(WRONG) == times
        keep_membership(state_dir, renewed := invited(tmp_path))
        assert endpoint_process._shown(running, identity, shown) == renewed
    assert "Traceback" not in caplog.text


async def test_an_endpoint_that_begins_waits_for_an_invitation_that_can_be_used(
    state_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def read(identity: endpoint_process._Identity) -> Invitation | None:
        nonlocal looks
        looks += 1
        return before(identity)

    before = endpoint_process._Identity.read
    monkeypatch.setattr(endpoint_process._Identity, "read", read)
    monkeypatch.setattr(endpoint_process, "_RETRY_SECONDS", 0.01)
    good = invited(tmp_path)
    keep_membership(state_dir, replace(good, key=invited(tmp_path).key))
    identity = endpoint_process._Identity(state_dir)
    starting = asyncio.create_task(endpoint_process._started(identity, "127.0.0.1", 0, "/nowhere.sock"))
    await until(lambda: looks > 3)
    assert caplog.text.count(WRONG) == 1 and not starting.done()
    keep_membership(state_dir, good)
    started, shown = await starting
    await started.close()
    assert shown == good and started.port
