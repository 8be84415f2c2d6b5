"""Asking a container one question, whatever its kind (prober/prober.go, v1.36, runProbe)."""

from __future__ import annotations

from syncpod.cri.port import CriRuntime
from syncpod.handlers.answer import Answer, NoAnswer, Target
from syncpod.handlers.command import run_command
from syncpod.handlers.http_get import http_get
from syncpod.handlers.tcp_socket import tcp_socket
from syncpod.lifecycle.probing import timeout_seconds
from syncpod.pod import Container, Probe
from syncpod.translation.expansion import expand

_TRIES = 3
"""How often a question that could not be asked is asked again at once (maxProbeRetries)."""


def with_static_variables(probe: Probe, container: Container) -> Probe:
    """Return the probe with ``$(NAME)`` in its command replaced by what the manifest itself gives the container.

    One that comes from elsewhere (valueFrom) is empty here, and one from envFrom stays as it is written
    (container/helpers.go, v1.36, ExpandContainerCommandOnlyStatic).
    """
    if probe.exec is None:
        return probe
    values = {variable.name: variable.value or "" for variable in container.env}
    command = tuple(expand(word, values) for word in probe.exec.command)
    return probe.model_copy(update={"exec": probe.exec.model_copy(update={"command": command})})


async def ask(probe: Probe, target: Target, cri: CriRuntime) -> Answer:
    """Ask once; what cannot be asked is tried three times in all. Raises :class:`NoAnswer`."""
    for tries_left in reversed(range(_TRIES)):
        try:
            return await _ask(probe, target, cri)
        except NoAnswer:
            if not tries_left:
                raise
    raise AssertionError("unreachable")


async def _ask(probe: Probe, target: Target, cri: CriRuntime) -> Answer:
    patience = timeout_seconds(probe)
    if probe.exec is not None:
        return await run_command(probe.exec, target, patience, cri)
    if probe.http_get is not None:
        return await http_get(probe.http_get, target, patience)
    if probe.tcp_socket is not None:
        return await tcp_socket(probe.tcp_socket, target, patience)
    if probe.grpc is not None:
        from syncpod.handlers.grpc_health import grpc_health  # few nodes have use for it

        return await grpc_health(probe.grpc, target, patience)
    raise NoAnswer("missing probe handler")
