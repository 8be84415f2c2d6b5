"""ConfigMaps and Secrets as a node keeps them. Pods refer to them; their content is never part of a workflow."""

from syncpod.objects.admission import ObjectAdmission, admit_object
from syncpod.objects.claims import ClaimedPlace, ClaimNeed, claim_needs, claim_ref, claimed_place, kept_place
from syncpod.objects.former import FormerSecret
from syncpod.objects.references import Reference, Use, references, resolve
from syncpod.objects.refs import ALL_SERVICES, KINDS, Kind, ObjectRef, Origin, ref_for, ref_of, services_ref
from syncpod.objects.replacing import Change, ObjectRefused
from syncpod.objects.store import ABSENT, ObjectStore, ObjectUnknown, ObjectUnreadable
from syncpod.objects.tokens import TOKEN_KEY, TokenNeed, token_needs, token_ref
from syncpod.objects.values import values

__all__ = [
    "ABSENT",
    "ALL_SERVICES",
    "KINDS",
    "TOKEN_KEY",
    "Change",
    "ClaimNeed",
    "ClaimedPlace",
    "FormerSecret",
    "Kind",
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
    "claim_needs",
    "claim_ref",
    "claimed_place",
    "kept_place",
    "ref_for",
    "ref_of",
    "references",
    "resolve",
    "services_ref",
    "token_needs",
    "token_ref",
    "values",
]
