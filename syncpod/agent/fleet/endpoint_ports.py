"""Connections to ports of this node's pods, over the node's endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.messages.endpoint import INPUT, STDOUT, Ended, Forward
from syncpod.translation.names import NODE_LABEL, POD_NAME_LABEL, POD_NAMESPACE_LABEL

if TYPE_CHECKING:
    from syncpod.cri.client import CriClient
    from syncpod.streaming.multiplex import Multiplex


class EndpointPorts:
    """Passes connections on. It connects to the runtime with the first of them."""

    def __init__(self, node: str, runtime: str) -> None:
        """`runtime` is where the runtime of `node` listens. Only pods of this node are reached."""
        self._node, self._runtime = node, runtime
        self._client: CriClient | None = None

    async def carry(self, link: Multiplex, asked: Forward) -> Ended:
        """Pass a connection on to a port of a pod until it ends, and return how. Raises PeerGone."""
        from syncpod.cri.client import CriClient  # gRPC takes 50 ms to import: only where it is needed
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
    """The connection, as it comes over the link (`syncpod.handlers.port_forwarding.Near`)."""

    def __init__(self, link: Multiplex) -> None:
        self._link = link

    async def read(self) -> bytes:
        return await self._link.read(INPUT)

    async def write(self, data: bytes) -> None:
        await self._link.write(STDOUT, data)

    async def finish(self) -> None:
        await self._link.end(STDOUT)
