"""Manifests from the command line: files, directories, standard input; all checked before any is used."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncpod.cli.failure import BadInput

if TYPE_CHECKING:
    from syncpod.pod import Admission, Pod

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_STDIN: Final = "standard input"


def admitted_pods(sources: Sequence[str], namespace: str) -> list[Admission]:
    """Return the pods of all sources, in order, checked and with their defaults and warnings.

    `namespace` is for pods that name none; "" = ``default``. Raises BadInput with a line for each thing that is wrong
    with the first wrong document, or of a kind that this version does not run.
    """
    from syncpod.pod import PodInvalid, admit

    pods, seen = [], set()
    for source, pod in _pods(sources, namespace):
        named = f"{source}: pod {pod.metadata.name}" if pod.metadata.name else source
        try:
            admission = admit(pod)
        except PodInvalid as wrong:
            raise BadInput("\n".join(f"{named}: {problem}" for problem in wrong.problems)) from None
        key = admission.pod.metadata.namespace, admission.pod.metadata.name
        if key in seen:
            raise BadInput(f"{source}: pod {key[0]}/{key[1]}: given twice")
        seen.add(key)
        pods.append(admission)
    if not pods:
        named = ", ".join(_STDIN if source == "-" else source for source in sources)
        raise BadInput(f"{named}: no pod in it")
    return pods


def named_pods(sources: Sequence[str], namespace: str) -> list[tuple[str, str]]:
    """Return namespace and name of each pod in the sources, whatever else stands there. Raises BadInput."""
    return [(pod.metadata.namespace or "default", pod.metadata.name) for _, pod in _pods(sources, namespace)]


def _pods(sources: Sequence[str], namespace: str) -> list[tuple[str, Pod]]:
    from syncpod.pod import ManifestError, Pod, load_documents

    found = []
    for source, text in _texts(sources):
        try:
            documents = load_documents(text, source=source)
        except ManifestError as wrong:
            raise BadInput(str(wrong)) from None
        for document in documents:
            if not isinstance(document, Pod):
                kind = type(document).__name__
                raise BadInput(f"{source}: {kind} {document.metadata.name}: this version takes no {kind}s, only pods")
            found.append((source, _in_namespace(document, source, namespace)))
    return found


def _in_namespace(pod: Pod, source: str, namespace: str) -> Pod:
    """Put a pod that names no namespace into the one asked for; refuse one that names another, as kubectl does."""
    own = pod.metadata.namespace
    if not namespace or own == namespace:
        return pod
    if own:
        raise BadInput(
            f"{source}: pod {pod.metadata.name}: metadata.namespace: is {own}, but --namespace asks for {namespace}"
        )
    return pod.model_copy(update={"metadata": pod.metadata.model_copy(update={"namespace": namespace})})


def _texts(sources: Sequence[str]) -> list[tuple[str, bytes]]:
    texts = []
    for source in sources:
        if source == "-":
            texts.append((_STDIN, sys.stdin.buffer.read()))
            continue
        for path in _files(Path(source)):
            try:
                texts.append((str(path), path.read_bytes()))
            except OSError as error:
                raise BadInput(f"{path}: {os.strerror(error.errno or 0)}") from None
    return texts


def _files(path: Path) -> list[Path]:
    """Return the file itself, or a directory's manifests in order of name; not those of directories in it."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file())
    if not files:
        raise BadInput(f"{path}: no {', '.join(_SUFFIXES)} file in this directory")
    return files
