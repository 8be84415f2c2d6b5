"""TCP probes (pkg/probe/tcp, v1.36)."""

from __future__ import annotations

import asyncio

from syncpod.handlers.answer import NoAddress, ProbeAnswer, Target, port_number
from syncpod.handlers.dialing import NotConnected, dial, host_and_port
from syncpod.pod import TCPSocketAction


async def tcp_socket(action: TCPSocketAction, target: Target, timeout_seconds: float) -> ProbeAnswer:
    """Open a connection and close it: success if it opens. Raises :class:`NoAnswer`."""
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
