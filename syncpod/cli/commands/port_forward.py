"""``syncpod port-forward``: forward local ports to a pod."""

from __future__ import annotations

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.options import ForwardedPorts, LocalAddresses, Namespace, PodName


def port_forward(
    pod: PodName,
    ports: ForwardedPorts = None,
    namespace: Namespace = "default",
    address: LocalAddresses = None,
) -> None:
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
    name = pod_name([pod])
    words, addresses = required(ports, address, f"port-forward {name}")

    from syncpod.cli.actions.port_forward import forward_ports

    forward_ports(namespace, name, words, addresses)


def required(ports: list[str] | None, address: list[str] | None, command: str) -> tuple[list[str], list[str]]:
    """Return the words of ports, and the addresses to listen at. Raises BadInput without a port or an address."""
    if not ports:
        raise BadInput(f"name a port: syncpod {command} 8080:80")
    addresses = [part for entry in address or ["localhost"] for part in entry.split(",") if part]
    if not addresses:
        raise BadInput("--address: name where to listen: localhost or an address, several with commas")
    return ports, addresses
