"""The work of ``syncpod fleet port-forward``: forward local ports to a pod, on whichever node of the fleet it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.cli.failure import BadInput
from syncpod.cli.streams.forwarded_ports import ForwardedPort

if TYPE_CHECKING:
    pass


def port_pair(word: str) -> ForwardedPort:
    """Return the local port, 0 = any, and the pod's. Raises BadInput."""
    local, colon, remote = word.partition(":")
    numbers = (local, remote) if local and colon else (remote or local,)
    if not all(part.isascii() and part.isdigit() and 0 < int(part) < 65536 for part in numbers):
        raise BadInput(f"{word}: write [LOCAL:]REMOTE, each a number from 1 to 65535")
    return ForwardedPort(int(numbers[0]) if local else 0, int(numbers[-1]))
