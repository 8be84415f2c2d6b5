"""A node's log says when its fleet does not answer, or does not let the node in any more, and when that is over."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.fleet import link
from syncpod.agent.fleet.contact import Contact
from syncpod.agent.fleet.link import Dismissed, FleetLink
from syncpod.messages.fleet import dismissal
from syncpod.settings.invitation import Invitation
from tests.agent.waiting import until

INVITATION = Invitation("f", "n1", "fleet.example.com:7300", "gate.f.syncpod", "default", "", "", "", "")


class Server:
    """A fleet's server that answers as it is told."""

    def __init__(self) -> None:
        self.service_client, self.wrong = self, cast(RPCError | None, None)

    async def check_health(self, *, timeout: timedelta) -> None:
        assert timeout
        if self.wrong is not None:
            raise self.wrong


async def test_a_silence_of_the_fleet_is_logged_once_with_its_reason_and_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(link, "_SILENT_SECONDS", -1.0)
    monkeypatch.setattr(link, "_HEARD_SECONDS", 0.001)
    caplog.set_level("INFO")
    unused: Any = None
    contact = Contact(tmp_path)
    linked = FleetLink(tmp_path, "n1", contact, unused, unused, view=unused, to_fleet=unused)
    server: Any = Server()
    hearing = asyncio.create_task(linked._hear(server, INVITATION))
    try:
        server.wrong = RPCError("connection reset", RPCStatusCode.UNKNOWN, b"")
        await until(lambda: "does not answer" in caplog.text)
        server.wrong = None
        await until(lambda: "answers again" in caplog.text)
        where = "fleet f at fleet.example.com:7300"
        assert [record.message for record in caplog.records] == [
            f"{where} does not answer, or does not let this node in: connection reset",
            f"{where} answers again",
        ]
        server.wrong = RPCError(dismissal("n1"), RPCStatusCode.FAILED_PRECONDITION, b"")
        with pytest.raises(Dismissed):
            await hearing
    finally:
        hearing.cancel()
        with contextlib.suppress(asyncio.CancelledError, Dismissed):
            await hearing


@pytest.mark.parametrize(
    "error",
    [
        RPCError(dismissal("n2"), RPCStatusCode.FAILED_PRECONDITION, b""),
        RPCError(dismissal("n1"), RPCStatusCode.PERMISSION_DENIED, b""),
        RuntimeError(dismissal("n1")),
        None,
    ],
)
def test_nothing_but_the_gates_own_sentence_ends_a_nodes_pods(error: BaseException | None) -> None:
    link.require_not_dismissed(error, "n1")
