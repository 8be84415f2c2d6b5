"""Chooses a few manifests that together have every field. A usual run applies only these; a full run applies all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import yaml

from qa.manifests import documentation, examples
from qa.manifests.cases import Case, Manifests
from tests.runtimes.selection import ALL, asked_for

Named = TypeVar("Named")

_OF_ONES_OWN = ("labels", "annotations", "matchLabels", "data", "stringData", "nodeSelector", "limits", "requests")
"""Maps whose keys are chosen by the manifest's author, so that the keys do not count as fields."""

_ONE_OF_FEW = re.compile("([A-Z][a-z]+)+")
_TEXT = re.compile(r"(\[\]|\.value|\.name|\.\*)$")
"""Paths whose values are chosen by the manifest's author, so that the values do not count."""


def tried(*directories: Manifests) -> tuple[Manifests, ...]:
    """Return the manifests of each directory that this run applies."""
    if asked_for() == ALL:
        return directories
    chosen = fewest([(fields(each, case), (each, case)) for each in directories for case in each.cases])
    return tuple(
        replace(each, cases=tuple(case for case in each.cases if (each, case) in chosen)) for each in directories
    )


def fewest(candidates: Sequence[tuple[frozenset[str], Named]]) -> list[Named]:
    """Return a few candidates that together have every field.

    The algorithm is greedy: each choice is the candidate with the most fields that are still missing.
    """
    missing = frozenset().union(*(found for found, _ in candidates))
    chosen: list[Named] = []
    while missing:
        found, name = max(candidates, key=lambda each: len(each[0] & missing))
        chosen.append(name)
        missing -= found
    return chosen


def fields(manifests: Manifests, case: Case) -> frozenset[str]:
    """Return the paths of a manifest's fields, with the value if it is a boolean or a word such as `Never`."""
    text = (manifests.directory / case.path).read_text()
    return frozenset(
        f"{document['kind']}{path}"
        for document in yaml.load_all(text, yaml.CSafeLoader)
        if document
        for path in _paths(document, "")
    )


def _paths(value: Any, at: str) -> Iterator[str]:
    if isinstance(value, dict):
        is_free = at.rpartition(".")[2] in _OF_ONES_OWN
        for key, inner in value.items():
            yield from _paths(inner, f"{at}.*" if is_free else f"{at}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, f"{at}[]")
    elif isinstance(value, bool) or (isinstance(value, str) and _ONE_OF_FEW.fullmatch(value) and not _TEXT.search(at)):
        yield f"{at}={value}"
    else:
        yield at


DOCUMENTED, EXEMPLIFIED = tried(documentation.MANIFESTS, examples.MANIFESTS)
"""Those of the documentation's manifests and of the examples that this run applies."""
