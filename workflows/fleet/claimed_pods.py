"""The pods that a node claims to have from its fleet. A stolen node can claim anything."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from syncpod.fleet.workload_pods import workload_in
from syncpod.fleet.workload_traits import KINDS
from syncpod.messages.fleet import OWNER_ANNOTATION
from syncpod.pod import Pod, PodInvalid, Problem, check_size, pod_to_wire, readmit
from syncpod.pod.admission import LARGEST_POD
from syncpod.pod.validation.metadata import check_object_metadata
from workflows.fleet.node_state import key_of

LONGEST_OWNER: Final = 512
"""The most characters of an owner. An owner is the id of a workflow; a server refuses to signal one with a long id."""


@dataclass
class ClaimedPods:
    """The content of a node's list."""

    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By ``namespace/name``: v1 Pods with their defaults, as a fleet keeps them."""
    wrong: list[str] = field(default_factory=list)
    """For each refused document: its place in the list, and why it is refused."""

    def add(self, documents: Iterable[Any], first: int = 0) -> None:
        """Add documents of the list; `first` is the place of the first one."""
        for at, document in enumerate(documents, first):
            try:
                wire = _claimed(document)
            except PodInvalid as invalid:
                self.wrong.append(f"pods[{at}]: {invalid}")
            except RecursionError:
                self.wrong.append(f"pods[{at}]: must not be nested so deeply")
            else:
                self.pods[key_of(wire)] = wire


def _claimed(document: Any) -> dict[str, Any]:
    """Return a pod that a fleet can keep. Raises PodInvalid.

    An earlier version may have admitted the pod by other rules, and the pod must go on. So only the parts that the
    fleet's own workflows need are checked: size, metadata, and a name of each container.
    """
    # This check is the first: a node could send a document that takes longer to read than a workflow task may take.
    if len(json.dumps(document, ensure_ascii=False, separators=(",", ":"))) > LARGEST_POD:
        raise PodInvalid([Problem("pod", f"must be no more than {LARGEST_POD} bytes as JSON")])
    pod = readmit(document).pod
    if problems := [*check_object_metadata(pod.metadata, "metadata"), *_problems(pod), *check_size(pod)]:
        raise PodInvalid(problems)
    return pod_to_wire(pod)


def _problems(pod: Pod) -> Iterable[Problem]:
    owner, path = pod.metadata.annotations.get(OWNER_ANNOTATION, ""), f"metadata.annotations[{OWNER_ANNOTATION}]"
    kind, namespace, _ = workload_in(owner)
    if len(owner) > LONGEST_OWNER:
        yield Problem(path, f"must be no more than {LONGEST_OWNER} characters")
    elif owner and (kind not in KINDS or namespace != (pod.metadata.namespace or "default")):
        # The owner will be signalled. Without this check, a stolen node could cause a signal to any workflow of the
        # fleet.
        yield Problem(path, f"must be a workload of the pod's own namespace, is {owner!r}")
    if not pod.spec.containers:
        yield Problem("spec.containers", "required")
    for field_, containers in (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers)):
        for at, container in enumerate(containers):
            if not container.name:
                yield Problem(f"spec.{field_}[{at}].name", "required")
