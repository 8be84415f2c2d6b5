"""``syncpod port-forward``: forward local ports to a pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.options import ForwardedPorts, LocalAddresses, Namespace, PodName
from syncpod.cli.node_api import reached_pod
from syncpod.cli.streams import interrupts

if TYPE_CHECKING:
    from syncpod.cli.streams.forwarded_ports import ForwardedPort
    from syncpod.pod import Pod


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
    import asyncio

    name = pod_name([pod])
    words, addresses = required(ports, address, f"port-forward {name}")

    interrupts.enable()
    found = reached_pod(namespace, name)

    async def forward() -> None:
        from syncpod.cli.machine.runtime_client import runtime_of
        from syncpod.cli.streams.forwarded_ports import Forwarder
        from syncpod.cli.streams.pod_ports import OurPodPorts

        wanted = forwarded_ports(found, words)
        if found.status.phase != "Running":
            raise Failure(f'pod "{name}" does not run: its phase is {found.status.phase or "unknown"}')
        async with runtime_of(found) as runtime:
            pod_ports = OurPodPorts(runtime, found)
            await pod_ports.require()
            await Forwarder(pod_ports.carry).forward(addresses, wanted)

    asyncio.run(forward())


def required(ports: list[str] | None, address: list[str] | None, command: str) -> tuple[list[str], list[str]]:
    """Return the words of ports, and the addresses to listen at. Raises BadInput without a port or an address."""
    if not ports:
        raise BadInput(f"name a port: syncpod {command} 8080:80")
    addresses = [part for entry in address or ["localhost"] for part in entry.split(",") if part]
    if not addresses:
        raise BadInput("--address: name where to listen: localhost or an address, several with commas")
    return ports, addresses


def forwarded_ports(pod: Pod, words: Sequence[str]) -> list[ForwardedPort]:
    """Parse ``8080:80``, ``80``, ``:80``, ``8080:http``, ``http``. Raises BadInput.

    A port that is only for UDP in the manifest is refused, as by kubectl: only TCP is forwarded.
    """
    from syncpod.cli.streams.forwarded_ports import ForwardedPort

    read = []
    for word in words:
        local, colon, remote = word.partition(":")
        number = _remote_port(pod, remote if colon else local, word)
        if not colon:
            read.append(ForwardedPort(number, number))
        elif not local:
            read.append(ForwardedPort(0, number))
        else:
            read.append(ForwardedPort(_number(local, word), number))
    return read


def _remote_port(pod: Pod, text: str, word: str) -> int:
    declared = [port for container in (*pod.spec.init_containers, *pod.spec.containers) for port in container.ports]
    if text.isascii() and text.isdigit():
        number = _number(text, word)
        same = [port for port in declared if port.container_port == number]
    else:
        same = [port for port in declared if port.name == text and text]
        if not same:
            names = ", ".join(sorted(port.name for port in declared if port.name)) or "none"
            raise BadInput(
                f"{word}: {text!r} is not a port number, nor the name of a port of the pod, which has {names}"
            )
        number = same[0].container_port
    if same and all(port.protocol == "UDP" for port in same):
        raise BadInput(f"{word}: port {number} is for UDP, and only TCP can be forwarded")
    return number


def _number(text: str, word: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise BadInput(f"{word}: {text!r} is not a port: write [LOCAL:]REMOTE, each from 1 to 65535")
    return int(text)
