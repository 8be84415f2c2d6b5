"""Volumes of storage drivers as an API server has them: PersistentVolume, VolumeAttachment, CSIDriver, CSINode.

Values in, values out. Mirrors pkg/volume/csi, v1.36: csi_mounter.go, csi_attacher.go, nodeinfomanager.go.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from syncpod.kubernetes.claimed_volume import NotUsable
from syncpod.kubernetes.json_documents import mapping, mappings
from syncpod.objects import ClaimNeed, InlineVolume

GROUP: Final = "/apis/storage.k8s.io/v1"
NODE_ID_ANNOTATION: Final = "csi.volume.kubernetes.io/nodeid"
"""The Node's annotation with the machine's id at each driver, as JSON."""


@dataclass(frozen=True)
class SecretName:
    """A Secret of the cluster with a driver's credentials for its storage."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        """The Secret's path at the API server."""
        return f"/api/v1/namespaces/{self.namespace}/secrets/{self.name}"


@dataclass(frozen=True)
class CsiVolume:
    """A PersistentVolume of a storage driver, or an inline volume, which a driver makes for one pod."""

    name: str
    driver: str
    handle: str
    """The driver's id of the volume (volumeHandle)."""
    fs_type: str
    access_mode: str
    mount_flags: tuple[str, ...]
    is_read_only: bool
    attributes: Mapping[str, str]
    stage_secret: SecretName | None
    publish_secret: SecretName | None
    grow_secret: SecretName | None = None
    is_inline: bool = False
    """The driver makes it for one pod: the cluster has no PersistentVolume of it, and does not attach it."""
    is_block: bool = False
    """Pods get it as a block device."""

    @property
    def title(self) -> str:
        """The volume's name in a sentence."""
        return f"volume {self.name}" if self.is_inline else f"PV {self.name}"

    @property
    def unique_name(self) -> str:
        """The name by which a Node's status lists it (`volumesInUse`)."""
        return unique_name(self.driver, self.handle)


@dataclass(frozen=True)
class WantedToken:
    """A token of a pod's service account that a driver requires."""

    audience: str
    """The token's audience; "" = the API server itself."""
    seconds: int | None
    """The requested lifetime; None = the API server's default."""


@dataclass(frozen=True)
class DriverTraits:
    """The content of a driver's CSIDriver; the defaults are for a driver without one."""

    is_known: bool = False
    """The cluster has a CSIDriver object of this driver."""
    modes: tuple[str, ...] = ("Persistent",)
    """The kinds of volumes that the driver supports: `Persistent`, `Ephemeral`."""

    is_attached: bool = True
    """The cluster attaches its volumes to a machine first."""
    wants_pod: bool = False
    """The driver requires the pod's identity in each call that publishes a volume (podInfoOnMount)."""
    fs_group_policy: str = "ReadWriteOnceWithFSType"
    tokens: tuple[WantedToken, ...] = ()
    """The tokens of the pods' service accounts that the driver requires."""
    has_tokens_in_secrets: bool = False
    """The driver receives the tokens among its Secrets, and not among the volume's attributes."""
    requires_republish: bool = False
    """The driver requires NodePublishVolume to be called again periodically (requiresRepublish)."""


def unique_name(driver: str, handle: str) -> str:
    """Return the name of a driver's volume in the whole cluster (GetUniqueVolumeName)."""
    return f"kubernetes.io/csi/{driver}^{handle}"


def csi_volume(volume: Mapping[str, Any]) -> CsiVolume:
    """Return the driver's volume that a PersistentVolume describes. Raises NotUsable."""
    metadata, spec = mapping(volume.get("metadata")), mapping(volume.get("spec"))
    csi = mapping(spec.get("csi"))
    given = (metadata.get("name"), csi.get("driver"), csi.get("volumeHandle"))
    name, driver, handle = (str(each or "") for each in given)
    if not (driver and handle) or "/" in driver or driver in (".", ".."):
        raise NotUsable(f"PV {name} names no driver or no volumeHandle")
    return CsiVolume(
        name=name,
        driver=driver,
        handle=handle,
        fs_type=str(csi.get("fsType") or ""),
        access_mode=str(next(iter(spec.get("accessModes") or ()), "ReadWriteOnce")),
        mount_flags=tuple(str(each) for each in spec.get("mountOptions") or ()),
        is_read_only=csi.get("readOnly") is True,
        attributes={str(key): str(value) for key, value in mapping(csi.get("volumeAttributes")).items()},
        stage_secret=_secret(csi.get("nodeStageSecretRef")),
        publish_secret=_secret(csi.get("nodePublishSecretRef")),
        grow_secret=_secret(csi.get("nodeExpandSecretRef")),
        is_block=spec.get("volumeMode") == "Block",
    )


