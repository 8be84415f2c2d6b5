"""The pods of a workload: their owner, names, revision and grace."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Final

from syncpod.fleet.workload_documents import PodTemplate, WorkloadDocument
from syncpod.fleet.workload_traits import KINDS
from syncpod.pod import canonical_json

MOST_REPLICAS: Final = 2_000
"""The most replicas. The workload's snapshot has room for twice as many pods, so all can be replaced at once."""
_DIGITS: Final = 10


def workload_id(kind: str, namespace: str, name: str) -> str:
    """Return the id of a workload's workflow: ``workload/Deployment/default/web``."""
    return f"workload/{kind}/{namespace}/{name}"


def workload_in(owner: str) -> tuple[str, str, str]:
    """Return the kind, the namespace and the name in the id of a workload's workflow; three "" for any other id."""
    kind, namespace, name = owner.removeprefix("workload/").split("/", 2) if owner.count("/") == 3 else ("", "", "")
    return (kind, namespace, name) if workload_id(kind, namespace, name) == owner else ("", "", "")


def owner_of(workload: WorkloadDocument) -> str:
    """Return the id of the workload's workflow, which is the owner of its pods."""
    return workload_id(workload.kind, workload.metadata.namespace or "default", workload.metadata.name)


def revision_of(template: PodTemplate) -> str:
    """Return a template's revision, a digest: equal templates have the same, and in practice no others have it."""
    return hashlib.sha256(canonical_json(template).encode()).hexdigest()[:_DIGITS]


def number_of(workload: WorkloadDocument, name: str) -> int | None:
    """Return the number of the pod with this name; None if the workload can have no such pod."""
    return KINDS[workload.kind].names.number(workload.metadata.name, name)


def is_name_for(owner: str, namespace: str, name: str) -> bool:
    """Say whether a workload could give a pod this name; `owner` is the id of the workload's workflow."""
    kind, own_namespace, workload = workload_in(owner)
    return kind in KINDS and namespace == own_namespace and KINDS[kind].names.number(workload, name) is not None


def grace_of(template: PodTemplate) -> timedelta:
    """Return the grace period of the template's pods."""
    seconds = template.spec.termination_grace_period_seconds
    return timedelta(seconds=30 if seconds is None else seconds)
