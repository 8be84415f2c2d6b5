"""Every field of a workflow's state and every member of its published state has a reader.

State that nobody reads has no effect. No other test would notice that a signal's data is stored but never used.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel

import syncpod
import workflows
from syncpod.temporal.workflow_watch import Published
from workflows.fleet.node_state import FleetNodeState
from workflows.fleet.workload_state import KnownPod, WorkloadState
from workflows.node.state import NodeState
from workflows.pod.published import PublishedPod
from workflows.pod.state import PodState

ROOTS: Final = tuple(Path(next(iter(package.__path__))) for package in (syncpod, workflows))
READ_IN_SNAPSHOTS: Final = {"cordoned_by"}
"""Read by name from the snapshot on the node's disk (`syncpod.node.recorded_events`)."""
CONTENT: Final = {field.name for field in dataclasses.fields(PublishedPod)} - {"is_gone"}
"""The fields of a published state, which its members show to the agent."""


class Reads(ast.NodeVisitor):
    """Counts the reads of attributes in a module, except those that only make the attribute's own next value."""

    def __init__(self) -> None:
        self.found = Counter[str]()
        self._written = frozenset[str]()

    def visit_Assign(self, node: ast.Assign) -> None:
        """Read the value of an assignment without the attributes that it sets."""
        before, self._written = self._written, self._written | {
            each.attr for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Attribute)
        }  # fmt: skip
        self.visit(node.value)
        self._written = before

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Read the value only."""
        self.visit(node.value)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Count a read."""
        if isinstance(node.ctx, ast.Load) and node.attr not in self._written:
            self.found[node.attr] += 1
        self.generic_visit(node)


def reads(text: str) -> Counter[str]:
    """The attributes that a module reads, and how often."""
    visitor = Reads()
    visitor.visit(ast.parse(text))
    return visitor.found


@cache
def read_of() -> Mapping[Path, Counter[str]]:
    """The attributes that each module of the product reads."""
    return {path: reads(path.read_text()) for root in ROOTS for path in root.rglob("*.py")}


def test_a_field_that_is_only_set_has_no_reader() -> None:
    assert not reads("state.paused = True\nstate.paused = not state.paused\nstate.count += 1")["paused"]
    assert reads("if state.paused: pass")["paused"] == 1


@pytest.mark.parametrize("model", [PodState, NodeState, FleetNodeState, WorkloadState, KnownPod])
def test_every_field_of_a_workflows_state_has_a_reader(model: type[BaseModel]) -> None:
    read = Counter[str]()
    for path, found in read_of().items():
        if path.is_relative_to(ROOTS[1]):
            read += found
    assert {name for name in model.model_fields if not read[name]} <= READ_IN_SNAPSHOTS


def members(of: type[Any]) -> Iterator[str]:
    """The public members of a class."""
    return (name for name, _ in inspect.getmembers(of) if not name.startswith("_"))


def test_every_member_of_a_published_pod_is_in_a_port_of_its_readers() -> None:
    ports = {*members(Published)} | {name for port in protocols() for name in port}
    assert {*members(PublishedPod)} - ports - CONTENT == set()


def protocols() -> Iterator[list[str]]:
    """The members of each protocol in the agent's modules, which cannot import the workflows' own class."""
    for path in (ROOTS[0] / "agent").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and "Protocol" in {ast.unparse(base) for base in node.bases}:
                yield [each.name for each in node.body if isinstance(each, ast.FunctionDef)]


def test_every_member_of_a_published_state_has_a_reader_outside_the_workflows() -> None:
    outside = Counter[str]()
    for path, found in read_of().items():
        if path.is_relative_to(ROOTS[0]):
            outside += found
    assert [name for name in members(PublishedPod) if name not in CONTENT and not outside[name]] == []
