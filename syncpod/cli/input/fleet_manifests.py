"""Manifests for a fleet: pods, and the workloads that it keeps; all checked before any is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from syncpod.cli.failure import BadInput
from syncpod.cli.input.deletion_request import Thing
from syncpod.cli.input.manifest_files import texts
from syncpod.fleet.workload_traits import POD, TEMPLATED, one_of
from syncpod.fleet.workloads import admit_workload
from syncpod.objects import admit_object
from syncpod.pod import ManifestError, Pod, PodInvalid
from syncpod.pod.documents import read_documents
from syncpod.pod.parse import parse_config_map, parse_secret
from syncpod.pod.problems import in_ascii, lines

if TYPE_CHECKING:
    from syncpod.fleet.workloads import Workload
    from syncpod.pod import ConfigMap, Secret

_KINDS = (POD.name, *TEMPLATED, "ConfigMap", "Secret")
_NOTHING = f"no {one_of(tuple(kind.lower() for kind in _KINDS))} in it"
_LONGEST_NAME: Final = 80


@dataclass(frozen=True)
class FleetManifests:
    """The objects to apply to a fleet, checked, in the given order."""

    pods: list[Pod]
    workloads: list[Workload]
    objects: list[ConfigMap | Secret]
    warnings: list[str]


def fleet_manifests(sources: Sequence[str], namespace: str, *, recursive: bool = False) -> FleetManifests:
    """Return the pods and workloads of all sources, with their defaults.

    `namespace` is for documents that name none; "" = ``default``. With `recursive`, directories in a directory are read
    too. Raises BadInput with a line for each problem.
    """
    problems: list[str] = []
    found, seen = FleetManifests([], [], [], []), set[tuple[str, str, str]]()
    for source, number, document in _documents(sources, problems, recursive=recursive):
        problems += [f"{_place(source, number, document)}: {why}" for why in _take(found, seen, document, namespace)]
    if problems:
        raise BadInput("\n".join(problems))
    if not found.pods and not found.workloads and not found.objects:
        raise BadInput(f"{', '.join(sources)}: {_NOTHING}")
    return found


def named_in(sources: Sequence[str], namespace: str) -> list[Thing]:
    """Return the object of each document of all sources, each once, without checking the rest.

    `namespace` is for documents that name none; "" = ``default``. Raises BadInput with a line for each problem.
    """
    problems: list[str] = []
    found: list[Thing] = []
    for source, number, document in _documents(sources, problems):
        where = _place(source, number, document)
        kind, wrong = _kind_of(document)
        if not wrong:
            document, wrong = _in_namespace(document, namespace)
        meta = document.get("metadata") if not wrong else None
        name = meta.get("name") if isinstance(meta, dict) else None
        if wrong or not isinstance(meta, dict) or not isinstance(name, str) or not name:
            problems.append(f"{where}: {wrong or 'metadata.name: required'}")
            continue
        found.append(Thing(kind, str(meta["namespace"]), name))
    if problems:
        raise BadInput("\n".join(problems))
    if not found:
        raise BadInput(f"{', '.join(sources)}: {_NOTHING}")
    return list(dict.fromkeys(found))


def _documents(
    sources: Sequence[str], problems: list[str], *, recursive: bool = False
) -> Iterator[tuple[str, int, Any]]:
    """Yield each document, or item of a List, with its file and its number there.

    Add a line to `problems` for each unreadable file.
    """
    for source, text in texts(sources, problems, recursive=recursive):
        try:
            documents = list(read_documents(text, source=source))
        except ManifestError as wrong:
            problems.append(str(wrong))
            continue
        for number, document in documents:
            for each in _opened(document):
                yield source, number, each


def _place(source: str, number: int, document: Any) -> str:
    """Return how problems name a document: by its file, and by its kind and name, or its number if it has none."""
    kind, wrong = _kind_of(document)
    meta = document.get("metadata") if not wrong else None
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(name, str) or not name:
        return f"{source}: document {number}"
    return f"{source}: {kind.lower()} {in_ascii(name, _LONGEST_NAME)}"


def _kind_of(document: Any) -> tuple[str, str]:
    """Return the kind of a document, and the problem with the kind; "" = none."""
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind not in _KINDS:
        return "", f"kind: must be {', '.join(_KINDS)} or List, not {str(kind)[:80]}"
    return kind, ""


def _opened(document: Any) -> Sequence[Any]:
    items = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else None
    return items if isinstance(items, list) else [document]


def _take(found: FleetManifests, seen: set[tuple[str, str, str]], document: Any, namespace: str) -> list[str]:
    """Add one document to `found`, and its kind and names to `seen`; return the problems with it."""
    kind, wrong = _kind_of(document)
    if not wrong:
        document, wrong = _in_namespace(document, namespace)
    if wrong:
        return [wrong]
    try:
        if kind in ("ConfigMap", "Secret"):
            read = parse_secret if kind == "Secret" else parse_config_map
            taken, warnings = admit_object(read(document))
            meta = taken.metadata
            found.objects.append(taken)
        else:
            workload, warnings = admit_workload(document)
            meta = workload.metadata
            if isinstance(workload, Pod):
                found.pods.append(workload)
            else:
                found.workloads.append(workload)
    except PodInvalid as error:
        return lines(error.problems)
    if (key := (kind, meta.namespace, meta.name)) in seen:
        # If two Pods have one name, one with a nodeName would go to that node, and the other would be placed too.
        return [f"given twice in namespace {meta.namespace}"]
    seen.add(key)
    found.warnings.extend(f"{kind.lower()} {meta.name}: {warning}" for warning in warnings)
    return []


def _in_namespace(document: dict[str, Any], namespace: str) -> tuple[dict[str, Any], str]:
    """Return a document with its namespace filled in, and the problem with its own namespace; "" = none."""
    meta = document.get("metadata")
    if not isinstance(meta, dict):
        return document, ""  # the parser reports the problem
    own = meta.get("namespace") or namespace or "default"
    if namespace and own != namespace:
        return document, f"metadata.namespace: is {own}, but --namespace asks for {namespace}"
    return {**document, "metadata": {**meta, "namespace": own}}, ""
