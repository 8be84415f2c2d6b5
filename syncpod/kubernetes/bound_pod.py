"""Makes the pod that a node runs from a Pod that the API server has bound to the node. Values in, values out.

Mirrors pkg/kubelet/config/apiserver.go and kubelet.go, v1.36, syncLoopIteration, filterOutInactivePods. The document
for the pod's workflow changes only with the Pod's labels, annotations, owners, spec or generation. Other changes, such
as the node's own status writes, give the same document, and so no signal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from syncpod.kubernetes.json_documents import mapping
from syncpod.kubernetes.pod_status import FINISHED
from syncpod.objects import Need, ObjectRef, needs, references
from syncpod.pod import Pod, PodInvalid, admit, parse_ephemeral_container, parse_pod, pod_to_wire
from syncpod.pod.admission import os_refusal
from syncpod.pod.origin import KUBERNETES_SOURCE, SOURCE_ANNOTATION
from syncpod.pod.static import HASH_ANNOTATION

_SECURITY: Final = "securityContext"
_WINDOWS: Final = "windowsOptions"
_KEPT_METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "labels",
    "annotations",
    "generateName",
    "generation",
    "ownerReferences",
)


UNSUPPORTED: Final = "UnsupportedByNode"
"""The reason for the refusal of a pod with a field that this node cannot obey."""


class PodRefusal(NamedTuple):
    """Why a node refuses a pod: the pod's status.reason and status.message."""

    reason: str
    message: str


@dataclass(frozen=True)
class BoundPod:
    """One pod that a cluster has bound to this node."""

    namespace: str
    name: str
    uid: str
    phase: str
    """The pod's phase at the API server; "" = none yet."""
    document: Mapping[str, Any] | None
    """The pod for its workflow, a v1 Pod with all defaults; None if the node cannot take it.

    It has the cluster's generation, and the ephemeral containers that the cluster has added to the pod.
    """
    refusal: PodRefusal | None
    """Why the node cannot take the pod; None if it can."""
    warnings: tuple[str, ...]
    """The fields that the node leaves out, a sentence for each."""
    refs: frozenset[ObjectRef]
    """The objects of the cluster that the pod refers to, and those that the cluster gives the pod without a
    reference."""
    needs: tuple[Need, ...]
    """The objects that the cluster makes only for this pod."""
    grace: int | None
    """The grace period of the pod's deletion, in seconds; None = it is not deleted."""

    @property
    def is_finished(self) -> bool:
        """True if the pod's phase at the API server is final: the pod never runs again."""
        return self.phase in FINISHED

    @property
    def runtime_class(self) -> str:
        """The RuntimeClass that the pod names; "" = none."""
        return str(mapping((self.document or {}).get("spec")).get("runtimeClassName") or "")

    def document_with(self, handler: str | None) -> dict[str, Any] | None:
        """Return the document with the runtime's `handler` in place of the RuntimeClass; None if either is None."""
        if self.document is None or handler is None:
            return None
        if not self.runtime_class:
            return dict(self.document)
        return {**self.document, "spec": {**self.document["spec"], "runtimeClassName": handler}}

    @property
    def is_to_run(self) -> bool:
        """True if the node runs the pod: it can, and the cluster has neither deleted the pod nor recorded its end."""
        return self.document is not None and self.grace is None and not self.is_finished


def bound_pod(given: Mapping[str, Any], known: BoundPod | None = None) -> BoundPod | None:
    """Return the pod for a Pod of the API server; None if it lacks a namespace, a name or a UID.

    `known` is the result for an earlier version of the Pod with the same `concern`: its document is reused.
    """
    metadata = mapping(given.get("metadata"))
    namespace, name, uid = (str(metadata.get(each) or "") for each in ("namespace", "name", "uid"))
    if not (namespace and name and uid):
        return None
    made = (
        _document(given)
        if known is None
        else _Made(known.document, known.refusal, known.warnings, known.needs, known.refs)
    )
    grace = metadata.get("deletionGracePeriodSeconds")
    is_deleted = bool(metadata.get("deletionTimestamp"))
    return BoundPod(
        namespace=namespace,
        name=name,
        uid=uid,
        phase=str(mapping(given.get("status")).get("phase") or ""),
        document=made.document,
        refusal=made.refusal,
        warnings=made.warnings,
        refs=made.refs,
        needs=made.needs,
        grace=_number(grace) if is_deleted else None,
    )


def concern(given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the parts of a Pod on which its document depends."""
    metadata = mapping(given.get("metadata"))
    kept = ("uid", "labels", "annotations", "generation", "ownerReferences")
    return *(metadata.get(name) for name in kept), given.get("spec")


class _Made(NamedTuple):
    """The part of a `BoundPod` that depends only on the Pod's document."""

    document: Mapping[str, Any] | None = None
    refusal: PodRefusal | None = None
    warnings: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    refs: frozenset[ObjectRef] = frozenset()


def _document(given: Mapping[str, Any]) -> _Made:
    metadata, ignored = mapping(given.get("metadata")), list[str]()
    spec = _for_linux(mapping(given.get("spec")), ignored)
    ephemeral = spec.pop("ephemeralContainers", None)
    kept = {name: metadata[name] for name in _KEPT_METADATA if metadata.get(name)}
    # The pod is marked before its admission: admission, and the search for its objects, depend on the pod's source.
    marked = {**mapping(kept.get("annotations")), SOURCE_ANNOTATION: KUBERNETES_SOURCE, HASH_ANNOTATION: kept["uid"]}
    bare = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**kept, "annotations": marked},
        "spec": spec,
    }
    try:
        # The server may be newer than this node: a field that only the server knows is no reason to refuse a pod.
        pod: Pod = parse_pod(bare, strict=False)
        if (wrong_os := os_refusal(pod)) is not None:
            return _Made(refusal=PodRefusal(*wrong_os))
        admitted = admit(pod)
        joined = tuple(parse_ephemeral_container(each, strict=False) for each in ephemeral or ())
    except PodInvalid as wrong:
        return _Made(refusal=PodRefusal(UNSUPPORTED, str(wrong)))
    document = pod_to_wire(admitted.pod)
    if joined:
        document["spec"]["ephemeralContainers"] = [pod_to_wire(each) for each in joined]
    whole = admitted.pod.model_copy(
        update={"spec": admitted.pod.spec.model_copy(update={"ephemeral_containers": joined})}
    )
    return _Made(
        document=document,
        warnings=(*ignored, *(str(each) for each in admitted.warnings)),
        needs=tuple(needs(whole)),
        refs=frozenset(each.ref for each in references(whole)),
    )


def _for_linux(spec: Mapping[str, Any], ignored: list[str]) -> dict[str, Any]:
    """Return a spec without its options for Windows, as a kubelet on Linux reads it; `ignored` gets their paths."""

    def without(part: Any, path: str) -> dict[str, Any]:
        found = dict(mapping(part))
        if _WINDOWS in mapping(found.get(_SECURITY)):
            ignored.append(f"{path}{_SECURITY}.{_WINDOWS}: is for Windows, and ignored on this node")
            found[_SECURITY] = {name: each for name, each in mapping(found[_SECURITY]).items() if name != _WINDOWS}
        return found

    found = without(spec, "spec.")
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        if isinstance(found.get(kind), list):
            found[kind] = [without(each, f"spec.{kind}[{at}].") for at, each in enumerate(found[kind])]
    return found


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
