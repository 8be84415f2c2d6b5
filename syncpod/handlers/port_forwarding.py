"""Forwards connections to ports of a pod, through its runtime.

Each connection has its own URL and SPDY session. kubectl puts all connections on one session (portforward.go, v1.36):
on one session, a connection whose other end does not read blocks all others, and a refused connection can end them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from syncpod.cri.errors import CriError, TransportFault
from syncpod.cri.port import SandboxSummary
from syncpod.streaming.client import session_of
from syncpod.streaming.connection import UpgradeRefused
from syncpod.streaming.spdy import SpdyStream

PROTOCOL: Final = "portforward.k8s.io"


class NotForwarded(Exception):
    """One connection could not be forwarded; the text says why."""


class PodGone(NotForwarded):
    """The pod has been deleted: nothing more can be forwarded."""


class Runtime(Protocol):
    """The calls to a runtime (`syncpod.cri.client.CriClient`)."""

    async def list_pod_sandboxes(self, *, labels: Mapping[str, str]) -> Sequence[SandboxSummary]:
        """Return the sandboxes with these labels."""

    async def port_forward(self, sandbox_id: str) -> str:
        """Return the URL at which one connection is forwarded."""


class Near(Protocol):
    """Our end of a connection. Each method raises OSError if the connection breaks."""

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end."""

    async def write(self, data: bytes) -> None:
        """Send, waiting while the other end does not read."""

    async def finish(self) -> None:
        """Finish sending."""


class PodPorts:
    """The ports of one pod of this node."""

    def __init__(self, runtime: Runtime, name: str, labels: Mapping[str, str]) -> None:
        """`labels` select the pod's sandboxes; `name` is the pod's name in errors."""
        self._runtime, self._name, self._labels = runtime, name, labels

    async def carry(self, near: Near, port: int) -> None:
        """Forward one connection to a port of the pod until it ends.

        Raises NotForwarded, TransportFault, and OSError if our end breaks.
        """
        sandbox = await self.sandbox()
        try:
            url = await self._runtime.port_forward(sandbox)
        except TransportFault:
            raise
        except CriError as error:
            raise NotForwarded(error.message or error.code) from None
        try:
            async with session_of(url, PROTOCOL) as session:
                headers = {"port": str(port), "requestid": "0"}
                try:
                    errors = await session.open({"streamtype": "error", **headers})
                    await errors.finish()
                    data = await session.open({"streamtype": "data", **headers})
                except ConnectionError as error:
                    raise NotForwarded(f"the runtime does not take the connection: {error}") from None
                await _pass(near, data, errors)
        except UpgradeRefused as error:
            raise NotForwarded(f"the runtime does not forward: {error}") from None

    async def sandbox(self) -> str:
        """Return the id of the pod's current sandbox.

        Raises PodGone if it has none, NotForwarded if it is not ready, and TransportFault.
        """
        found = await self._runtime.list_pod_sandboxes(labels=self._labels)
        if not found:
            raise PodGone(f'pod "{self._name}" is gone')
        newest = max(found, key=lambda sandbox: (sandbox.state == "SANDBOX_READY", sandbox.attempt))
        if newest.state != "SANDBOX_READY":
            raise NotForwarded(f'pod "{self._name}" has no sandbox that is ready')
        return newest.id


async def _pass(near: Near, data: SpdyStream, errors: SpdyStream) -> None:
    """Copy bytes both ways until the runtime reports how the connection has ended.

    Either end may close its direction first; containerd then gives the pod one more second (socat's rule). Raises
    NotForwarded, and OSError if our end broke.
    """
    sending = asyncio.create_task(_to_pod(near, data))
    receiving = asyncio.create_task(_from_pod(data, near))
    hearing = asyncio.create_task(errors.input.whole())
    ended = asyncio.gather(receiving, hearing)
    pending: set[asyncio.Future[Any]] = {ended, sending}
    try:
        while not ended.done():
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        _, said = ended.result()
        if said:
            raise NotForwarded(said.decode(errors="replace"))
        if data.cut_off:
            raise ConnectionResetError("the pod's end broke off")
    finally:
        for task in (sending, receiving, hearing):
            task.cancel()
        await asyncio.gather(ended, sending, receiving, hearing, return_exceptions=True)


async def _to_pod(near: Near, data: SpdyStream) -> None:
    while chunk := await near.read():
        try:
            await data.write(chunk)
        except ConnectionError:
            return  # the pod takes no more input; its output is still read
    with contextlib.suppress(ConnectionError):
        await data.finish()


async def _from_pod(data: SpdyStream, near: Near) -> None:
    while chunk := await data.input.get():
        await near.write(chunk)
    if not data.cut_off:
        await near.finish()
