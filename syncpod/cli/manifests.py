"""Manifests from the command line: files, directories, standard input; all checked before any is used."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncpod.cli.failure import BadInput

if TYPE_CHECKING:
    from syncpod.objects import ObjectAdmission, ObjectRef
    from syncpod.pod import Admission, Manifest

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_STDIN: Final = "standard input"


@dataclass(frozen=True)
class Manifests:
    """What is to be applied, checked, in the order in which it was given."""

    pods: list[Admission]
    objects: list[ObjectAdmission]
    """ConfigMaps and Secrets; a pod may refer to one that stands after it."""


def admitted(sources: Sequence[str], namespace: str) -> Manifests:
    """Return what is in all sources, checked and with its defaults and warnings.

    `namespace` is for documents that name none; "" = ``default``. Raises BadInput with a line for each thing that is
    wrong, in whichever of the files.
    """
    from syncpod.objects import admit_object
    from syncpod.pod import Pod, PodInvalid, admit

    found, problems = _documents(sources, namespace)
    whole, seen = Manifests([], []), set()
    for source, document in found:
        what = f"{document.kind.lower()} {document.metadata.name}: " if document.metadata.name else ""
        try:
            if isinstance(document, Pod):
                admission = admit(document)
                whole.pods.append(admission)
                metadata = admission.pod.metadata
            else:
                taken = admit_object(document)
                whole.objects.append(taken)
                metadata = taken.object.metadata
        except PodInvalid as wrong:
            problems += [f"{source}: {what}{problem}" for problem in wrong.problems]
            continue
        key = document.kind, metadata.namespace, metadata.name
        if key in seen:
            problems.append(f"{source}: {document.kind.lower()} {metadata.namespace}/{metadata.name}: given twice")
        seen.add(key)
    _refuse(problems)
    if not found:
        raise BadInput(f"{_named(sources)}: no pod, configmap or secret in it")
    return whole


def named_in(sources: Sequence[str], namespace: str) -> tuple[list[tuple[str, str]], list[ObjectRef]]:
    """Return namespace and name of each pod in the sources, and each object, whatever else stands there.

    Raises BadInput.
    """
    from syncpod.objects import ref_of
    from syncpod.pod import Pod

    found, problems = _documents(sources, namespace)
    _refuse(problems)
    pods, objects = [], []
    for _, document in found:
        if isinstance(document, Pod):
            pods.append((document.metadata.namespace or "default", document.metadata.name))
        else:
            objects.append(ref_of(document))
    return pods, objects


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise BadInput("\n".join(problems))


def _named(sources: Sequence[str]) -> str:
    return ", ".join(_STDIN if source == "-" else source for source in sources)


def _documents(sources: Sequence[str], namespace: str) -> tuple[list[tuple[str, Manifest]], list[str]]:
    """Return the documents with their files, and a line for each file or document that cannot be read."""
    from syncpod.pod import ManifestError, load_documents

    texts, problems = _texts(sources)
    found: list[tuple[str, Manifest]] = []
    for source, text in texts:
        try:
            documents = load_documents(text, source=source)
        except ManifestError as wrong:
            problems.append(str(wrong))
            continue
        for document in documents:
            what, own = f"{document.kind.lower()} {document.metadata.name}", document.metadata.namespace
            if namespace and own not in ("", namespace):  # kubectl refuses these as well
                problems.append(f"{source}: {what}: metadata.namespace: is {own}, but --namespace asks for {namespace}")
            else:
                metadata = document.metadata.model_copy(update={"namespace": own or namespace})
                found.append((source, document.model_copy(update={"metadata": metadata})))
    return found, problems


def _texts(sources: Sequence[str]) -> tuple[list[tuple[str, bytes]], list[str]]:
    """Return each file's name and text, and a line for each that cannot be read."""
    texts, problems = [], []
    for source in sources:
        if source == "-":
            texts.append((_STDIN, sys.stdin.buffer.read()))
            continue
        if "://" in source:
            problems.append(f"{source}: URLs are not read; download it first, or pipe it into -f -")
            continue
        for path in _files(Path(source)):
            try:
                texts.append((str(path), path.read_bytes()))
            except OSError as error:
                problems.append(f"{path}: {os.strerror(error.errno or 0)}")
    return texts, problems


def _files(path: Path) -> list[Path]:
    """Return the file itself, or a directory's manifests in order of name; not those of directories in it."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file())
    if not files:
        raise BadInput(f"{path}: no {', '.join(_SUFFIXES)} file in this directory")
    return files
