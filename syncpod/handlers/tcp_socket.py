"""Asking by a TCP connection (pkg/probe/tcp, v1.36)."""

from __future__ import annotations

import asyncio

from syncpod.handlers.answer import Answer, NoAnswer, Target, port_number
from syncpod.pod import TCPSocketAction


async def tcp_socket(action: TCPSocketAction, target: Target, timeout_seconds: float) -> Answer:
    """Open a connection and close it again: that it opens is success. Raises :class:`NoAnswer`."""
    host = action.host or target.ip
    if not host:
        raise NoAnswer("the pod has no address yet")
    port = port_number(action.port, target)
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        async with asyncio.timeout(timeout_seconds):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return Answer("failure", f"dial tcp {where}: i/o timeout")
    except ConnectionRefusedError:
        return Answer("failure", f"dial tcp {where}: connect: connection refused")
    except OSError as error:
        return Answer("failure", f"dial tcp {where}: {error.strerror or error}")
    except ValueError as error:  # a name that is none: one of its labels is too long to be looked up
        return Answer("failure", f"dial tcp: lookup {host}: {error}")
    writer.transport.abort()
    return Answer("success")
