"""The identity of a Temporal server and namespace, which does not depend on their address."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, GetClusterInfoRequest
from temporalio.client import Client

_RPC: Final = timedelta(seconds=5)


async def cluster_id(client: Client) -> str:
    """Return the id of the server's cluster, which lies in its database. Raises RPCError.

    A dev server with a database keeps it over restarts; one in memory has a new one each time.
    """
    info = await client.workflow_service.get_cluster_info(GetClusterInfoRequest(), retry=True, timeout=_RPC)
    return str(info.cluster_id)


async def cluster_identity(client: Client) -> str:
    """Return the ids of the cluster and of the client's namespace, as ``<cluster>/<namespace>``. Raises RPCError.

    A namespace that was deleted and made again under its name has another id.
    """
    described, cluster = await asyncio.gather(
        client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace), retry=True, timeout=_RPC
        ),
        cluster_id(client),
    )
    return f"{cluster}/{described.namespace_info.id}"
