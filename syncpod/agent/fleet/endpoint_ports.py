"""Forwards connections over the node's endpoint to ports of its pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.messages.endpoint import INPUT, STDOUT, Ended, Forward
from syncpod.translation.names import NODE_LABEL, POD_NAME_LABEL, POD_NAMESPACE_LABEL

if TYPE_CHECKING:
    from syncpod.cri.client import CriClient
    from syncpod.streaming.multiplex import Multiplex


class EndpointPorts:
    """Forwards connections. The first one makes it connect to the runtime."""

    def __init__(self, node: str, runtime: str) -> None:
        """`runtime` is the address of the runtime of `node`. Only pods of this node can be reached."""
        self._node, self._runtime = node, runtime
        self._client: CriClient | None = None

    async def carry(self, link: Multiplex, asked: Forward) -> Ended:
        """Forward a connection to a port of a pod until it ends, and return how it ended. Raises PeerGone."""
        from syncpod.cri.client import CriClient  # imported late: gRPC takes 50 ms
        from syncpod.cri.errors import TransportFault
        from syncpod.handlers.port_forwarding import NotForwarded, PodGone, PodPorts
        from syncpod.streaming.multiplex import PeerGone

        if self._client is None:
            self._client = CriClient(self._runtime)
        labels = {NODE_LABEL: self._node, POD_NAMESPACE_LABEL: asked.namespace, POD_NAME_LABEL: asked.pod}
        try:
            await PodPorts(self._client, asked.pod, labels).carry(_Far(link), asked.port)
        except NotForwarded as why:
            return Ended(refused=str(why), is_pod_gone=isinstance(why, PodGone))
        except TransportFault:
            return Ended(refused=f"the runtime of node {self._node} does not answer")
        except PeerGone:
            raise
        except ConnectionError as broken:
            return Ended(refused=str(broken))
        return Ended(code=0)


class _Far:
    """The client's side of the connection, over the link (a `syncpod.handlers.port_forwarding.Near`)."""

    def __init__(self, link: Multiplex) -> None:
        self._link = link

    async def read(self) -> bytes:
        return await self._link.read(INPUT)

    async def write(self, data: bytes) -> None:
        await self._link.write(STDOUT, data)

    async def finish(self) -> None:
        await self._link.end(STDOUT)
