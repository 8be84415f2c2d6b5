"""Checks of volume sources that need a cluster: tokens, trust anchors, certificates, claims.

They are not supported, but mistakes in them are reported too.
"""

from collections.abc import Iterator

from syncpod.pod.meta import ObjectMeta, TypedLocalObjectReference, TypedObjectReference
from syncpod.pod.problems import Problem
from syncpod.pod.quantity import parse_quantity
from syncpod.pod.validation import syntax
from syncpod.pod.validation.metadata import LARGEST_ANNOTATIONS, check_annotations, check_labels, check_selector
from syncpod.pod.volumes import (
    ClusterTrustBundleProjection,
    EphemeralVolumeSource,
    PersistentVolumeClaimSpec,
    PodCertificateProjection,
    ServiceAccountTokenProjection,
)
from syncpod.pod.wire import wire_name

_SHORTEST_TOKEN = 600
_LONGEST_TOKEN = 2**32
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_SHORTEST_CERTIFICATE = 3600
_LONGEST_CERTIFICATE = 91 * 24 * 3600
_LONGEST_OF_KUBERNETES = 24 * 3600
_OF_A_TEMPLATE = ("labels", "annotations")


def check_token(token: ServiceAccountTokenProjection, path: str) -> Iterator[Problem]:
    """Check a token's lifetime and path.

    The API server also requires a service account, which one of its plugins has set before.
    """
    seconds = token.expiration_seconds
    if seconds is not None and not _SHORTEST_TOKEN <= seconds <= _LONGEST_TOKEN:
        yield Problem(f"{path}.expirationSeconds", f"must be between {_SHORTEST_TOKEN} and {_LONGEST_TOKEN}")
    if wrong := syntax.projected_path(token.path):
        yield Problem(f"{path}.path", wrong)


def check_trust_bundle(bundle: ClusterTrustBundleProjection, path: str) -> Iterator[Problem]:
    """Check trust anchors, which are selected by name or by signer."""
    if (bundle.name is None) == (bundle.signer_name is None):
        yield Problem(path, "must have one of name and signerName")
    elif bundle.name is not None:
        # A name with a colon begins with its signer's name, whose slashes become colons.
        if wrong := syntax.dns_subdomain(bundle.name.rpartition(":")[2]):
            yield Problem(f"{path}.name", wrong)
        if bundle.label_selector is not None:
            yield Problem(f"{path}.labelSelector", "must not be set beside name")
    else:
        yield from _check_signer(bundle.signer_name or "", f"{path}.signerName")
        yield from check_selector(bundle.label_selector, f"{path}.labelSelector")
    if wrong := syntax.projected_path(bundle.path):
        yield Problem(f"{path}.path", wrong)


def check_certificate(certificate: PodCertificateProjection, path: str) -> Iterator[Problem]:
    """Check a key and certificate, and their paths."""
    yield from _check_signer(certificate.signer_name, f"{path}.signerName")
    if certificate.key_type not in _KEY_TYPES:
        yield Problem(f"{path}.keyType", f"must be {', '.join(_KEY_TYPES[:-1])} or {_KEY_TYPES[-1]}")
    host = certificate.signer_name.partition("/")[0]
    longest = _LONGEST_OF_KUBERNETES if f".{host}".endswith(".kubernetes.io") else _LONGEST_CERTIFICATE
    seconds = certificate.max_expiration_seconds
    if seconds is not None and not _SHORTEST_CERTIFICATE <= seconds <= longest:
        yield Problem(f"{path}.maxExpirationSeconds", f"must be between {_SHORTEST_CERTIFICATE} and {longest}")
    yield from _check_user_annotations(certificate.user_annotations, f"{path}.userAnnotations")
    files = {
        "credentialBundlePath": certificate.credential_bundle_path,
        "keyPath": certificate.key_path,
        "certificateChainPath": certificate.certificate_chain_path,
    }
    if not any(files.values()):
        yield Problem(path, f"must have at least one of {', '.join(files)}")
    for name, file in files.items():
        if file and (wrong := syntax.projected_path(file)):
            yield Problem(f"{path}.{name}", wrong)


