"""Manifests from the command line: files, directories, standard input; all checked before any is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput
from syncpod.cli.input.deletion_request import Thing
from syncpod.cli.input.manifest_files import texts
from syncpod.cli.standard_streams import STDIN
from syncpod.objects import admit_object, ref_of
from syncpod.pod import Admission, ManifestErrors, OtherKind, Pod, PodInvalid, admit, load_documents, with_defaults
from syncpod.pod.problems import in_ascii, lines
from syncpod.pod.validation.metadata import check_name

if TYPE_CHECKING:
    from syncpod.objects import ObjectAdmission
    from syncpod.pod import EphemeralContainer, Manifest

_LONGEST_NAME: Final = 80


@dataclass(frozen=True)
class Manifests:
    """The objects to apply, checked, in the given order."""

    pods: list[Admission]
    """The pods, with ephemeral containers, which `temporal.ephemeral_containers` compares with the running pod's."""
    objects: list[ObjectAdmission]
    """ConfigMaps and Secrets; a pod may refer to an object that comes later."""


def admitted(
    sources: Sequence[str], namespace: str, *, recursive: bool = False, ignore_other_kinds: bool | None = None
) -> Manifests:
    """Return the objects of all sources, checked, with defaults and warnings.

    `namespace` is for documents that name none; "" = ``default``. With `ignore_other_kinds`, objects of other kinds
    are left out with a note; None = the command has no such flag. Raises BadInput with a line for each problem in all
    files.
    """
    found, problems = _documents(sources, namespace, recursive=recursive, ignore_other_kinds=ignore_other_kinds)
    whole, seen = Manifests([], []), set()
    for source, document in found:
        name = in_ascii(document.metadata.name, _LONGEST_NAME)
        what = f"{document.kind.lower()} {name}: " if name else ""
        try:
            if isinstance(document, Pod):
                admission = admit_document(document)
                whole.pods.append(admission)
                metadata = admission.pod.metadata
            else:
                taken = admit_object(document)
                whole.objects.append(taken)
                metadata = taken.object.metadata
        except PodInvalid as wrong:
            problems += [f"{source}: {what}{line}" for line in lines(wrong.problems)]
            continue
        key = document.kind, metadata.namespace, metadata.name
        if key in seen:
            problems.append(f"{source}: {document.kind.lower()} {metadata.namespace}/{metadata.name}: given twice")
        seen.add(key)
    _refuse(problems)
    if not found:
        raise BadInput(f"{_named(sources)}: no pod, configmap or secret in it")
    return whole


def named_in(sources: Sequence[str], namespace: str) -> list[Thing]:
    """Return the pods in the sources, then the ConfigMaps and Secrets, without checking more than their names.

    `namespace` is for documents that name none; "" = ``default``. Raises BadInput, also for an object without a name.
    """
    found, problems = _documents(sources, namespace)
    problems += [
        f"{source}: {problem}" for source, document in found for problem in check_name(document.metadata, "metadata")
    ]
    _refuse(problems)
    pods, objects = [], []
    for _, document in found:
        if isinstance(document, Pod):
            pods.append(Thing("Pod", document.metadata.namespace or "default", document.metadata.name))
        else:
            ref = ref_of(document)
            objects.append(Thing(ref.kind, ref.namespace, ref.name))
    return pods + objects


def with_ephemeral_containers(pod: Pod, containers: Sequence[EphemeralContainer]) -> Pod:
    """Return the pod with these ephemeral containers in place of its own."""
    spec = pod.spec.model_copy(update={"ephemeral_containers": tuple(containers)})
    return pod.model_copy(update={"spec": spec})


def admit_document(document: Pod) -> Admission:
    """Admit a pod, and keep its ephemeral containers unchecked. Raises PodInvalid."""
    ephemeral = document.spec.ephemeral_containers
    if not ephemeral:
        return admit(document)
    pod, warnings = admit(with_ephemeral_containers(document, ()))
    return Admission(with_ephemeral_containers(pod, with_defaults(document).spec.ephemeral_containers), warnings)


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise BadInput("\n".join(problems))


def _named(sources: Sequence[str]) -> str:
    return ", ".join(STDIN if source == "-" else source for source in sources)


def _documents(
    sources: Sequence[str], namespace: str, *, recursive: bool = False, ignore_other_kinds: bool | None = None
) -> tuple[list[tuple[str, Manifest]], list[str]]:
    """Return the documents with their files, and a line for each file or document that cannot be read."""
    problems: list[str] = []
    found: list[tuple[str, Manifest]] = []
    for source, text in texts(sources, problems, recursive=recursive):
        left_out: list[str] | None = [] if ignore_other_kinds else None
        try:
            documents = load_documents(text, source=source, left_out=left_out)
        except ManifestErrors as wrong:
            problems += _error_lines(wrong, has_flag=ignore_other_kinds is not None)
            continue
        if left_out:
            remark(f"Note: {source}: left out: {', '.join(left_out)}")
        for document in documents:
            own = document.metadata.namespace
            if namespace and own not in ("", namespace):  # as kubectl does
                what = f"{document.kind.lower()} {in_ascii(document.metadata.name, _LONGEST_NAME)}"
                given = in_ascii(own, _LONGEST_NAME)
                problems.append(
                    f"{source}: {what}: metadata.namespace: is {given}, but --namespace asks for {namespace}"
                )
            else:
                metadata = document.metadata.model_copy(update={"namespace": own or namespace})
                found.append((source, document.model_copy(update={"metadata": metadata})))
    return found, problems


def _error_lines(wrong: ManifestErrors, *, has_flag: bool) -> list[str]:
    """Return a line for each error; with `has_flag`, lines about other kinds name the flag that leaves these out."""
    lines = str(wrong).split("\n")
    if has_flag:
        for at, error in enumerate(wrong.errors[: len(lines)]):
            if isinstance(error, OtherKind) and lines[at] == str(error):
                lines[at] += "; --ignore-other-kinds leaves it out"
    return lines
