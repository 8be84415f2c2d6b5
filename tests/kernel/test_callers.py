"""Limits of a server's connections: the owner, other users and other machines each have their own."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any, cast

from syncpod.kernel.callers import AT_ONCE, OF_A_STRANGER, Callers
from syncpod.kernel.peers import Peer

SERVER = ("192.0.2.1", 9105)


class Connection:
    """A connection from an address."""

    def __init__(self, host: str) -> None:
        self._said = {"peername": (host, 40000), "sockname": SERVER}

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return self._said[name]


class Room:
    """Connections that stay open."""

    def __init__(self, *, bounds_owner: bool = True) -> None:
        owner = Peer(os.geteuid(), 1)
        self.callers = Callers(lambda client, _: owner if client[0] == "owner" else None, bounds_owner=bounds_owner)
        self.open = ExitStack()

    def has(self, host: str) -> bool:
        """Connect, and return whether there was room; if not, the connection is closed at once."""
        with ExitStack() as connected:
            has_room = connected.enter_context(self.callers.counted(cast("Any", Connection(host))))
            if has_room:
                self.open.push(connected.pop_all())
        return has_room

    def served(self, hosts: list[str]) -> int:
        """Return how many connections from these addresses had room."""
        return sum([self.has(host) for host in hosts])


def test_one_other_machine_does_not_keep_the_others_out() -> None:
    room = Room()
    assert room.served(["198.51.100.7"] * 50) == OF_A_STRANGER
    assert room.has("203.0.113.9") and room.has("owner")


def test_addresses_of_one_machine_and_of_this_one_count_as_one() -> None:
    room = Room()
    assert room.served([f"2001:db8::{number:x}" for number in range(1, 50)]) == OF_A_STRANGER
    assert room.served([f"127.0.0.{number}" for number in range(1, 50)] + [SERVER[0]]) == OF_A_STRANGER
    assert room.served([f"::ffff:203.0.113.{number}" for number in range(1, 5)]) == 4


def test_all_other_machines_together_have_a_bound_and_the_owner_has_room() -> None:
    room = Room()
    assert room.served([f"203.0.113.{number}" for number in range(1, 100)]) == AT_ONCE
    assert room.served(["owner"] * 50) == AT_ONCE


def test_whoever_the_kernel_does_not_name_has_room_where_the_owner_is_not_bounded() -> None:
    assert Room(bounds_owner=False).served(["203.0.113.9"] * 50) == 50
