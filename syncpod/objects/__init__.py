"""ConfigMaps and Secrets as a node keeps them: what a pod refers to, and never a part of its workflow."""

from syncpod.objects.references import Reference, Use, references, resolve
from syncpod.objects.refs import KINDS, Kind, ObjectRef, ref_of
from syncpod.objects.replacing import Change, ObjectRefused
from syncpod.objects.store import ObjectStore, ObjectUnreadable
from syncpod.objects.values import values

__all__ = [
    "KINDS",
    "Change",
    "Kind",
    "ObjectRef",
    "ObjectRefused",
    "ObjectStore",
    "ObjectUnreadable",
    "Reference",
    "Use",
    "ref_of",
    "references",
    "resolve",
    "values",
]
