"""Reads the addresses at which a fleet's gate and its nodes listen."""

from __future__ import annotations

import ipaddress

from syncpod.cli.failure import BadInput


def checked_names(names: list[str] | None) -> list[str]:
    """Return the names by which nodes reach a gate. Raises BadInput for an invalid host."""
    for each in names or []:
        if not each or any(sign in each for sign in "/ ,") or not each.isascii():
            raise BadInput(f"--name: {each!r} must be the name or the address of a host, without a port")
    return names or []


def parse_listen(text: str) -> tuple[str, int]:
    """Return the address and the port that a gate is to listen at. Raises BadInput."""
    host, _, port = text.strip().rpartition(":")
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]"))
        if not port.isdecimal() or not port.isascii() or int(port) > 65535:
            raise ValueError(port)
    except ValueError:
        raise BadInput(f"--listen: {text!r} must be an address and a port, such as 127.0.0.1:7300") from None
    return str(address), int(port)