def inline_volume(wanted: InlineVolume, need: ClaimNeed) -> CsiVolume:
    """Return the volume that a driver makes for one pod."""
    return CsiVolume(
        name=wanted.name,
        driver=wanted.driver,
        handle=wanted.handle,
        fs_type=wanted.fs_type,
        access_mode="ReadWriteOnce",
        mount_flags=(),
        is_read_only=need.is_read_only,
        attributes=dict(wanted.attributes),
        stage_secret=None,
        publish_secret=SecretName(need.ref.namespace, wanted.secret) if wanted.secret else None,
        is_inline=True,
    )


def check_lifecycle(volume: CsiVolume, traits: DriverTraits) -> None:
    """Check that a driver supports volumes of this kind (csi_mounter.go, supportsVolumeLifecycleMode).

    Raises NotUsable.
    """
    mode = "Ephemeral" if volume.is_inline else "Persistent"
    if mode in traits.modes:
        return
    only = " ".join(f'"{each}"' for each in traits.modes)
    why = f"only supports [{only}]" if traits.is_known else "no CSIDriver object"
    raise NotUsable(f'volume mode "{mode}" not supported by driver {volume.driver} ({why})')


def driver_path(driver: str) -> str:
    """Return the path of a CSIDriver at the API server."""
    return f"{GROUP}/csidrivers/{driver}"


def driver_traits(document: Mapping[str, Any] | None) -> DriverTraits:
    """Return the traits in a CSIDriver; `document` is None if the cluster has none of the driver's name."""
    if document is None:
        return DriverTraits()
    spec = mapping(document.get("spec"))
    return DriverTraits(
        is_known=True,
        modes=tuple(str(each) for each in spec.get("volumeLifecycleModes") or ()) or DriverTraits.modes,
        is_attached=spec.get("attachRequired") is not False,
        wants_pod=spec.get("podInfoOnMount") is True,
        fs_group_policy=str(spec.get("fsGroupPolicy") or DriverTraits.fs_group_policy),
        tokens=tuple(_wanted_token(each) for each in mappings(spec.get("tokenRequests"))),
        has_tokens_in_secrets=spec.get("serviceAccountTokenInSecrets") is True,
        requires_republish=spec.get("requiresRepublish") is True,
    )


def attachment_path(volume: CsiVolume, node: str) -> str:
    """Return the path of a volume's VolumeAttachment to a node at the API server (getAttachmentName)."""
    digest = hashlib.sha256(f"{volume.handle}{volume.driver}{node}".encode()).hexdigest()
    return f"{GROUP}/volumeattachments/csi-{digest}"


def publish_context(attachment: Mapping[str, Any], volume: CsiVolume) -> dict[str, str]:
    """Return the metadata that the driver's controller returned when it attached a volume.

    Raises NotUsable if the volume is not attached.
    """
    status = mapping(attachment.get("status"))
    if mapping(attachment.get("metadata")).get("deletionTimestamp"):
        raise NotUsable(f"volume {volume.name} is being detached from this node")
    if status.get("attached") is not True:
        why = str(mapping(status.get("attachError")).get("message") or "")
        raise NotUsable(f"volume {volume.name} is not attached to this node yet{why and ': '}{why}")
    return {str(key): str(value) for key, value in mapping(status.get("attachmentMetadata")).items()}


