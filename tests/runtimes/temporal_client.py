"""The tests' connections to a Temporal server."""

from typing import Any

from temporalio.client import Client
from temporalio.service import GrpcCompression


async def connect(address: str, **how: Any) -> Client:
    """Connect as a node's worker does to a server of its own machine: uncompressed.

    The SDK compresses by default, which costs the server a fifth of its processor time.
    """
    return await Client.connect(address, grpc_compression=GrpcCompression.NONE, **how)
