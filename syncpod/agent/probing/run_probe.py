"""Runs one probe of a container, of any kind (prober/prober.go, v1.36, runProbe)."""

from __future__ import annotations

from syncpod.cri.port import CriRuntime
from syncpod.handlers.answer import NoAnswer, ProbeAnswer, Target
from syncpod.handlers.http_get import http_get
from syncpod.handlers.probes import run_command, tcp_socket
from syncpod.lifecycle.probing import timeout_seconds
from syncpod.pod import Container, Probe
from syncpod.pod.expansion import ProgramSize, TooLong, expand, size_of

_TRIES = 3
"""How often a probe that cannot be carried out is tried without a pause (maxProbeRetries)."""


def with_static_variables(probe: Probe, container: Container) -> Probe:
    """Return the probe with ``$(NAME)`` in its command replaced by the container's env values in the manifest.

    A variable with valueFrom is empty here, and one from envFrom is not replaced (container/helpers.go, v1.36,
    ExpandContainerCommandOnlyStatic). Raises :class:`NoAnswer` if the command becomes too long for Linux; admission
    refuses such a pod.
    """
    if probe.exec is None:
        return probe
    values = {variable.name: variable.value or "" for variable in container.env}
    program, command = ProgramSize(), []
    try:
        for word in probe.exec.command:
            command.append(expand(word, values))
            program.add(size_of(command[-1]))
    except TooLong as wrong:
        raise NoAnswer(f"its command {wrong}") from None
    return probe.model_copy(update={"exec": probe.exec.model_copy(update={"command": tuple(command)})})


async def run_probe(probe: Probe, target: Target, cri: CriRuntime) -> ProbeAnswer:
    """Run the probe; if it cannot be carried out, try up to three times. Raises :class:`NoAnswer`."""
    for tries_left in reversed(range(_TRIES)):
        try:
            return await _run_once(probe, target, cri)
        except NoAnswer:
            if not tries_left:
                raise
    raise AssertionError("unreachable")


async def _run_once(probe: Probe, target: Target, cri: CriRuntime) -> ProbeAnswer:
    patience = timeout_seconds(probe)
    if probe.exec is not None:
        return await run_command(probe.exec, target, patience, cri)
    if probe.http_get is not None:
        return await http_get(probe.http_get, target, patience)
    if probe.tcp_socket is not None:
        return await tcp_socket(probe.tcp_socket, target, patience)
    if probe.grpc is not None:
        from syncpod.handlers.grpc_health import grpc_health  # slow to import, and few nodes need it

        return await grpc_health(probe.grpc, target, patience)
    raise NoAnswer("missing probe handler")
