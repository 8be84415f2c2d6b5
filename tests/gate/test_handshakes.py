"""Limits of TLS handshakes, the addresses that a gate or node listens at, and the address that a node reports."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

import pytest

from syncpod.agent.fleet.reports import reachable
from syncpod.gate.handshakes import FAILURES_BURST, FAILURES_OF_ONE_BURST, Client, ConnectionRoom, Handshakes, listen


def answers(port: int, host: str) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as trying:
        return trying.connect_ex((host, port)) == 0


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_who_listens_at_all_addresses_of_ipv6_is_reached_by_ipv4_too() -> None:
    with listen("::", 0) as listener:
        port = listener.getsockname()[1]
        assert answers(port, "127.0.0.1") and answers(port, "::1")


def test_who_listens_at_one_address_is_reached_at_no_other() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert answers(port, "127.0.0.1") and not answers(port, "127.0.0.2")


@pytest.mark.parametrize(
    ("endpoint", "addresses", "reported"),
    [
        ("10.0.0.1:7443", ["10.0.0.2"], "10.0.0.1:7443"),
        ("[fd00::1]:7443", ["10.0.0.2"], "[fd00::1]:7443"),
        ("0.0.0.0:7443", ["10.0.0.2", "fd00::2"], "10.0.0.2:7443"),
        ("0.0.0.0:7443", ["fd00::2", "10.0.0.2"], "10.0.0.2:7443"),
        ("0.0.0.0:7443", ["fd00::2"], ""),
        ("[::]:7443", ["fd00::2", "10.0.0.2"], "[fd00::2]:7443"),
        ("[::]:7443", ["10.0.0.2", "fd00::2"], "10.0.0.2:7443"),
        ("[::]:7443", [], ""),
        ("", ["10.0.0.2"], ""),
    ],
)
def test_a_node_reports_an_address_at_which_it_listens(endpoint: str, addresses: list[str], reported: str) -> None:
    assert reachable(endpoint, addresses) == reported


ROOM = ConnectionRoom(
    silent=6, silent_of_one_address=4, handshakes=6, handshakes_of_one_address=4, of_one_address=1_000
)
HERE, THERE = "192.0.2.1", "192.0.2.2"


class Doorstep:
    """Handshakes, with stand-ins for the tasks of connections."""

    def __init__(self, room: ConnectionRoom = ROOM) -> None:
        self.refused: list[tuple[str, str]] = []
        self.handshakes = Handshakes(
            room,
            lambda address, why: self.refused.append((address, why)),
            lambda name: {"of-a": "a", "of-b": "b"}.get(name, ""),
        )

    def arrive(self, address: str = HERE) -> asyncio.Task[Any]:
        task = cast("asyncio.Task[Any]", Task())
        assert self.handshakes.arrive(task, address)
        return task

    def begin(self, address: str = HERE, name: str = "", now: float = 0) -> Client | None:
        task = self.arrive(address)
        client = self.handshakes.begin(task, address, name, now)
        self.handshakes.left(task, address)
        return client


class Task:
    """Records whether it was cancelled."""

    is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


def test_an_address_whose_handshakes_fail_again_and_again_begins_no_more_but_for_who_is_known() -> None:
    doorstep = Doorstep()
    assert all(doorstep.begin() for _ in range(FAILURES_BURST))
    assert doorstep.begin() is None and doorstep.begin(name="unknown") is None
    assert doorstep.refused[-1] == (HERE, "too many of its handshakes have failed")
    assert doorstep.begin(THERE)
    known = doorstep.begin(name="of-a")
    assert known == Client(HERE, "node a")
    assert doorstep.begin(now=10)


def test_who_is_let_in_has_not_failed() -> None:
    doorstep = Doorstep()
    for _ in range(2 * FAILURES_BURST):
        for name in ("", "of-a"):
            client = doorstep.begin(name=name)
            assert client is not None
            doorstep.handshakes.let_in(client, 0)


def test_a_node_that_fails_again_and_again_uses_up_its_own_share_alone() -> None:
    doorstep = Doorstep()
    assert all(doorstep.begin(name="of-a") for _ in range(FAILURES_OF_ONE_BURST))
    assert doorstep.begin(name="of-a") is None and doorstep.begin(THERE, "of-a") is None
    assert doorstep.begin(name="of-b") and doorstep.begin()


def test_of_those_that_say_nothing_the_oldest_ends_for_a_new_one() -> None:
    doorstep = Doorstep()
    first, *_ = here = [doorstep.arrive() for _ in range(4)]
    assert not any(each.is_cancelled for each in here)  # type: ignore[attr-defined]
    doorstep.arrive()
    assert [each.is_cancelled for each in here] == [True, False, False, False]  # type: ignore[attr-defined]
    assert doorstep.refused == [(HERE, "it sent nothing")]
    doorstep.handshakes.left(first, HERE)
    there = [doorstep.arrive(THERE) for _ in range(3)]  # in all there is room for six
    assert not any(each.is_cancelled for each in there)  # type: ignore[attr-defined]
    assert [each.is_cancelled for each in here] == [True, True, False, False]  # type: ignore[attr-defined]


def test_handshakes_at_once_are_counted_for_each() -> None:
    doorstep = Doorstep()

    def begins(address: str, name: str, now: float) -> bool:
        return doorstep.handshakes.begin(doorstep.arrive(address), address, name, now) is not None

    assert [begins(HERE, "", 0) for _ in range(5)] == [True] * 4 + [False]
    assert [begins(THERE, "", 0) for _ in range(3)] == [True, True, False]  # six strangers in all
    assert begins(HERE, "of-a", 0)
    assert begins(HERE, "", 2)  # in place of one that takes too long
