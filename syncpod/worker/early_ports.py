"""The ports of a node at which its worker listens before it serves."""

from __future__ import annotations

from collections.abc import Sequence

from syncpod.kernel.early_listening import Place
from syncpod.settings.node import NodeSettings

_LOOPBACK = "127.0.0.1"


def early_ports(settings: NodeSettings, addresses: Sequence[str]) -> list[Place]:
    """Return where a node with these addresses serves its metrics and the kubelet's ports."""
    access, places = settings.port_access, []
    if settings.metrics_address:
        host, _, port = settings.metrics_address.rpartition(":")
        places.append((host.removeprefix("[").removesuffix("]"), int(port)))
    if settings.serves_kubelet_port:
        places += [(each, settings.kubelet_port) for each in ([access.address] if access.address else addresses)]
    if access.read_only:
        places.append((access.address or _LOOPBACK, access.read_only))
    return places
