"""Exec and TCP probes (pkg/probe/exec and pkg/probe/tcp, v1.36). `http_get` and `grpc_health` have the other kinds."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from syncpod.cri.errors import CommandTimedOut, CriError, go_error
from syncpod.cri.port import CriRuntime
from syncpod.go_durations import go_duration
from syncpod.handlers.answer import NoAddress, NoAnswer, ProbeAnswer, Target, port_number, written
from syncpod.handlers.dialing import NotConnected, dial, host_and_port
from syncpod.pod import ExecAction, TCPSocketAction
from syncpod.pod.go_text import go_quote

RUNTIMES_SECONDS: Final = 120.0
"""Seconds after a command's timeout within which the runtime must report the timeout (runtimeRequestTimeout)."""


async def run_command(action: ExecAction, target: Target, timeout_seconds: int, cri: CriRuntime) -> ProbeAnswer:
    """Run the command once: exit code 0 is success; a timeout is a failure, even without an answer of the runtime.

    Raises :class:`NoAnswer` if the runtime cannot run it.
    """
    try:
        done = await cri.exec_sync(target.container_id, action.command, timeout_seconds=timeout_seconds)
    except CommandTimedOut:
        return timed_out(action, timeout_seconds)
    except CriError as error:
        raise NoAnswer(go_error(error)) from error
    return ProbeAnswer("success" if done.exit_code == 0 else "failure", written(done.stdout, done.stderr))


def timed_out(action: ExecAction, timeout_seconds: int) -> ProbeAnswer:
    """Return the answer of a command that took longer than its timeout (pkg/probe/exec/errors.go, v1.36)."""
    limit = go_duration(timedelta(seconds=timeout_seconds))
    return ProbeAnswer("failure", f"command timed out: {go_quote(' '.join(action.command))} timed out after {limit}")


async def tcp_socket(action: TCPSocketAction, target: Target, timeout_seconds: float) -> ProbeAnswer:
    """Open a connection, and close it: an open connection is a success. Raises :class:`NoAnswer`."""
    host = action.host or target.ip
    if not host:
        raise NoAddress("the pod has no address yet")
    port = port_number(action.port, target)
    try:
        async with asyncio.timeout(timeout_seconds):
            connection = await dial(host, port, target.uid)
    except TimeoutError:
        return ProbeAnswer("failure", f"dial tcp {host_and_port(host, port)}: i/o timeout")
    except NotConnected as error:
        return ProbeAnswer("failure", str(error))
    connection.close()
    return ProbeAnswer("success")
