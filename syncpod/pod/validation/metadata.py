"""Checks of object metadata."""

from collections.abc import Iterator, Mapping

from syncpod.pod.meta import LabelSelector, ObjectMeta
from syncpod.pod.problems import Problem
from syncpod.pod.validation import syntax

LARGEST_ANNOTATIONS = 256 * 1024
"""The most bytes of all keys and values together."""
_LONGEST_DIRECTORY_NAME = 255
_ANY_UUID = "0" * 36
"""A text as long as the UID that a pod without one gets."""


def check_metadata(metadata: ObjectMeta, path: str) -> Iterator[Problem]:
    """Check a pod's metadata; its name, namespace and UID are also parts of log paths and cgroups."""
    yield from check_object_metadata(metadata, path)
    if metadata.uid and (wrong := syntax.uid(metadata.uid)):
        yield Problem(f"{path}.uid", wrong)
    elif _names_are_right(metadata) and (wrong := _too_long_together(metadata)):
        yield Problem(f"{path}.name", wrong)


def check_object_metadata(metadata: ObjectMeta, path: str) -> Iterator[Problem]:
    """Check the metadata of any object: names, labels and annotations.

    Finalizers and owners are not checked, because admission has dropped them.
    """
    if metadata.generate_name and (wrong := syntax.prefix_of_names(metadata.generate_name)):
        yield Problem(f"{path}.generateName", wrong)
    yield from check_name(metadata, path)
    if metadata.namespace and (wrong := syntax.dns_label(metadata.namespace)):
        yield Problem(f"{path}.namespace", wrong)
    yield from check_labels(metadata.labels, f"{path}.labels")
    yield from check_annotations(metadata.annotations, f"{path}.annotations")


def check_name(metadata: ObjectMeta, path: str) -> Iterator[Problem]:
    """Check the name of an object."""
    if not metadata.name:
        hint = "; a name is not generated here" if metadata.generate_name else ""
        yield Problem(f"{path}.name", f"required{hint}")
    elif wrong := syntax.dns_subdomain(metadata.name):
        yield Problem(f"{path}.name", wrong)


def _names_are_right(metadata: ObjectMeta) -> bool:
    """Say whether name and namespace are valid; if not, the check of their combined length is pointless."""
    return not (syntax.dns_subdomain(metadata.name) or (metadata.namespace and syntax.dns_label(metadata.namespace)))


def _too_long_together(metadata: ObjectMeta) -> str:
    """Check that namespace, name and UID together fit the name of the pod's log directory.

    An API server accepts longer ones, but no kubelet could run them.
    """
    others = len(f"{metadata.namespace or 'default'}__{metadata.uid or _ANY_UUID}".encode())
    if len(metadata.name.encode()) + others <= _LONGEST_DIRECTORY_NAME:
        return ""
    return (
        f"must be no more than {_LONGEST_DIRECTORY_NAME - others} characters with this namespace and UID, "
        f"since the three name the directory of the pod's logs"
    )


def check_labels(labels: Mapping[str, str], path: str) -> Iterator[Problem]:
    """Check keys and values of labels, or of a node selector."""
    for key, value in labels.items():
        if wrong := syntax.qualified_name(key) or syntax.label_value(value):
            yield Problem(f"{path}[{key[:80]}]", wrong)


def check_selector(selector: LabelSelector | None, path: str) -> Iterator[Problem]:
    """Check a label selector, if there is one."""
    if selector is None:
        return
    yield from check_labels(selector.match_labels, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.match_expressions):
        here = f"{path}.matchExpressions[{index}]"
        if wrong := syntax.qualified_name(requirement.key):
            yield Problem(f"{here}.key", wrong)
        if requirement.operator is None:
            yield Problem(f"{here}.operator", "required")
        elif requirement.operator in ("In", "NotIn") and not requirement.values:
            yield Problem(f"{here}.values", f"required with operator {requirement.operator}")
        elif requirement.operator in ("Exists", "DoesNotExist") and requirement.values:
            yield Problem(f"{here}.values", f"must not be set with operator {requirement.operator}")
        yield from check_label_values(requirement.values, f"{here}.values")


def check_label_values(values: tuple[str, ...], path: str) -> Iterator[Problem]:
    """Check the values of a label's condition."""
    for index, value in enumerate(values):
        if wrong := syntax.label_value(value):
            yield Problem(f"{path}[{index}]", wrong)


def check_annotations(annotations: Mapping[str, str], path: str) -> Iterator[Problem]:
    """Check keys of annotations, and their total size."""
    size = 0
    for key, value in annotations.items():
        size += len(key.encode()) + len(value.encode())
        # Unlike a label's key, an annotation's is converted to lower case first.
        if wrong := syntax.qualified_name(key.lower()):
            yield Problem(f"{path}[{key[:80]}]", wrong)
    if size > LARGEST_ANNOTATIONS:
        yield Problem(path, "must be no more than 256 KiB in all")
