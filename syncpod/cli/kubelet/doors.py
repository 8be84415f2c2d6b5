"""The places where clients expect a kubelet: its ports, open from the start, and sockets below its root directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from syncpod.cli.kubelet.reading import Given
from syncpod.kernel.early_listening import Place
from syncpod.kernel.machine import own_addresses

PORT: Final = 10250
HEALTHZ_ADDRESS: Final = "127.0.0.1"
HEALTHZ_PORT: Final = 10248
_LOOPBACK: Final = "127.0.0.1"
ALWAYS: Final = ("pod-resources", "graceful_node_shutdown_state")
"""Names in a kubelet's root directory: a directory of sockets, and a file with the times of the last shutdown."""
PODS_API: Final = "pods-api"


def early_ports(given: Given) -> list[Place]:
    """Return the addresses and ports at which the node's worker will serve; invalid values are refused later, by name.

    This module imports little, so that the ports are open at once: the first client after a start waits, and is not
    refused.
    """
    address = str(given.of("address", ""))
    own = [each.strip() for each in str(given.of("--node-ip", "")).split(",") if each.strip()]
    addresses = [address] if address else own or own_addresses()
    places = [(each, given.of("port", PORT)) for each in addresses]
    places.append((address or _LOOPBACK, given.of("readOnlyPort", 0)))
    places.append((str(given.of("healthzBindAddress", HEALTHZ_ADDRESS)), given.of("healthzPort", HEALTHZ_PORT)))
    return places


def link_sockets(root: Path, state_dir: Path, names: Iterable[str]) -> Iterator[str]:
    """Link each of these names below `root` to the same name in the state directory; yield a warning if that fails.

    A file or directory of that name stays, such as an earlier kubelet's; a symlink is replaced.
    """
    for name in names:
        link, place = root / name, state_dir / name
        try:
            if link.is_symlink() and link.readlink() != place:
                link.unlink()
            if not link.is_symlink():
                link.symlink_to(place)
        except OSError as error:
            yield f"{link}: {error.strerror}: programs have to look for the socket in {place}"
