"""Volumes of a pod and their sources."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from syncpod.pod.enums import HostPathType, PersistentVolumeAccessMode, PersistentVolumeMode, PullPolicy
from syncpod.pod.env import ObjectFieldSelector, ResourceFieldSelector
from syncpod.pod.meta import (
    KeyToPath,
    LabelSelector,
    LocalObjectReference,
    ObjectMeta,
    TypedLocalObjectReference,
    TypedObjectReference,
)
from syncpod.pod.resources import VolumeResourceRequirements
from syncpod.pod.wire import EMPTY_IS_UNSET, Flag, Int32, Int64, Model, QuantityText

DriverSource = dict[str, Any]
"""The source of a volume that a storage driver would provide. Its fields are never read: such a volume is refused by
name (:mod:`syncpod.pod.support`)."""


class HostPathVolumeSource(Model):
    """A file or directory of the node."""

    path: str = ""
    type: HostPathType | None = None


class EmptyDirVolumeSource(Model):
    """A directory that lives as long as the pod."""

    medium: str = ""
    size_limit: QuantityText | None = None


class SecretVolumeSource(Model):
    """Files made from a Secret."""

    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: Int32 | None = None
    optional: Flag | None = None


class ConfigMapVolumeSource(Model):
    """Files made from a ConfigMap."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: Int32 | None = None
    optional: Flag | None = None


class PersistentVolumeClaimVolumeSource(Model):
    """A claim in the pod's namespace."""

    claim_name: str = ""
    read_only: Flag = False


class DownwardAPIVolumeFile(Model):
    """A file with a field of the pod or a resource of a container."""

    path: str = ""
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: Int32 | None = None


class DownwardAPIVolumeSource(Model):
    """Files made from the pod itself."""

    items: tuple[DownwardAPIVolumeFile, ...] = ()
    default_mode: Int32 | None = None


class SecretProjection(Model):
    """A Secret's part of a projected volume."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: Flag | None = None


class DownwardAPIProjection(Model):
    """The pod's own part of a projected volume."""

    items: tuple[DownwardAPIVolumeFile, ...] = ()


class ConfigMapProjection(Model):
    """A ConfigMap's part of a projected volume."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: Flag | None = None


class ServiceAccountTokenProjection(Model):
    """A token for the pod's service account, issued by an API server."""

    audience: str = ""
    expiration_seconds: Int64 | None = None
    path: str = ""


class ClusterTrustBundleProjection(Model):
    """Trust anchors, published by an API server."""

    name: str | None = None
    signer_name: str | None = None
    label_selector: LabelSelector | None = None
    optional: Flag | None = None
    path: str = ""


class PodCertificateProjection(Model):
    """A key and certificate, issued through an API server."""

    signer_name: str = ""
    key_type: str = ""
    max_expiration_seconds: Int32 | None = None
    credential_bundle_path: str = ""
    key_path: str = ""
    certificate_chain_path: str = ""
    user_annotations: dict[str, str] = Field(default_factory=dict)


class VolumeProjection(Model):
    """One part of a projected volume: exactly one of these is set."""

    secret: SecretProjection | None = None
    downward_api: DownwardAPIProjection | None = None
    config_map: ConfigMapProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None
    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    pod_certificate: PodCertificateProjection | None = None


class ProjectedVolumeSource(Model):
    """Several sources in one directory."""

    sources: tuple[VolumeProjection, ...] = ()
    default_mode: Int32 | None = None


class PersistentVolumeClaimSpec(Model):
    """The requirements of a volume claim."""

    access_modes: tuple[PersistentVolumeAccessMode, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = Field(default_factory=VolumeResourceRequirements)
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: PersistentVolumeMode | None = None
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(Model):
    """The claim that an ephemeral volume stands for."""

    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = Field(default_factory=PersistentVolumeClaimSpec)


class EphemeralVolumeSource(Model):
    """A claim that is made and deleted with the pod."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class CSIVolumeSource(Model):
    """A volume that a storage driver makes only for this pod."""

    driver: str = ""
    read_only: Flag | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] = Field(default_factory=dict)
    node_publish_secret_ref: LocalObjectReference | None = None


class ImageVolumeSource(Model):
    """The file system of an image, read-only."""

    reference: str = ""
    pull_policy: Annotated[PullPolicy | None, EMPTY_IS_UNSET] = None


class Volume(Model):
    """A named volume: exactly one source is set (none means emptyDir)."""

    name: str = ""
    host_path: HostPathVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    gce_persistent_disk: DriverSource | None = None
    aws_elastic_block_store: DriverSource | None = None
    git_repo: DriverSource | None = None
    secret: SecretVolumeSource | None = None
    nfs: DriverSource | None = None
    iscsi: DriverSource | None = None
    glusterfs: DriverSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    rbd: DriverSource | None = None
    flex_volume: DriverSource | None = None
    cinder: DriverSource | None = None
    cephfs: DriverSource | None = None
    flocker: DriverSource | None = None
    downward_api: DownwardAPIVolumeSource | None = None
    fc: DriverSource | None = None
    azure_file: DriverSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    vsphere_volume: DriverSource | None = None
    quobyte: DriverSource | None = None
    azure_disk: DriverSource | None = None
    photon_persistent_disk: DriverSource | None = None
    projected: ProjectedVolumeSource | None = None
    portworx_volume: DriverSource | None = None
    scale_io: DriverSource | None = None
    storageos: DriverSource | None = None
    csi: CSIVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    image: ImageVolumeSource | None = None


def is_read_only(volume: Volume) -> bool:
    """Say whether a volume of a claim or of a driver is read-only for the whole pod."""
    if volume.csi is not None:
        return bool(volume.csi.read_only)
    return volume.persistent_volume_claim is not None and volume.persistent_volume_claim.read_only


def downward_files(volume: Volume) -> Iterator[DownwardAPIVolumeFile]:
    """Yield the files of a volume that are made from the pod itself, those of a projected volume's parts included."""
    projections = volume.projected.sources if volume.projected is not None else ()
    for source in (volume.downward_api, *(projection.downward_api for projection in projections)):
        if source is not None:
            yield from source.items
