"""The pods of a workload: their revision, names and specs, and what the workload's document asks for.

Mirrors pkg/controller/controller_utils.go, v1.36, GetPodFromTemplate. Difference: pods are numbered, as in ``web-7``,
so that their names show which was made later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from syncpod.fleet.daemons import DaemonRolloutSpec, with_daemon_tolerations
from syncpod.fleet.rollout import RolloutSpec
from syncpod.fleet.sizes import surge_and_unavailable
from syncpod.fleet.when_lost import WHEN_LOST, WhenLost
from syncpod.fleet.workload_documents import (
    LARGEST_NUMBER,
    NO_DEADLINE,
    DaemonSet,
    Deployment,
    PodTemplate,
    Workload,
    lost_rule,
)
from syncpod.fleet.workload_traits import KINDS, is_per_node
from syncpod.pod import Pod, canonical_json

_DIGITS: Final = 10


def workload_id(kind: str, namespace: str, name: str) -> str:
    """Return the id of a workload's workflow: ``workload/Deployment/default/web``."""
    return f"workload/{kind}/{namespace}/{name}"


def workload_in(owner: str) -> tuple[str, str, str]:
    """Return the kind, the namespace and the name in the id of a workload's workflow; each is "" in any other id."""
    kind, namespace, name = owner.removeprefix("workload/").split("/", 2) if owner.count("/") == 3 else ("", "", "")
    return (kind, namespace, name) if workload_id(kind, namespace, name) == owner else ("", "", "")


def owner_of(workload: Workload) -> str:
    """Return the id of the workflow that a workload's pods belong to."""
    return workload_id(workload.kind, workload.metadata.namespace or "default", workload.metadata.name)


def revision_of(template: PodTemplate) -> str:
    """Return a template's revision: a digest, which equal templates share and different ones in practice do not."""
    return hashlib.sha256(canonical_json(template).encode()).hexdigest()[:_DIGITS]


def pod_of(workload: Workload, template: PodTemplate, number: int) -> Pod:
    """Return a workload's pod with this number, made from the given template, which may be an earlier one.

    A single Pod is returned as it is, whatever the template and the number.
    """
    if isinstance(workload, Pod):
        return workload
    annotations, rule = template.metadata.annotations, lost_rule(workload)
    if rule != WhenLost():
        annotations = {**annotations, WHEN_LOST: str(rule)}
    metadata = template.metadata.model_copy(
        update={
            "name": name_of(workload, number),
            "namespace": workload.metadata.namespace or "default",
            "labels": {**template.metadata.labels, KINDS[workload.kind].revision_label: revision_of(template)},
            "annotations": annotations,
        }
    )
    pod = Pod(metadata=metadata, spec=template.spec)
    return with_daemon_tolerations(pod) if is_per_node(workload.kind) else pod


def name_of(workload: Workload, number: int) -> str:
    """Return the name of the pod with this number. A single Pod keeps its own name."""
    name = workload.metadata.name
    return f"{name}-{number}" if KINDS[workload.kind].has_template else name


def number_of(workload: Workload, name: str) -> int | None:
    """Return the number of the pod with this name, 0 for a single Pod; None if the workload can have no such pod."""
    return _number_in(workload.kind, workload.metadata.name, name)


def is_name_for(owner: str, namespace: str, name: str) -> bool:
    """Say whether a workload could give a pod this name; `owner` is the id of the workload's workflow."""
    kind, own_namespace, workload = workload_in(owner)
    return bool(kind) and namespace == own_namespace and _number_in(kind, workload, name) is not None


def _number_in(kind: str, workload: str, name: str) -> int | None:
    if kind not in KINDS:
        return None
    if not KINDS[kind].has_template:
        return 0 if name == workload else None
    digits = name.removeprefix(f"{workload}-")
    if digits == name or len(digits) > len(str(LARGEST_NUMBER)) or not (digits.isascii() and digits.isdecimal()):
        return None
    number = int(digits)
    return number if name == f"{workload}-{number}" and 0 < number <= LARGEST_NUMBER else None


def next_number(last: int, is_taken: Callable[[int], bool]) -> int:
    """Return the number of a workload's next pod. After the largest number come the small ones again.

    Any node can claim to have the pod with the largest number, and the names of later ones must still be valid.
    """
    number = last % LARGEST_NUMBER + 1
    while is_taken(number):
        number = number % LARGEST_NUMBER + 1
    return number


def rollout_spec_of(deployment: Deployment) -> RolloutSpec:
    """Return what an admitted Deployment asks for."""
    spec, rolling = deployment.spec, deployment.spec.strategy.rolling_update
    replicas = 1 if spec.replicas is None else spec.replicas
    surge, unavailable = (rolling.max_surge, rolling.max_unavailable) if rolling is not None else (0, 0)
    more, fewer = surge_and_unavailable(surge or 0, unavailable or 0, replicas)
    seconds = spec.progress_deadline_seconds
    return RolloutSpec(
        revision=revision_of(spec.template),
        replicas=replicas,
        max_surge=more,
        max_unavailable=fewer,
        recreate=spec.strategy.type == "Recreate",
        paused=spec.paused,
        min_ready=timedelta(seconds=spec.min_ready_seconds),
        deadline=None if seconds in (None, NO_DEADLINE) else timedelta(seconds=seconds or 0),
        when_lost=lost_rule(deployment),
        grace=grace_of(spec.template),
    )


def daemon_rollout_spec_of(daemons: DaemonSet) -> DaemonRolloutSpec:
    """Return what an admitted DaemonSet asks for."""
    rolling = daemons.spec.update_strategy.rolling_update
    return DaemonRolloutSpec(
        revision=revision_of(daemons.spec.template),
        max_unavailable=(rolling.max_unavailable or 0) if rolling is not None else 1,
        max_surge=(rolling.max_surge or 0) if rolling is not None else 0,
        min_ready=timedelta(seconds=daemons.spec.min_ready_seconds),
    )


def grace_of(template: PodTemplate) -> timedelta:
    """Return the grace period of the template's pods."""
    seconds = template.spec.termination_grace_period_seconds
    return timedelta(seconds=30 if seconds is None else seconds)
