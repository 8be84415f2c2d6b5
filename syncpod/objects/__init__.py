"""ConfigMaps and Secrets as a node keeps them. Pods refer to them; their content is never part of a workflow."""

from syncpod.objects.admission import ObjectAdmission, admit_object
from syncpod.objects.former import FormerSecret
from syncpod.objects.references import Reference, Use, references, resolve
from syncpod.objects.refs import KINDS, Kind, ObjectRef, ref_of
from syncpod.objects.replacing import Change, ObjectRefused
from syncpod.objects.store import ObjectStore, ObjectUnreadable
from syncpod.objects.values import values

__all__ = [
    "KINDS",
    "Change",
    "FormerSecret",
    "Kind",
    "ObjectAdmission",
    "ObjectRef",
    "ObjectRefused",
    "ObjectStore",
    "ObjectUnreadable",
    "Reference",
    "Use",
    "admit_object",
    "ref_of",
    "references",
    "resolve",
    "values",
]
