"""The machine's architecture, and the addresses by which others reach it."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

_BY_MACHINE: Final[Mapping[str, str]] = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
_SIOCGIFADDR: Final = 0x8915
_ROUTED: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses that are reserved for documentation, so no machine has them and only default routes lead to them."""


def architecture() -> str:
    """Return Go's name of the machine's architecture, which a v1 Node and an OCI image use."""
    machine = os.uname().machine
    return _BY_MACHINE.get(machine, machine)


def own_addresses() -> tuple[str, ...]:
    """Return the source addresses of the default routes, IPv4 first; without a default route, an interface's address.

    Sends no packets.
    """
    routed = tuple(address for family, beyond in _ROUTED if (address := _source_address(family, beyond)))
    return routed or _interface_addresses()[:1]


def _source_address(family: socket.AddressFamily, beyond: str) -> str:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((beyond, 9))  # connecting UDP looks up the route and sends nothing
        except OSError:
            return ""
        address = ip_address(probe.getsockname()[0])
    return "" if address.is_loopback or address.is_link_local else str(address)


def _interface_addresses() -> tuple[str, ...]:
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as query:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(query, _SIOCGIFADDR, request)
            except OSError:
                continue  # an interface without an IPv4 address
            found.append(ip_address(answer[20:24]))
    return tuple(str(address) for address in found if not address.is_loopback)
