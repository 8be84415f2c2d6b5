"""Handles ephemeral containers in a manifest, which `get -o yaml` prints for a pod that was debugged.

An API server accepts them in an apply if the pod already has them, since nothing changes. A node never takes them from
a manifest, so they are compared here, and never sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from temporalio.client import Client

from syncpod.cli.failure import BadInput
from syncpod.cli.input.manifests import with_ephemeral_containers
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.pods import require_answer
from syncpod.pod import Admission, Pod

_FIELD: Final = "spec.ephemeralContainers"


async def without_known(client: Client, admissions: Sequence[Admission]) -> list[Admission]:
    """Return the pods without ephemeral containers, after checking that the running pods have them already.

    Raises BadInput with a line for each manifest that has others, and Failure if a running pod does not answer.
    """
    problems: list[str] = []
    for pod, _ in admissions:
        if pod.spec.ephemeral_containers and (problem := await _refusal(client, pod)):
            problems.append(f"pod {pod.metadata.name}: {problem}")
    if problems:
        raise BadInput("\n".join(problems))
    return [Admission(with_ephemeral_containers(pod, ()), warnings) for pod, warnings in admissions]


async def _refusal(client: Client, pod: Pod) -> str:
    """Return why a pod's ephemeral containers are refused; "" = the running pod has them.

    A pod that replaces a pod that is being deleted is new, and has no ephemeral containers.
    """
    running = await TemporalPods(client).read(pod.metadata.namespace, pod.metadata.name)
    if running is None or require_answer(running).pod.metadata.deletion_timestamp is not None:
        return f"{_FIELD}: must not be set in a manifest; they are added to a running pod"
    known = running.pod.spec.ephemeral_containers
    for index, container in enumerate(pod.spec.ephemeral_containers):
        if container not in known:
            return f"{_FIELD}[{index}]: is not one of the pod's; `syncpod debug` adds them to a running pod"
    return ""
