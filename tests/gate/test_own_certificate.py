"""The gate's certificate is renewed long before its expiry, by the clock that nodes use to check it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from syncpod.gate import door as doors
from tests.agent.waiting import until_asked
from tests.gate.conftest import Gated


class Later(datetime):
    """A clock that is 13 hours ahead."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime.now(tz) + timedelta(hours=13)


async def test_a_gate_whose_machine_was_suspended_has_a_new_certificate_when_it_is_back(
    door: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A steady clock stands still meanwhile, and the certificate does not."""
    own = door.fleet.directory / "gate" / "gate.pem"
    before = own.read_bytes()

    async def is_new() -> bool:
        return await asyncio.to_thread(own.read_bytes) != before

    monkeypatch.setattr(doors, "datetime", Later)
    await until_asked(is_new)
