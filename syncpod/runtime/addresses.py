"""Addresses of sandboxes: each its own in 127.0.0.0/8, all of which the machine itself answers on."""

from __future__ import annotations

import hashlib
from collections.abc import Container
from ipaddress import IPv4Address

_FIRST = int(IPv4Address("127.1.0.0"))
"""127.0.0.0/16 is left alone: resolvers and host names of the machine live there (127.0.0.53, 127.0.1.1)."""
_COUNT = 254 * 256 * 256


def free_address(sandbox_id: str, taken: Container[str]) -> str:
    """Return an address for the sandbox that is not `taken`.

    It follows from the id, so that servers of one machine, each with its own state, hardly ever choose the same one.
    """
    offset = int.from_bytes(hashlib.sha256(sandbox_id.encode()).digest()[:8])
    for attempt in range(_COUNT):
        address = IPv4Address(_FIRST + (offset + attempt) % _COUNT)
        if address.packed[3] not in (0, 255) and str(address) not in taken:
            return str(address)
    raise OverflowError("every address of 127.0.0.0/8 has its sandbox")
