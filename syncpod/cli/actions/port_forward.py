"""The work of ``syncpod port-forward``: forward local ports to a pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from syncpod.cli.failure import BadInput
from syncpod.cli.streams.forwarded_ports import ForwardedPort

if TYPE_CHECKING:
    from syncpod.pod import Pod


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
