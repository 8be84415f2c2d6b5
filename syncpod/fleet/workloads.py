"""The kinds of workloads: the table of their objects, and the reading of a document of any kind.

A new kind needs its row in `workload_traits`, a module with the class of its object, and its place in two lines here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from syncpod.fleet.bare_pods import BarePods
from syncpod.fleet.daemon_sets import DaemonSet, DaemonSets
from syncpod.fleet.deployments import Deployment, Deployments
from syncpod.fleet.workload_documents import AdmittedWorkload
from syncpod.fleet.workload_kinds import WorkloadKind
from syncpod.fleet.workload_traits import KINDS, one_of
from syncpod.pod import Pod, PodInvalid, Problem

Workload = Deployment | DaemonSet | Pod
"""The document of a workload."""
_KINDS: Final[Mapping[str, WorkloadKind[Any]]] = {
    each.traits.name: each for each in (Deployments(), DaemonSets(), BarePods())
}


def kind_of(workload: Workload) -> WorkloadKind[Any]:
    """Return the object of a workload's kind."""
    return _KINDS[workload.kind]


def admit_workload(document: Any) -> AdmittedWorkload[Workload]:
    """Admit the document of a workload of any kind. Idempotent.

    The output of ``kubectl get -o yaml`` is accepted too: fields that an API server filled in are dropped, with a
    warning. Raises PodInvalid with every field that is wrong, unknown or not supported, each by its path.
    """
    kind = _KINDS.get(str(document.get("kind"))) if isinstance(document, Mapping) else None
    if kind is None:
        raise PodInvalid([Problem("kind", f"must be {one_of(tuple(KINDS))}")])
    return kind.admit(document)


def readmit_workload(document: Mapping[str, Any]) -> Workload:
    """Read a workload that has already been admitted, perhaps by an earlier version with other rules."""
    workload: Workload = _KINDS[str(document.get("kind"))].readmit(document)
    return workload
