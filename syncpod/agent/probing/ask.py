"""Asking a container one question, whatever its kind (prober/prober.go, v1.36, runProbe)."""

from __future__ import annotations

from syncpod.cri.port import CriRuntime
from syncpod.handlers.answer import Answer, NoAnswer, Target
from syncpod.handlers.command import run_command
from syncpod.handlers.tcp_socket import tcp_socket
from syncpod.lifecycle.probing import timeout_seconds
from syncpod.pod import Probe

_TRIES = 3
"""How often a question that could not be asked is asked again at once (maxProbeRetries)."""


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
        from syncpod.handlers.http_get import http_get  # it is slow to import, and many nodes have no use for it

        return await http_get(probe.http_get, target, patience)
    if probe.tcp_socket is not None:
        return await tcp_socket(probe.tcp_socket, target, patience)
    if probe.grpc is not None:
        from syncpod.handlers.grpc_health import grpc_health

        return await grpc_health(probe.grpc, target, patience)
    raise NoAnswer("missing probe handler")
