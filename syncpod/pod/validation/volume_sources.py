"""Checks of the sources that a node fills volumes from by itself."""

from collections.abc import Iterator

from syncpod.pod.meta import KeyToPath
from syncpod.pod.problems import Problem
from syncpod.pod.quantity import parse_quantity
from syncpod.pod.validation import syntax
from syncpod.pod.validation.cluster_sources import check_certificate, check_token, check_trust_bundle
from syncpod.pod.validation.fields import VOLUME_FIELDS, check_field_ref, check_resource_field_ref
from syncpod.pod.volumes import (
    ConfigMapVolumeSource,
    CSIVolumeSource,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    HostPathVolumeSource,
    ImageVolumeSource,
    ProjectedVolumeSource,
    SecretVolumeSource,
    VolumeProjection,
)

_LONGEST_DRIVER = 63
_MEDIA = ("", "Memory", "HugePages")
_PAGE_SIZE = "HugePages-"


def check_host_path(source: HostPathVolumeSource, path: str) -> Iterator[Problem]:
    """Check a hostPath; unlike the API server, refuse a relative one: each process would resolve it differently."""
    if not source.path:
        yield Problem(f"{path}.path", "required")
    elif wrong := syntax.no_backsteps(source.path):
        yield Problem(f"{path}.path", wrong)
    elif not source.path.startswith("/"):
        yield Problem(f"{path}.path", "must be an absolute path")


def check_empty_dir(source: EmptyDirVolumeSource, path: str) -> Iterator[Problem]:
    """Check medium and size; unlike the API server, refuse an unknown medium, which the node would refuse later."""
    if source.medium not in _MEDIA and not _is_page_size(source.medium):
        yield Problem(f"{path}.medium", "must be empty, Memory, HugePages or HugePages-<size>")
    if source.size_limit is not None and parse_quantity(source.size_limit).number < 0:
        yield Problem(f"{path}.sizeLimit", "must not be negative")


def check_image(source: ImageVolumeSource, path: str) -> Iterator[Problem]:
    """Check an image volume."""
    if not source.reference:
        yield Problem(f"{path}.reference", "required")


def check_csi(source: CSIVolumeSource, path: str) -> Iterator[Problem]:
    """Check a volume that a storage driver makes for the pod (validateCSIVolumeSource)."""
    if not source.driver:
        yield Problem(f"{path}.driver", "required")
    elif len(source.driver) > _LONGEST_DRIVER:
        yield Problem(f"{path}.driver", f"must be no more than {_LONGEST_DRIVER} characters")
    elif wrong := syntax.dns_subdomain(source.driver.lower()):
        yield Problem(f"{path}.driver", wrong)
    if (secret := source.node_publish_secret_ref) is not None:
        if not secret.name:
            yield Problem(f"{path}.nodePublishSecretRef.name", "required")
        elif wrong := syntax.dns_subdomain(secret.name):
            yield Problem(f"{path}.nodePublishSecretRef.name", wrong)


def check_config_map(source: ConfigMapVolumeSource, path: str) -> Iterator[Problem]:
    """Check files made from a ConfigMap. An invalid name is accepted: no such object exists."""
    if not source.name:
        yield Problem(f"{path}.name", "required")
    yield from _check_default_mode(source, path)
    yield from _check_items(source.items, f"{path}.items")


def check_secret(source: SecretVolumeSource, path: str) -> Iterator[Problem]:
    """Check files made from a Secret."""
    if not source.secret_name:
        yield Problem(f"{path}.secretName", "required")
    yield from _check_default_mode(source, path)
    yield from _check_items(source.items, f"{path}.items")


def check_downward_api(source: DownwardAPIVolumeSource, path: str) -> Iterator[Problem]:
    """Check files made from the pod's own fields."""
    yield from _check_default_mode(source, path)
    for index, item in enumerate(source.items):
        yield from _check_downward_file(item, f"{path}.items[{index}]")