def publish_attributes(volume: CsiVolume, traits: DriverTraits, need: ClaimNeed) -> dict[str, str]:
    """Return the volume's attributes, with the pod's identity if the driver requires it (getPodInfoAttrs)."""
    if not traits.wants_pod:
        return dict(volume.attributes)
    prefix = "csi.storage.k8s.io"
    return {
        **volume.attributes,
        f"{prefix}/pod.name": need.pod,
        f"{prefix}/pod.namespace": need.ref.namespace,
        f"{prefix}/pod.uid": need.uid,
        f"{prefix}/serviceAccount.name": need.service_account,
        f"{prefix}/ephemeral": "true" if volume.is_inline else "false",
    }


def is_given_to_group(volume: CsiVolume, traits: DriverTraits) -> bool:
    """Return whether the node gives the volume to a pod's fsGroup (csi_mounter.go, supportsFSGroup)."""
    match traits.fs_group_policy:
        case "None":
            return False
        case "File":
            return True
        case _:
            return bool(volume.fs_type) and volume.access_mode in ("ReadWriteOnce", "ReadWriteOncePod")


@dataclass(frozen=True)
class RegisteredDriver:
    """A driver that has registered at a node."""

    name: str
    node_id: str
    topology: Mapping[str, str]
    most_volumes: int
    """Maximum number of the driver's volumes on the node; 0 = no limit."""


def node_path(node: str) -> str:
    """Return the path of a node's CSINode at the API server."""
    return f"{GROUP}/csinodes/{node}"


def csi_node(
    node: str, uid: str, before: Mapping[str, Any] | None, drivers: Mapping[str, RegisteredDriver]
) -> dict[str, Any]:
    """Return the node's CSINode with these drivers, made from the cluster's present one, `before`.

    The Node owns it, so it is deleted together with its Node.
    """
    metadata = mapping(mapping(before).get("metadata"))
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {**metadata, "name": node, "ownerReferences": [owner]},
        "spec": {"drivers": [_of_driver(drivers[name]) for name in sorted(drivers)]},
    }


def has_drivers(csi_node: Mapping[str, Any], drivers: Mapping[str, RegisteredDriver]) -> bool:
    """Return whether a CSINode of the cluster has exactly these drivers, with their node ids and topology keys."""
    known = {str(each.get("name")): each for each in mappings(mapping(csi_node.get("spec")).get("drivers"))}
    return known.keys() == drivers.keys() and all(
        each.get("nodeID") == drivers[name].node_id
        and sorted(each.get("topologyKeys") or ()) == sorted(drivers[name].topology)
        for name, each in known.items()
    )


def node_patch(node: Mapping[str, Any], drivers: Mapping[str, RegisteredDriver]) -> dict[str, Any] | None:
    """Return the merge patch that writes the drivers' node ids and topology labels to the Node; None if it has them.

    Labels of a driver that is no longer registered stay, as with the kubelet.
    """
    metadata = mapping(node.get("metadata"))
    labels, annotations = mapping(metadata.get("labels")), mapping(metadata.get("annotations"))
    report = json.dumps({name: drivers[name].node_id for name in sorted(drivers)}) if drivers else None
    places = {key: value for each in drivers.values() for key, value in each.topology.items()}
    missing = {key: value for key, value in places.items() if labels.get(key) != value}
    if annotations.get(NODE_ID_ANNOTATION) == report and not missing:
        return None
    patch: dict[str, Any] = {"uid": metadata.get("uid"), "annotations": {NODE_ID_ANNOTATION: report}}
    return {"metadata": {**patch, "labels": missing} if missing else patch}


def _of_driver(driver: RegisteredDriver) -> dict[str, Any]:
    report: dict[str, Any] = {
        "name": driver.name,
        "nodeID": driver.node_id,
        "topologyKeys": sorted(driver.topology),
    }
    return {**report, "allocatable": {"count": driver.most_volumes}} if driver.most_volumes else report


def _wanted_token(value: Mapping[str, Any]) -> WantedToken:
    seconds = value.get("expirationSeconds")
    return WantedToken(str(value.get("audience") or ""), seconds if isinstance(seconds, int) else None)


def _secret(value: Any) -> SecretName | None:
    found = mapping(value)
    if not found.get("name"):
        return None
    return SecretName(str(found.get("namespace") or ""), str(found["name"]))
