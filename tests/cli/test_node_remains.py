"""`syncpod node` names what is left of deleted pods and cannot be removed: no workflow shows it any more."""

from __future__ import annotations

from pathlib import Path

from syncpod.node.report import NodeReport, Remains, write_node_report
from tests.cli.conftest import program


def test_what_cannot_be_removed_is_named_with_the_reason(tmp_path: Path) -> None:
    environ = {"SYNCPOD_STATE_DIR": str(tmp_path)}
    write_node_report(tmp_path, NodeReport())
    assert "Remains" not in program("node", environ=environ).out
    left = Remains(namespace="default", name="web", uid="u1", why="[Errno 16] Device or resource busy")
    write_node_report(tmp_path, NodeReport(remains=(left,)))
    said = program("node", environ=environ).out.splitlines()
    title = said.index("Remains of pods that are gone:")
    assert said[title + 2].split() == ["default/web", "u1", "[Errno", "16]", "Device", "or", "resource", "busy"]
