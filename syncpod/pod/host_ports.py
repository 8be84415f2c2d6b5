"""The ports of the node that a pod takes, and their conflicts.

Mirrors scheduler/util/utils.go, GetHostPorts, and kube-scheduler's framework.HostPortInfo, v1.36.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from syncpod.pod.kinds import Pod

_EVERY_ADDRESS = "0.0.0.0"


class HostPort(NamedTuple):
    """A port on one address of the node; ``0.0.0.0`` means all addresses."""

    ip: str
    protocol: str
    port: int


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the ports of the node that the pod's main containers and sidecars take, each once.

    In a pod on the node's network, every container port is a port of the node: defaulting has set its hostPort.
    """
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    found = (
        HostPort(port.host_ip or _EVERY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in (*sidecars, *pod.spec.containers)
        for port in container.ports
        if port.host_port
    )
    return tuple(dict.fromkeys(found))


def is_taken(wanted: Iterable[HostPort], used: Collection[HostPort]) -> bool:
    """Say whether a wanted port is taken: on the same address, or either of the two is on all addresses.

    Difference: ``::`` means all addresses too, where the scheduler treats it as a single one.
    """
    everywhere = {(port.protocol, port.port) for port in used if _is_every(port.ip)}
    anywhere = {(port.protocol, port.port) for port in used}
    return any(
        port in used
        or (port.protocol, port.port) in everywhere
        or (_is_every(port.ip) and (port.protocol, port.port) in anywhere)
        for port in wanted
    )


def _is_every(ip: str) -> bool:
    return ip in (_EVERY_ADDRESS, "::")
