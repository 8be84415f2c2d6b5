"""Forwards local ports to a pod of this machine, until it is interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.runtime_client import runtime_of
from syncpod.cli.node_api import reached_pod
from syncpod.cli.streams import interrupts
from syncpod.cli.streams.forwarded_ports import ForwardedPort, Forwarder
from syncpod.cli.streams.pod_ports import OurPodPorts

if TYPE_CHECKING:
    from syncpod.pod import Pod


def forward_ports(namespace: str, pod: str, words: Sequence[str], addresses: Sequence[str]) -> None:
    """Listen at these addresses, and forward the ports that the words name, until Ctrl-C.

    Raises BadInput for a word that names no port of the pod, and Failure if the pod does not run or does not exist.
    """
    interrupts.enable()
    asyncio.run(_forward(reached_pod(namespace, pod), words, addresses))


async def _forward(pod: Pod, words: Sequence[str], addresses: Sequence[str]) -> None:
    wanted = forwarded_ports(pod, words)
    if pod.status.phase != "Running":
        raise Failure(f'pod "{pod.metadata.name}" does not run: its phase is {pod.status.phase or "unknown"}')
    async with runtime_of(pod) as runtime:
        pod_ports = OurPodPorts(runtime, pod)
        await pod_ports.require()
        await Forwarder(pod_ports.carry).forward(addresses, wanted)


def forwarded_ports(pod: Pod, words: Sequence[str]) -> list[ForwardedPort]:
    """Parse ``8080:80``, ``80``, ``:80``, ``8080:http``, ``http``. Raises BadInput.

    A port that is only for UDP in the manifest is refused, as by kubectl: only TCP is forwarded.
    """
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
