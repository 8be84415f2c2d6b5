"""Changes an existing pod: reads its document, changes and checks it, and applies it again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from temporalio.client import Client

from syncpod.cli.failure import BadInput
from syncpod.cli.input.manifests import admit_document
from syncpod.cli.temporal.ephemeral_containers import without_known
from syncpod.cli.temporal.pod_apply import apply_pod
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.messages.pod_commands import Change
from syncpod.pod import PodInvalid, parse_pod
from syncpod.pod.problems import lines

Document = dict[str, Any]


async def change_pod(client: Client, namespace: str, name: str, change: Callable[[Document], Document]) -> Change:
    """Apply a pod's document, a v1 Pod, as changed by `change`, which may work in place; return the result.

    The whole document is applied, so that it overwrites any other change between the read and the apply. Raises
    BadInput if the result is not a Pod or the change is not allowed, and Failure if there is no such pod or it does
    not answer.
    """
    running = await TemporalPods(client).required(namespace, name)
    before = running.document
    after = change(copy.deepcopy(before))
    if after == before:
        return Change.UNCHANGED
    try:
        pod = parse_pod(after)
        _require_same(running.pod.metadata.name, pod.metadata.name, "metadata.name")
        _require_same(running.pod.metadata.namespace, pod.metadata.namespace, "metadata.namespace")
        _require_same(running.pod.spec.node_name, pod.spec.node_name, "spec.nodeName")
        ((pod, _),) = await without_known(client, [admit_document(pod)])
    except PodInvalid as wrong:
        raise BadInput("\n".join(f"pod {name}: {line}" for line in lines(wrong.problems))) from None
    return (await apply_pod(client, pod, node=running.pod.spec.node_name)).change


def _require_same(before: str, after: str, path: str) -> None:
    """Raise BadInput if a field that names the pod was changed."""
    if before != after:
        raise BadInput(f"{path}: may not be changed: it is {before}, not {after}")
