"""A pod whose containers are to be reached from here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncpod.api.client import Reply
from syncpod.api.listed import why_recorded
from syncpod.cli.failure import Failure
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.node_api import NodeApi

if TYPE_CHECKING:
    from syncpod.pod import Pod


def reached_pod(namespace: str, name: str) -> Pod:
    """Return one pod, also one that runs here without a workflow. Raises Failure if there is none, or it is silent."""

    def read(reply: Reply) -> dict[str, Any] | None:
        found: dict[str, Any] | None = reply.document if reply.document["kind"] == "Pod" else None
        return found

    with NodeApi() as api:
        document = api.get(f"/api/v1/namespaces/{namespace}/pods/{name}", read=read)
    if document is None:
        raise Failure(no_such_pod(name, namespace))
    if why := why_recorded(document):
        raise Failure(f'pod "{name}" {why}')
    from syncpod.pod import Pod

    return Pod.model_validate(document)
