"""The pods whose logs are to be read.

A pod whose workflow does not answer is taken from this machine's own records, so that its logs can be read in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from syncpod.api.listed import why_recorded
from syncpod.cli.console import remark
from syncpod.cli.failure import Failure
from syncpod.cli.machine.checked_node import this_node
from syncpod.cli.machine.kept_logs import noted_pod
from syncpod.cli.machine.own_journal import missing
from syncpod.cli.node_api import NodeApi
from syncpod.pod import Pod

if TYPE_CHECKING:
    from syncpod.api.client import Reply
    from syncpod.translation.context import NodeContext

LoggedPod: TypeAlias = "tuple[Pod, NodeContext | None]"
"""A pod, and the node whose log directory has its logs; None if the pod's workflow answered."""


def logged_pods(namespace: str, name: str, selector: str) -> list[LoggedPod]:
    """Return the pod of this name, or without a name the pods that match the selector.

    A pod whose workflow does not answer is returned from this machine's records. Without a record, raises Failure for a
    named pod; a selected pod is left out, with a note. Also raises Failure if no pod has the name.
    """

    def read(reply: Reply) -> list[dict[str, Any]]:
        return [each for each in reply.document["items"] if not name or each["metadata"]["name"] == name]

    query = [("pod", name)] if name else [("labelSelector", selector)]
    with NodeApi() as api:
        documents = api.get(f"/api/v1/namespaces/{namespace}/pods", query, read=read)
        if name and not documents:
            raise Failure(missing(api.server, namespace, name))
    if not documents:
        remark(f"No resources found in {namespace} namespace.")

    found: list[LoggedPod] = []
    for document in documents:
        try:
            found.append((Pod.model_validate(document), None) if not why_recorded(document) else _noted(document))
        except Failure as failure:
            if name:
                raise
            remark(f"Note: {failure}")
    return found


def _noted(document: Mapping[str, Any]) -> tuple[Pod, NodeContext]:
    """Print a note and return this machine's record of a pod that does not answer. Raises Failure without a record."""
    node, metadata, why = this_node(), document["metadata"], why_recorded(document)
    pod = noted_pod(node, metadata["namespace"], metadata["name"], metadata.get("uid", ""))
    if pod is None:
        raise Failure(f'pod "{metadata["name"]}" {why}')
    remark(f"Note: pod {metadata['name']} {why}; its logs are read from {node.log_dir}")
    return pod, node
