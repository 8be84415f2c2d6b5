"""Volume sources that a storage driver provides; the in-tree ones are mostly history, and still part of the API."""

from pydantic import Field

from syncpod.pod.enums import AzureDataDiskCachingMode, AzureDataDiskKind
from syncpod.pod.meta import LocalObjectReference
from syncpod.pod.wire import Flag, Int32, Model


class GCEPersistentDiskVolumeSource(Model):
    """A Google Compute Engine disk."""

    pd_name: str = ""
    fs_type: str = ""
    partition: Int32 | None = None
    read_only: Flag = False


class AWSElasticBlockStoreVolumeSource(Model):
    """An AWS EBS disk."""

    volume_id: str = ""
    fs_type: str = ""
    partition: Int32 | None = None
    read_only: Flag = False


class GitRepoVolumeSource(Model):
    """A git checkout."""

    repository: str = ""
    revision: str = ""
    directory: str = ""


class NFSVolumeSource(Model):
    """An NFS export."""

    server: str = ""
    path: str = ""
    read_only: Flag = False


class ISCSIVolumeSource(Model):
    """An iSCSI disk."""

    target_portal: str = ""
    iqn: str = ""
    lun: Int32 = 0
    iscsi_interface: str = ""
    fs_type: str = ""
    read_only: Flag = False
    portals: tuple[str, ...] = ()
    chap_auth_discovery: Flag = False
    chap_auth_session: Flag = False
    secret_ref: LocalObjectReference | None = None
    initiator_name: str | None = None


class GlusterfsVolumeSource(Model):
    """A GlusterFS volume."""

    endpoints: str = ""
    path: str = ""
    read_only: Flag = False


class RBDVolumeSource(Model):
    """A Ceph block device."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    fs_type: str = ""
    pool: str = ""
    user: str = ""
    keyring: str = ""
    secret_ref: LocalObjectReference | None = None
    read_only: Flag = False


class FlexVolumeSource(Model):
    """A volume from an exec-based driver."""

    driver: str = ""
    fs_type: str = ""
    secret_ref: LocalObjectReference | None = None
    read_only: Flag = False
    options: dict[str, str] = Field(default_factory=dict)


class CinderVolumeSource(Model):
    """An OpenStack Cinder disk."""

    volume_id: str = ""
    fs_type: str = ""
    read_only: Flag = False
    secret_ref: LocalObjectReference | None = None


class CephFSVolumeSource(Model):
    """A Ceph file system."""

    monitors: tuple[str, ...] = ()
    path: str = ""
    user: str = ""
    secret_file: str = ""
    secret_ref: LocalObjectReference | None = None
    read_only: Flag = False


class FlockerVolumeSource(Model):
    """A Flocker data set."""

    dataset_name: str = ""
    dataset_uuid: str = ""


class FCVolumeSource(Model):
    """A Fibre Channel disk."""

    target_wwns: tuple[str, ...] = ()
    lun: Int32 | None = None
    fs_type: str = ""
    read_only: Flag = False
    wwids: tuple[str, ...] = ()


class AzureFileVolumeSource(Model):
    """An Azure file share."""

    secret_name: str = ""
    share_name: str = ""
    read_only: Flag = False


class VsphereVirtualDiskVolumeSource(Model):
    """A vSphere disk."""

    volume_path: str = ""
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = ""


class QuobyteVolumeSource(Model):
    """A Quobyte volume."""

    registry: str = ""
    volume: str = ""
    read_only: Flag = False
    user: str = ""
    group: str = ""
    tenant: str = ""


class AzureDiskVolumeSource(Model):
    """An Azure disk."""

    disk_name: str = ""
    disk_uri: str = ""
    caching_mode: AzureDataDiskCachingMode | None = None
    fs_type: str | None = None
    read_only: Flag | None = None
    kind: AzureDataDiskKind | None = None


class PhotonPersistentDiskVolumeSource(Model):
    """A Photon Controller disk."""

    pd_id: str = ""
    fs_type: str = ""


class PortworxVolumeSource(Model):
    """A Portworx volume."""

    volume_id: str = ""
    fs_type: str = ""
    read_only: Flag = False


class ScaleIOVolumeSource(Model):
    """A ScaleIO volume."""

    gateway: str = ""
    system: str = ""
    secret_ref: LocalObjectReference | None = None
    ssl_enabled: Flag = False
    protection_domain: str = ""
    storage_pool: str = ""
    storage_mode: str = ""
    volume_name: str = ""
    fs_type: str = ""
    read_only: Flag = False


class StorageOSVolumeSource(Model):
    """A StorageOS volume."""

    volume_name: str = ""
    volume_namespace: str = ""
    fs_type: str = ""
    read_only: Flag = False
    secret_ref: LocalObjectReference | None = None


class CSIVolumeSource(Model):
    """An inline volume of a CSI driver."""

    driver: str = ""
    read_only: Flag | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] = Field(default_factory=dict)
    node_publish_secret_ref: LocalObjectReference | None = None
