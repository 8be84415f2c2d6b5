"""Addresses of sandboxes: each has its own in 127.0.0.0/8, which all belong to the machine itself."""

from __future__ import annotations

import hashlib
from collections.abc import Container
from ipaddress import IPv4Address

_FIRST = int(IPv4Address("127.1.0.0"))
"""127.0.0.0/16 is not used: the machine's resolvers and host names are there (127.0.0.53, 127.0.1.1)."""
_COUNT = 254 * 256 * 256


def free_address(sandbox_id: str, taken: Container[str]) -> str:
    """Return an address for the sandbox that is not `taken`.

    It is derived from the id, so that several servers on one machine hardly ever choose the same one.
    """
    offset = int.from_bytes(hashlib.sha256(sandbox_id.encode()).digest()[:8])
    for attempt in range(_COUNT):
        address = IPv4Address(_FIRST + (offset + attempt) % _COUNT)
        if address.packed[3] not in (0, 255) and str(address) not in taken:
            return str(address)
    raise OverflowError("every address of 127.0.0.0/8 has its sandbox")
