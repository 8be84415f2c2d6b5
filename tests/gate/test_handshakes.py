"""Where a gate or a node listens if it is told to listen at all addresses, and which address a node then reports."""

from __future__ import annotations

import socket

import pytest

from syncpod.agent.fleet.reports import reachable
from syncpod.gate.handshakes import listen


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
