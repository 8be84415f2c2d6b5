"""ConfigMaps and Secrets as a node keeps them. Pods refer to them; their content is never part of a workflow."""

from collections.abc import Iterator

from syncpod.objects.admission import ObjectAdmission, admit_object
from syncpod.objects.claims import (
    ClaimedPlace,
    ClaimNeed,
    InlineVolume,
    claim_needs,
    claim_ref,
    claimed_place,
    kept_place,
)
from syncpod.objects.former import FormerSecret
from syncpod.objects.issued import (
    BOTH_KEY,
    BUNDLE_KEY,
    CHAIN_KEY,
    PRIVATE_KEY,
    BundleNeed,
    CertificateNeed,
    bundle_ref,
    certificate_ref,
    issued_needs,
    kept_bundle,
    kept_certificate,
    refresh_at,
)
from syncpod.objects.references import Reference, Use, references, resolve
from syncpod.objects.refs import ALL_SERVICES, KINDS, Kind, ObjectRef, Origin, ref_for, ref_of, services_ref
from syncpod.objects.replacing import Change, ObjectRefused
from syncpod.objects.store import ABSENT, ObjectStore, ObjectUnknown, ObjectUnreadable
from syncpod.objects.tokens import TOKEN_KEY, TokenNeed, token_needs, token_ref
from syncpod.pod import Pod
from syncpod.pod.kinds import values

Need = TokenNeed | ClaimNeed | BundleNeed | CertificateNeed
"""An item that a cluster provides for one pod alone: a token, a claim's volume, trust anchors or a certificate."""


def needs(pod: Pod) -> Iterator[Need]:
    """Yield everything that a cluster provides for this pod alone."""
    yield from token_needs(pod)
    yield from claim_needs(pod)
    yield from issued_needs(pod)


__all__ = [
    "ABSENT",
    "ALL_SERVICES",
    "BOTH_KEY",
    "BUNDLE_KEY",
    "CHAIN_KEY",
    "KINDS",
    "PRIVATE_KEY",
    "TOKEN_KEY",
    "BundleNeed",
    "CertificateNeed",
    "Change",
    "ClaimNeed",
    "ClaimedPlace",
    "FormerSecret",
    "InlineVolume",
    "Kind",
    "Need",
    "ObjectAdmission",
    "ObjectRef",
    "ObjectRefused",
    "ObjectStore",
    "ObjectUnknown",
    "ObjectUnreadable",
    "Origin",
    "Reference",
    "TokenNeed",
    "Use",
    "admit_object",
    "bundle_ref",
    "certificate_ref",
    "claim_needs",
    "claim_ref",
    "claimed_place",
    "issued_needs",
    "kept_bundle",
    "kept_certificate",
    "kept_place",
    "needs",
    "ref_for",
    "ref_of",
    "references",
    "refresh_at",
    "resolve",
    "services_ref",
    "token_needs",
    "token_ref",
    "values",
]
