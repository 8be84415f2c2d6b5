"""Log lines of a node whose fleet does not answer or refuses the node, and of the end of that state."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.fleet import link
from syncpod.agent.fleet.contact import Contact
from syncpod.agent.fleet.link import Dismissed, FleetLink
from syncpod.agent.fleet.member import FleetMembership
from syncpod.messages.fleet import dismissal
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import ReceivedKey, keep_membership, keep_received_key
from syncpod.temporal.plugin import NoServer
from syncpod.temporal.sealing import FleetKey
from tests.agent.waiting import until

INVITATION = Invitation("f", "n1", "fleet.example.com:7300", "gate.f.syncpod", "default", "", "", "", "")


class Server:
    """A fleet's server with scripted answers."""

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
    monkeypatch.setattr(link, "_CONTACT_SECONDS", 0.001)
    caplog.set_level("INFO")
    unused: Any = None
    contact = Contact(tmp_path)
    linked = FleetLink(tmp_path, "n1", contact, unused, unused, view=unused, to_fleet=unused)
    server: Any = Server()
    hearing = asyncio.create_task(linked._record_contact(server, INVITATION))
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


class Told:
    """A member that records the key that it trusts, and why it leaves."""

    def __init__(self) -> None:
        self.trusted: list[str] = []
        self.parted: list[str] = []

    async def part(self, why: str) -> None:
        self.parted.append(why)

    def trust(self, invitation: Invitation) -> None:
        self.trusted.append(invitation.fleet_key)

    async def send_again(self, _view: object) -> None:
        """Do nothing: there is no list."""

    async def mind_silence(self) -> None:
        """Do nothing: there are no pods."""


async def test_a_key_that_the_fleet_has_told_is_used_at_once_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running commands of the fleet continue: nobody loses an open shell."""
    monkeypatch.setattr(link, "LOOK_SECONDS", 0.01)
    texts = {"certificate": "-----BEGIN CERTIFICATE-----", "authorities": "-----BEGIN CERTIFICATE-----"}
    keys = {"key": "-----BEGIN PRIVATE KEY-----", "fleet_key": "-----BEGIN PUBLIC KEY-----\n1"}
    invitation = replace(INVITATION, **texts, **keys)
    keep_membership(tmp_path, invitation)
    member: Any = Told()
    made: list[Invitation] = []
    connected: list[FleetKey] = []

    def join(given: Invitation) -> FleetMembership:
        made.append(given)
        return cast(FleetMembership, member)

    async def to_fleet(_: Invitation, key: FleetKey) -> Any:
        connected.append(key)
        await asyncio.Event().wait()

    async def view() -> None:
        return None

    linked = FleetLink(tmp_path, "n1", Contact(tmp_path), join, lambda _: [], view=view, to_fleet=to_fleet)
    running = asyncio.create_task(linked.run())
    try:
        await until(lambda: bool(connected))
        keep_received_key(tmp_path, invitation, ReceivedKey(number=1, key="-----BEGIN PUBLIC KEY-----\n2"))
        await until(lambda: bool(member.trusted))
        assert [key.pem[-1] for key in connected] == ["2"] and len(made) == len(member.trusted) == 1
        keep_membership(tmp_path, replace(invitation, certificate="-----BEGIN CERTIFICATE-----\n2"))
        await until(lambda: len(connected) == 2)
        assert connected[1].pem.endswith("1"), "what was told before counts no more"
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert member.parted == [link.WORKER_STOPPED], "another certificate is no farewell"


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        (
            "Custom { kind: InvalidData, error: InvalidCertificate(ExpiredContext { time: UnixTime(1795724004), not_a",
            "the gate's own certificate has expired, or this machine's clock is fast",
        ),
        (
            "Custom { kind: InvalidData, error: InvalidCertificate(NotValidYetContext { time: UnixTime(1795724004), n",
            "the gate's own certificate is not valid yet: this machine's clock is slow",
        ),
        ("received fatal alert: CertificateExpired", "the node's certificate has expired: invite the node anew"),
    ],
)
def test_a_certificate_that_is_not_valid_now_is_told_in_words_that_stay_the_same(said: str, meaning: str) -> None:
    """The SDK's own words have the time in them: each try would be another line of the log."""
    error = NoServer("no Temporal server")
    error.__cause__ = RuntimeError(f"Failed client connect: {said}")
    assert link._cause(error) == meaning
