"""Finds where a claim's volume is on a node, from the API server's claim and volume. Values in, values out.

Mirrors volumemanager/populator/desired_state_of_world_populator.go, v1.36, getPVCExtractPV and getPVSpec, and
operationexecutor/operation_generator.go, checkNodeAffinity. Only local and hostPath volumes name their own place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from syncpod.kubernetes.json_documents import mapping, mappings
from syncpod.lifecycle.node_affinity import matches_a_term
from syncpod.objects import ClaimedPlace, ClaimNeed
from syncpod.pod import NodeSelectorTerm

_NOT_SOURCES: Final = frozenset(
    (
        *("accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy"),
        *("storageClassName", "volumeAttributesClassName", "volumeMode"),
    )
)
"""The fields of a PersistentVolume's spec that are not its source."""


class NotUsable(Exception):
    """A pod cannot use its claim's volume now; the text is a clause, in the kubelet's words where it has any."""


def claim_path(need: ClaimNeed) -> str:
    """Return the claim's path at the API server."""
    return f"/api/v1/namespaces/{need.ref.namespace}/persistentvolumeclaims/{need.claim}"


def volume_path(volume: str) -> str:
    """Return the path of a PersistentVolume at the API server."""
    return f"/api/v1/persistentvolumes/{volume}"


def bound_volume(claim: Mapping[str, Any], need: ClaimNeed) -> str:
    """Return the name of the volume to which a claim is bound. Raises NotUsable."""
    metadata, spec, status = (mapping(claim.get(name)) for name in ("metadata", "spec", "status"))
    if need.is_pods_own and not _is_controlled_by(metadata, need.uid):
        raise NotUsable(f"PVC {need.ref.namespace}/{need.claim} was not created for pod {need.pod}")
    if metadata.get("deletionTimestamp"):
        raise NotUsable("PVC is being deleted")
    if status.get("phase") != "Bound" or not spec.get("volumeName"):
        raise NotUsable("PVC is not bound")
    return str(spec["volumeName"])


def place_of(
    claim: Mapping[str, Any], volume: Mapping[str, Any], node: str, labels: Mapping[str, str], need: ClaimNeed
) -> ClaimedPlace | None:
    """Return where a volume is on the node with this name and these labels; None if a storage driver mounts it.

    Raises NotUsable.
    """
    metadata, spec = mapping(volume.get("metadata")), mapping(volume.get("spec"))
    name = str(metadata.get("name") or "")
    uid = mapping(claim.get("metadata")).get("uid")
    if not uid or mapping(spec.get("claimRef")).get("uid") != uid:
        raise NotUsable(f"PV {name} is not bound to this claim: its claimRef has another UID")
    is_block = spec.get("volumeMode") == "Block"
    if is_block and need.is_mounted:
        raise NotUsable(f"volume {need.volume} has volumeMode Block, but is specified in volumeMounts")
    if not is_block and need.is_device:
        raise NotUsable(f"volume {need.volume} has volumeMode Filesystem, but is specified in volumeDevices")
    _check_affinity(mapping(spec.get("nodeAffinity")), node, labels)
    if "local" in spec:
        return ClaimedPlace(name, "local", _path(spec, "local", name), is_block=is_block)
    if "hostPath" in spec and is_block:
        raise NotUsable(f"PV {name} has the volumeMode Block, which a hostPath volume cannot have")
    if "hostPath" in spec:
        kind = str(mapping(spec["hostPath"]).get("type") or "")
        return ClaimedPlace(name, "hostPath", _path(spec, "hostPath", name), kind)
    if "csi" in spec:
        return None
    source = next(iter(sorted(spec.keys() - _NOT_SOURCES)), "unknown")
    raise NotUsable(f"PV {name} is of the kind {source}, and this node has only local, hostPath and csi volumes")


def _path(spec: Mapping[str, Any], source: str, name: str) -> str:
    path = str(mapping(spec[source]).get("path") or "")
    if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise NotUsable(f"PV {name} has no absolute path without '..' in {source}.path")
    return path


def _check_affinity(affinity: Mapping[str, Any], node: str, labels: Mapping[str, str]) -> None:
    required = affinity.get("required")
    if not isinstance(required, Mapping):
        return
    try:
        terms = [NodeSelectorTerm.model_validate(each) for each in required.get("nodeSelectorTerms") or ()]
    except ValidationError:
        terms = []
    if not matches_a_term(terms, node, labels):
        raise NotUsable("storage node affinity check failed: no matching NodeSelectorTerms")


def _is_controlled_by(metadata: Mapping[str, Any], uid: str) -> bool:
    owners = mappings(metadata.get("ownerReferences"))
    return any(each.get("controller") is True and each.get("uid") == uid for each in owners)
