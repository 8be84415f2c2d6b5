"""How a container of a pod is to be stopped, by what the pod's spec says of it."""

from __future__ import annotations

from syncpod.messages.steps import KillTarget
from syncpod.pod import Pod


def kill_target(id_: str, name: str, pod: Pod | None, *, grace_seconds: int, with_hook: bool) -> KillTarget:
    """Return how to stop an instance of a container: with its preStop hook, if `pod` is known and has one for it."""
    spec = pod.spec if pod is not None else None
    specs = {each.name: each for each in (*spec.init_containers, *spec.containers)} if spec is not None else {}
    known = specs.get(name)
    lifecycle, ports = (known.lifecycle, known.ports) if known is not None else (None, ())
    return KillTarget(
        id=id_,
        name=name,
        grace_seconds=grace_seconds,
        pre_stop=lifecycle.pre_stop if lifecycle is not None and with_hook else None,
        ports={port.name: port.container_port for port in ports if port.name},
    )
