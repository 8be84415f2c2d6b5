"""The ports at which a kubelet's clients look for it as soon as it has been started, from what it was given."""

from __future__ import annotations

from typing import Final

from syncpod.cli.kubelet.reading import Given
from syncpod.kernel.early_listening import Place
from syncpod.kernel.own_addresses import own_addresses

PORT: Final = 10250
HEALTHZ_ADDRESS: Final = "127.0.0.1"
HEALTHZ_PORT: Final = 10248
_LOOPBACK: Final = "127.0.0.1"


def early_ports(given: Given) -> list[Place]:
    """Return where the node's worker will serve, if the values are right; wrong ones are refused later, by name.

    It imports next to nothing, so that the first client after a start waits rather than being refused.
    """
    address = str(given.of("address", ""))
    own = [each.strip() for each in str(given.of("--node-ip", "")).split(",") if each.strip()]
    addresses = [address] if address else own or own_addresses()
    places = [(each, given.of("port", PORT)) for each in addresses]
    places.append((address or _LOOPBACK, given.of("readOnlyPort", 0)))
    places.append((str(given.of("healthzBindAddress", HEALTHZ_ADDRESS)), given.of("healthzPort", HEALTHZ_PORT)))
    return places
