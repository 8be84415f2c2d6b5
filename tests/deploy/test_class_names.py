"""Public classes of the product have different names, except for listed pairs."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = ("syncpod", "workflows", "activities")
RUNTIME: Final = "syncpod/runtime/"
"""The embedded runtime is a program that no other package imports, so its names are compared separately."""
SHARED: Final[Mapping[str, str]] = {
    "Failure": "an exception of the command; a column of the table of steps, which nothing else names",
    "NodeCondition": "one thing: the rooms node and messages both need its form, and neither may import the other",
    "Place": "an update of a fleet's node; a column of the table of steps, which nothing else names",
    "Pleg": "the signal has the name of the part that sends it",
}
"""Names that two classes may share, each with the reason."""


def public_classes() -> Iterator[tuple[str, str]]:
    """Public classes' names with their files, without Protocols, which may have the name of a class."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if path.name.endswith(("_pb2.py", "_pb2_grpc.py")):
                continue
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not is_port(node):
                    yield node.name, str(path.relative_to(ROOT))


def is_port(node: ast.ClassDef) -> bool:
    """Return whether a class is a Protocol."""
    bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in bases)


def test_no_two_public_classes_have_one_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for name, path in public_classes():
        found[f"{name} of the runtime" if path.startswith(RUNTIME) else name].append(path)
    twice = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert {name: paths for name, paths in twice.items() if name not in SHARED} == {}
    assert sorted(set(SHARED) - set(twice)) == []
