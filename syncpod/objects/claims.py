"""The claims of a pod to volumes of its cluster, and how a node stores the place behind a claim.

A node stores a place as it stores a ConfigMap of the cluster, under a name made from the pod's UID and the claim. So
the place outlasts an outage of the API server and a reboot, and is removed with the pod. The cluster does not have this
ConfigMap, and no pod can refer to it by name.

The place of a volume that a storage driver makes for one pod (`csi`), which needs no claim, is stored in the same way.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final

from syncpod.objects.refs import ObjectRef, Origin
from syncpod.pod import ConfigMap, Container, EphemeralContainer, ObjectMeta, Pod, Volume
from syncpod.pod.origin import is_of_cluster
from syncpod.pod.volumes import is_read_only

_PLACE: Final = "place"


@dataclass(frozen=True)
class InlineVolume:
    """A volume that a storage driver makes for one pod, and that ends with the pod."""

    name: str
    """The volume's name in the pod."""
    driver: str
    handle: str
    """The volume's id, which the node makes and passes to the driver."""
    fs_type: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    secret: str = ""
    """The Secret in the pod's namespace that is passed to the driver; "" = none."""


@dataclass(frozen=True)
class ClaimNeed:
    """A claim that a pod's volumes name, or a volume that a storage driver makes for the pod alone."""

    ref: ObjectRef
    """The reference under which the node stores the place."""
    pod: str
    uid: str
    claim: str
    """The claim's name in the pod's namespace; "" = a driver's volume, without a claim."""
    is_pods_own: bool
    """The claim is made and deleted with the pod, and must belong to it."""
    is_read_only: bool = False
    """The pod only reads the volume."""
    service_account: str = "default"
    """The pod's service account."""
    group: int | None = None
    """The pod's fsGroup."""
    only_if_root_differs: bool = False
    """The files get `group` only if the volume's root directory does not have it yet (OnRootMismatch)."""
    volume: str = ""
    """The volume's name in the pod."""
    is_mounted: bool = False
    """A container mounts the volume."""
    is_device: bool = False
    """A container gets the volume as a block device."""
    inline: InlineVolume | None = None
    """The volume that a driver makes for the pod; None for a claim."""


@dataclass(frozen=True)
class ClaimedPlace:
    """The place on this node behind a bound claim, or of a volume that a driver makes for the pod alone."""

    volume: str
    """The PersistentVolume's name; for a driver's own volume, the volume's name in its pod."""
    plugin: str
    """The kind of its source: `local`, `hostPath` or `csi`."""
    path: str
    """Its path on the node; "" = the driver has not published it yet."""
    type: str = ""
    """The hostPath's type; "" = anything."""
    driver: str = ""
    """The storage driver's name."""
    handle: str = ""
    """The driver's name for the volume."""
    target: str = ""
    """The path at which the driver publishes the volume for the pod."""
    staging: str = ""
    """The path at which the driver stages the volume for all pods; "" = the driver does not stage."""
    boot_id: str = ""
    """The machine's boot in which the driver published the volume. Its mounts do not outlast that boot."""
    is_block: bool = False
    """It is a block device, and not a file system."""
    is_attached: bool = False
    """The cluster has attached it to this node, and detaches it when the node no longer uses it."""


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """Return the name of a volume's claim; None if it has none.

    A claim that is made with the pod is named after the pod and the volume (component-helpers, storage/ephemeral,
    v0.36, VolumeClaimName).
    """
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else None


def claim_ref(pod: Pod, volume: Volume) -> ObjectRef | None:
    """Return the reference to the place of a volume's claim, or of a driver's volume; None if the volume is neither.

    None also if the pod is not a cluster's.
    """
    origin: Origin = "claim" if volume.csi is None else "inline"
    name = claim_name(pod, volume) if volume.csi is None else volume.name
    if name is None or not is_of_cluster(pod.metadata):
        return None
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return ObjectRef("ConfigMap", pod.metadata.namespace or "default", f"{pod.metadata.uid}-{digest}", origin)


def claim_needs(pod: Pod) -> Iterator[ClaimNeed]:
    """Yield the claims and the drivers' volumes that the volumes of a cluster's pod need."""
    spec = pod.spec
    containers: tuple[Container | EphemeralContainer, ...] = (
        *(*spec.containers, *spec.init_containers),
        *spec.ephemeral_containers,
    )
    mounted = {mount.name for each in containers for mount in each.volume_mounts}
    devices = {device.name for each in containers for device in each.volume_devices}
    for volume in pod.spec.volumes:
        ref = claim_ref(pod, volume)
        if ref is None:
            continue
        security = pod.spec.security_context
        yield ClaimNeed(
            ref,
            pod.metadata.name,
            pod.metadata.uid,
            claim_name(pod, volume) or "",
            is_pods_own=volume.ephemeral is not None,
            is_read_only=is_read_only(volume),
            service_account=pod.spec.service_account_name or "default",
            group=security.fs_group if security is not None else None,
            only_if_root_differs=security is not None and security.fs_group_change_policy == "OnRootMismatch",
            volume=volume.name,
            is_mounted=volume.name in mounted,
            is_device=volume.name in devices,
            inline=_inline(pod, volume),
        )


def _inline(pod: Pod, volume: Volume) -> InlineVolume | None:
    """Return the volume that a driver makes for a pod alone (csi_mounter.go, v1.36, makeVolumeHandle)."""
    if (source := volume.csi) is None:
        return None
    secret = source.node_publish_secret_ref
    return InlineVolume(
        name=volume.name,
        driver=source.driver,
        handle=f"csi-{hashlib.sha256(f'{pod.metadata.uid}{volume.name}'.encode()).hexdigest()}",
        fs_type=source.fs_type or "",
        attributes=tuple(sorted(source.volume_attributes.items())),
        secret=secret.name if secret is not None else "",
    )


def kept_place(ref: ObjectRef, place: ClaimedPlace) -> ConfigMap:
    """Return the ConfigMap in which a node stores a place."""
    data = {_PLACE: json.dumps(asdict(place))}
    return ConfigMap(metadata=ObjectMeta(name=ref.name, namespace=ref.namespace), data=data)


def claimed_place(kept: Mapping[str, bytes]) -> ClaimedPlace:
    """Return the place that a node has stored, from the values of its ConfigMap. Raises ValueError."""
    try:
        found = json.loads(kept[_PLACE])
        return ClaimedPlace(**{each.name: found[each.name] for each in fields(ClaimedPlace) if each.name in found})
    except (KeyError, TypeError) as error:
        raise ValueError("the node's record of a claim does not contain the place of the claim's volume") from error
