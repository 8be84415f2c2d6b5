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

    `namespace` is for pods that name none; "" = ``default``. Raises BadInput with a line for each thing that is wrong,
    in whichever of the files.
    """
    from syncpod.pod import PodInvalid, admit

    found, problems = _pods(sources, namespace)
    pods, seen = [], set()
    for source, pod in found:
        named = f"{source}: pod {pod.metadata.name}" if pod.metadata.name else source
        try:
            admission = admit(pod)
        except PodInvalid as wrong:
            problems += [f"{named}: {problem}" for problem in wrong.problems]
            continue
        key = admission.pod.metadata.namespace, admission.pod.metadata.name
        if key in seen:
            problems.append(f"{source}: pod {key[0]}/{key[1]}: given twice")
        seen.add(key)
        pods.append(admission)
    _refuse(problems)
    if not pods:
        named = ", ".join(_STDIN if source == "-" else source for source in sources)
        raise BadInput(f"{named}: no pod in it")
    return pods


def named_pods(sources: Sequence[str], namespace: str) -> list[tuple[str, str]]:
    """Return namespace and name of each pod in the sources, whatever else stands there. Raises BadInput."""
    found, problems = _pods(sources, namespace)
    _refuse(problems)
    return [(pod.metadata.namespace or "default", pod.metadata.name) for _, pod in found]


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise BadInput("\n".join(problems))


def _pods(sources: Sequence[str], namespace: str) -> tuple[list[tuple[str, Pod]], list[str]]:
    """Return the pods with their files, and a line for each file or document that is none."""
    from syncpod.pod import ManifestError, Pod, load_documents

    texts, problems = _texts(sources)
    found = []
    for source, text in texts:
        try:
            documents = load_documents(text, source=source)
        except ManifestError as wrong:
            problems.append(str(wrong))
            continue
        for document in documents:
            name, own = document.metadata.name, document.metadata.namespace
            if not isinstance(document, Pod):
                kind = type(document).__name__
                problems.append(f"{source}: {kind} {name}: this version takes no {kind}s, only pods")
            elif namespace and own not in ("", namespace):  # kubectl refuses these as well
                problems.append(
                    f"{source}: pod {name}: metadata.namespace: is {own}, but --namespace asks for {namespace}"
                )
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