def check_claim_template(source: EphemeralVolumeSource, path: str) -> Iterator[Problem]:
    """Check the claim that is made with the pod."""
    template = source.volume_claim_template
    here = f"{path}.volumeClaimTemplate"
    if template is None:
        yield Problem(here, "required")
        return
    yield from check_labels(template.metadata.labels, f"{here}.metadata.labels")
    yield from check_annotations(template.metadata.annotations, f"{here}.metadata.annotations")
    blank = ObjectMeta()
    for name in ObjectMeta.model_fields:
        if name not in _OF_A_TEMPLATE and getattr(template.metadata, name) != getattr(blank, name):
            yield Problem(f"{here}.metadata.{wire_name(name)}", "must not be set in a template")
    yield from _check_claim(template.spec, f"{here}.spec")


def _check_claim(spec: PersistentVolumeClaimSpec, path: str) -> Iterator[Problem]:
    if not spec.access_modes:
        yield Problem(f"{path}.accessModes", "required")
    elif "ReadWriteOncePod" in spec.access_modes and len(set(spec.access_modes)) > 1:
        yield Problem(f"{path}.accessModes", "must not hold ReadWriteOncePod beside others")
    yield from check_selector(spec.selector, f"{path}.selector")
    size = spec.resources.requests.get("storage")
    if size is None or parse_quantity(size).number <= 0:
        wrong = "required" if size is None else "must be greater than 0"
        yield Problem(f"{path}.resources.requests[storage]", wrong)
    for name, value in (
        ("storageClassName", spec.storage_class_name),
        ("volumeAttributesClassName", spec.volume_attributes_class_name),
    ):
        if value and (wrong := syntax.dns_subdomain(value)):
            yield Problem(f"{path}.{name}", wrong)
    source, reference = spec.data_source, spec.data_source_ref
    yield from _check_reference(source, f"{path}.dataSource")
    yield from _check_reference(reference, f"{path}.dataSourceRef")
    if source is not None and reference is not None:
        if reference.namespace:
            yield Problem(f"{path}.dataSource", "must not be set beside dataSourceRef.namespace")
        elif (source.api_group, source.kind, source.name) != (reference.api_group, reference.kind, reference.name):
            yield Problem(f"{path}.dataSource", "must agree with dataSourceRef")


def _check_reference(
    reference: TypedLocalObjectReference | TypedObjectReference | None, path: str
) -> Iterator[Problem]:
    if reference is None:
        return
    for name, value in (("name", reference.name), ("kind", reference.kind)):
        if not value:
            yield Problem(f"{path}.{name}", "required")
    if reference.api_group:
        if wrong := syntax.dns_subdomain(reference.api_group):
            yield Problem(f"{path}.apiGroup", wrong)
    elif reference.kind and reference.kind != "PersistentVolumeClaim":
        yield Problem(f"{path}.kind", "must be PersistentVolumeClaim where apiGroup is empty")
    namespace = reference.namespace if isinstance(reference, TypedObjectReference) else None
    if namespace and (wrong := syntax.dns_label(namespace)):
        yield Problem(f"{path}.namespace", wrong)


def _check_signer(name: str, path: str) -> Iterator[Problem]:
    """Check a signer's name: a domain of at least two labels, one `/`, and a path of subdomains."""
    domain, slash, rest = name.partition("/")
    labels = domain.split(".")
    if not name:
        yield Problem(path, "required")
    elif not slash or "/" in rest or len(labels) < 2:
        yield Problem(path, "must be a domain and a path such as example.com/signer")
    elif wrong := next(filter(None, map(syntax.dns_label, labels)), "") or syntax.dns_subdomain(rest):
        yield Problem(path, f"each of its parts {wrong}")


def _check_user_annotations(annotations: dict[str, str], path: str) -> Iterator[Problem]:
    for key in annotations:
        if wrong := syntax.qualified_name(key.lower()):
            yield Problem(f"{path}[{key[:80]}]", wrong)
        elif "/" not in key:
            yield Problem(f"{path}[{key[:80]}]", "must have a domain before it, such as example.com/key")
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > LARGEST_ANNOTATIONS:
        yield Problem(path, "must be no more than 256 KiB in all")
