"""``syncpod port-forward`` and ``syncpod fleet port-forward``: forward local ports to a pod."""

from __future__ import annotations

from dataclasses import dataclass

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.contexts import OnlyFleet
from syncpod.cli.input.fleet_names import kind_and_name
from syncpod.cli.input.options import ForwardedPorts, LocalAddresses, Namespace, OfNode, PodName, StateDir


@dataclass(frozen=True)
class PortForwardOptions:
    """The options of `port-forward` and `fleet port-forward`."""

    pod: PodName
    ports: ForwardedPorts = None
    namespace: Namespace = "default"
    node: OnlyFleet[OfNode] = ""
    address: LocalAddresses = None
    state_dir: OnlyFleet[StateDir] = ""


def port_forward(given: PortForwardOptions) -> None:
    """Forward local ports to a pod, until Ctrl-C.

    Each connection to a port here is passed on to a port of the pod. REMOTE is a port of the pod, by number or by its
    name in the manifest. Without LOCAL, the same number is used here; with nothing before the colon, any free port.
    Listens on the loopback addresses only, unless --address names others.

    A connection that fails is reported, and the others go on, even if the pod's sandbox is created anew meanwhile.

    \b
    Examples:
      syncpod port-forward web 8080:80
      syncpod port-forward web :http 5432
      syncpod port-forward web 8080:80 --address 0.0.0.0
    """  # noqa: D301
    name = pod_name([given.pod])
    words, addresses = _required(given, f"port-forward {name}")

    from syncpod.cli.actions.port_forward import forward_ports

    forward_ports(given.namespace, name, words, addresses)


def fleet_port_forward(given: PortForwardOptions) -> None:
    """Forward local ports to a pod on whichever node of the fleet it is, until Ctrl-C.

    As `syncpod port-forward`, over the node's own endpoint: the node must listen (`join --listen`). Both ports are
    numbers.
    """
    kind_and_name([given.pod])
    words, addresses = _required(given, f"fleet port-forward {given.pod}")
    pairs = [_port_pair(word) for word in words]

    from syncpod.cli.actions.fleet_port_forward import forward_ports

    forward_ports(given.pod, given.namespace, given.node, pairs, addresses, given.state_dir)


def _required(given: PortForwardOptions, typed: str) -> tuple[list[str], list[str]]:
    """Return the words of ports, and the addresses to listen at. Raises BadInput without a port or an address."""
    if not given.ports:
        raise BadInput(f"name a port: syncpod {typed} 8080:80")
    addresses = [part for entry in given.address or ["localhost"] for part in entry.split(",") if part]
    if not addresses:
        raise BadInput("--address: name where to listen: localhost or an address, several with commas")
    return given.ports, addresses


def _port_pair(word: str) -> tuple[int, int]:
    """Return the local port, 0 = any, and the pod's. Raises BadInput."""
    local, colon, remote = word.partition(":")
    numbers = (local, remote) if local and colon else (remote or local,)
    if not all(part.isascii() and part.isdigit() and 0 < int(part) < 65536 for part in numbers):
        raise BadInput(f"{word}: write [LOCAL:]REMOTE, each a number from 1 to 65535")
    return int(numbers[0]) if local else 0, int(numbers[-1])