def check_projected(source: ProjectedVolumeSource, path: str) -> Iterator[Problem]:
    """Check several sources in one directory; no two may name the same file (validateProjectionSources)."""
    yield from _check_default_mode(source, path)
    taken: set[str] = set()
    for index, projection in enumerate(source.sources):
        here = f"{path}.sources[{index}]"
        kinds = [
            str(field.alias)
            for name, field in VolumeProjection.model_fields.items()
            if getattr(projection, name) is not None
        ]
        if len(kinds) > 1:
            yield Problem(here, f"must have one source, not {' and '.join(kinds)}")
        yield from _check_projection(projection, here)
        for place, file in _files(projection):
            if file in taken:
                yield Problem(f"{here}.{place}", f"{file} is there twice")
            taken.add(file)


def _check_projection(projection: VolumeProjection, path: str) -> Iterator[Problem]:
    for name, objects in (("secret", projection.secret), ("configMap", projection.config_map)):
        if objects is not None:
            if not objects.name:
                yield Problem(f"{path}.{name}.name", "required")
            yield from _check_items(objects.items, f"{path}.{name}.items")
    if projection.downward_api is not None:
        for index, item in enumerate(projection.downward_api.items):
            yield from _check_downward_file(item, f"{path}.downwardAPI.items[{index}]")
    if projection.service_account_token is not None:
        yield from check_token(projection.service_account_token, f"{path}.serviceAccountToken")
    if projection.cluster_trust_bundle is not None:
        yield from check_trust_bundle(projection.cluster_trust_bundle, f"{path}.clusterTrustBundle")
    if projection.pod_certificate is not None:
        yield from check_certificate(projection.pod_certificate, f"{path}.podCertificate")


def _files(projection: VolumeProjection) -> Iterator[tuple[str, str]]:
    """Yield each file that a source names, and the naming field; as in the API server, tokens are left out."""
    listed: dict[str, tuple[KeyToPath | DownwardAPIVolumeFile, ...]] = {
        "secret": projection.secret.items if projection.secret is not None else (),
        "configMap": projection.config_map.items if projection.config_map is not None else (),
        "downwardAPI": projection.downward_api.items if projection.downward_api is not None else (),
    }
    for name, items in listed.items():
        for index, item in enumerate(items):
            if item.path:
                yield f"{name}.items[{index}].path", item.path
    if (bundle := projection.cluster_trust_bundle) is not None and bundle.path:
        yield "clusterTrustBundle.path", bundle.path
    if (certificate := projection.pod_certificate) is not None:
        for field in ("credential_bundle_path", "key_path", "certificate_chain_path"):
            if file := getattr(certificate, field):
                yield f"podCertificate.{type(certificate).model_fields[field].alias}", file


def _check_default_mode(
    source: ConfigMapVolumeSource | SecretVolumeSource | DownwardAPIVolumeSource | ProjectedVolumeSource, path: str
) -> Iterator[Problem]:
    if source.default_mode is not None and (wrong := syntax.file_mode(source.default_mode)):
        yield Problem(f"{path}.defaultMode", wrong)


def _check_items(items: tuple[KeyToPath, ...], path: str) -> Iterator[Problem]:
    for index, item in enumerate(items):
        here = f"{path}[{index}]"
        if not item.key:
            yield Problem(f"{here}.key", "required")
        if wrong := syntax.projected_path(item.path):
            yield Problem(f"{here}.path", wrong)
        if item.mode is not None and (wrong := syntax.file_mode(item.mode)):
            yield Problem(f"{here}.mode", wrong)


def _check_downward_file(item: DownwardAPIVolumeFile, path: str) -> Iterator[Problem]:
    if wrong := syntax.projected_path(item.path):
        yield Problem(f"{path}.path", wrong)
    if item.mode is not None and (wrong := syntax.file_mode(item.mode)):
        yield Problem(f"{path}.mode", wrong)
    if (item.field_ref is None) == (item.resource_field_ref is None):
        yield Problem(path, "must have one of fieldRef and resourceFieldRef")
    if item.field_ref is not None:
        yield from check_field_ref(item.field_ref, VOLUME_FIELDS, f"{path}.fieldRef")
    if item.resource_field_ref is not None:
        yield from check_resource_field_ref(item.resource_field_ref, f"{path}.resourceFieldRef", names_container=True)


def _is_page_size(medium: str) -> bool:
    """Say whether a medium names huge pages of a size."""
    if not medium.startswith(_PAGE_SIZE):
        return False
    try:
        return parse_quantity(medium.removeprefix(_PAGE_SIZE)).number > 0
    except ValueError:
        return False
