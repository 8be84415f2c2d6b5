"""``syncpod fleet port-forward``: forward local ports to a pod, on whichever node of the fleet it is."""

from __future__ import annotations

from syncpod.cli.commands.port_forward import required
from syncpod.cli.failure import BadInput
from syncpod.cli.input.fleet_names import kind_and_name
from syncpod.cli.input.options import ForwardedPorts, LocalAddresses, Namespace, OfNode, PodName, StateDir


def port_forward(
    pod: PodName,
    ports: ForwardedPorts = None,
    namespace: Namespace = "default",
    node: OfNode = "",
    address: LocalAddresses = None,
    state_dir: StateDir = "",
) -> None:
    """Forward local ports to a pod on whichever node of the fleet it is, until Ctrl-C.

    As `syncpod port-forward`, over the node's own endpoint: the node must listen (`join --listen`). Both ports are
    numbers.
    """
    kind_and_name([pod])
    words, addresses = required(ports, address, f"fleet port-forward {pod}")
    pairs = [_port_pair(word) for word in words]

    from syncpod.cli.actions.fleet_port_forward import forward_ports

    forward_ports(pod, namespace, node, pairs, addresses, state_dir)


def _port_pair(word: str) -> tuple[int, int]:
    """Return the local port, 0 = any, and the pod's. Raises BadInput."""
    local, colon, remote = word.partition(":")
    numbers = (local, remote) if local and colon else (remote or local,)
    if not all(part.isascii() and part.isdigit() and 0 < int(part) < 65536 for part in numbers):
        raise BadInput(f"{word}: write [LOCAL:]REMOTE, each a number from 1 to 65535")
    return int(numbers[0]) if local else 0, int(numbers[-1])
