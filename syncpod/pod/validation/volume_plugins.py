"""Checks of the volumes that storage drivers provide; none is supported, and each slip is named before that is said."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from syncpod.pod.problems import Problem
from syncpod.pod.validation import syntax
from syncpod.pod.validation.env import object_name
from syncpod.pod.volume_plugins import (
    AzureDiskVolumeSource,
    CSIVolumeSource,
    FCVolumeSource,
    FlexVolumeSource,
    FlockerVolumeSource,
    GitRepoVolumeSource,
    ISCSIVolumeSource,
    NFSVolumeSource,
    QuobyteVolumeSource,
    StorageOSVolumeSource,
)
from syncpod.pod.volumes import Volume

_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "gce_persistent_disk": ("pd_name",),
    "aws_elastic_block_store": ("volume_id",),
    "git_repo": ("repository",),
    "nfs": ("server", "path"),
    "iscsi": ("target_portal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "persistent_volume_claim": ("claim_name",),
    "rbd": ("monitors", "image"),
    "flex_volume": ("driver",),
    "cinder": ("volume_id",),
    "cephfs": ("monitors",),
    "azure_file": ("secret_name", "share_name"),
    "vsphere_volume": ("volume_path",),
    "quobyte": ("registry", "volume"),
    "azure_disk": ("disk_name", "disk_uri"),
    "photon_persistent_disk": ("pd_id",),
    "portworx_volume": ("volume_id",),
    "scale_io": ("gateway", "system", "volume_name"),
    "storageos": ("volume_name",),
    "csi": ("driver",),
}
"""By source: the fields without which it names nothing."""

_BYTES: Mapping[str, tuple[str, ...]] = {
    "gce_persistent_disk": ("partition",),
    "aws_elastic_block_store": ("partition",),
    "iscsi": ("lun",),
    "fc": ("lun",),
}
"""By source: the numbers that must fit into a byte."""

_NAMED_SECRETS = ("cinder", "storageos")
_LONGEST_PORTAL = 64
_LONGEST_DRIVER = 63
_LONGEST_TENANT = 64
_ISCSI_NAME = re.compile(
    r"iqn\.\d{4}-\d{2}\.[A-Za-z0-9.-]+:[^,;*&$|\s]+|eui.[A-Za-z0-9]{16}|naa.[A-Za-z0-9]{32}", re.ASCII
)
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*):[^\[\]:]*")
_RESERVED = (".kubernetes.io", ".k8s.io")


def check_plugin(volume: Volume, path: str) -> Iterator[Problem]:
    """Check the source of a volume, if it is one that a driver provides; `path` is the volume's."""
    for name, field in Volume.model_fields.items():
        source = getattr(volume, name)
        if name == "name" or source is None:
            continue
        here = f"{path}.{field.alias}"
        fields = type(source).model_fields
        for wanted in _REQUIRED.get(name, ()):
            if not getattr(source, wanted):
                yield Problem(f"{here}.{fields[wanted].alias}", "required")
        for wanted in _BYTES.get(name, ()):
            number = getattr(source, wanted)
            if number is not None and not 0 <= number <= 255:
                yield Problem(f"{here}.{fields[wanted].alias}", "must be between 0 and 255")
        if name in _NAMED_SECRETS and source.secret_ref is not None and not source.secret_ref.name:
            yield Problem(f"{here}.secretRef.name", "required")
        yield from _check_special(source, volume.name, here)


def _check_special(source: Any, volume_name: str, path: str) -> Iterator[Problem]:
    """Check what only one kind of source has."""
    match source:
        case GitRepoVolumeSource(directory=directory):
            if wrong := syntax.descending(directory):
                yield Problem(f"{path}.directory", wrong)
        case NFSVolumeSource(path=exported):
            if exported and not exported.startswith("/"):
                yield Problem(f"{path}.path", "must be an absolute path")
        case ISCSIVolumeSource():
            yield from _check_iscsi(source, volume_name, path)
        case FCVolumeSource(target_wwns=names, wwids=ids, lun=lun):
            if bool(names) == bool(ids):
                yield Problem(path, "must have one of targetWWNs and wwids")
            if names and lun is None:
                yield Problem(f"{path}.lun", "required with targetWWNs")
        case FlockerVolumeSource(dataset_name=name, dataset_uuid=uuid):
            if bool(name) == bool(uuid):
                yield Problem(path, "must have one of datasetName and datasetUUID")
            if "/" in name:
                yield Problem(f"{path}.datasetName", "must not contain '/'")
        case FlexVolumeSource(options=options):
            for key in options:
                if f".{key.partition('/')[0].lower()}".endswith(_RESERVED):
                    yield Problem(f"{path}.options[{key[:80]}]", "must not be of kubernetes.io or k8s.io")
        case QuobyteVolumeSource(registry=registry, tenant=tenant):
            if registry and not all(map(_HOST_AND_PORT.fullmatch, registry.split(","))):
                yield Problem(f"{path}.registry", "must be host:port, or several of them with commas between")
            if len(tenant) > _LONGEST_TENANT:
                yield Problem(f"{path}.tenant", f"must be no more than {_LONGEST_TENANT} characters")
        case AzureDiskVolumeSource(kind=kind, disk_uri=uri) if uri:
            begins = "/subscriptions/" if kind == "Managed" else "https://"
            if not uri.startswith(begins):
                yield Problem(f"{path}.diskURI", f"must begin with {begins} for kind {kind or 'Shared'}")
        case StorageOSVolumeSource(volume_name=name, volume_namespace=namespace):
            for field, value in (("volumeName", name), ("volumeNamespace", namespace)):
                if value and (wrong := syntax.dns_label(value)):
                    yield Problem(f"{path}.{field}", wrong)
        case CSIVolumeSource(driver=driver, node_publish_secret_ref=secret):
            if len(driver) > _LONGEST_DRIVER:
                yield Problem(f"{path}.driver", f"must be no more than {_LONGEST_DRIVER} characters")
            elif driver and (wrong := syntax.dns_subdomain(driver.lower())):
                yield Problem(f"{path}.driver", wrong)
            if secret is not None and (wrong := object_name(secret.name)):
                yield Problem(f"{path}.nodePublishSecretRef.name", wrong)


def _check_iscsi(source: ISCSIVolumeSource, volume_name: str, path: str) -> Iterator[Problem]:
    names = {"iqn": source.iqn or None, "initiatorName": source.initiator_name}
    for field, name in names.items():
        if name is not None and not _ISCSI_NAME.fullmatch(name):
            yield Problem(f"{path}.{field}", "must be a name of the form iqn.2001-04.com.example:disk, eui.… or naa.…")
    if (source.chap_auth_discovery or source.chap_auth_session) and source.secret_ref is None:
        yield Problem(f"{path}.secretRef", "required with CHAP")
    if source.initiator_name is not None and len(f"{volume_name}:{source.target_portal}") > _LONGEST_PORTAL:
        yield Problem(
            f"{path}.targetPortal",
            f"must be no more than {_LONGEST_PORTAL} characters with the volume's name and a colon before it",
        )
