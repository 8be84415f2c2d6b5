"""The notes about orphans name the way to end one whose manifest is not there, and promise a workflow only if it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from syncpod.cli.orphan_notes import orphan_notes, without_workflow
from syncpod.node.orphan_mark import NO_WORKFLOW, marked
from syncpod.settings.worker_record import WorkerRecord, write_worker_record

_BY_ITSELF = "the node gives it one again by itself"


def static(name: str) -> dict[str, Any]:
    """An orphan that was made for a manifest."""
    annotations = {"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "u1"}
    return marked(
        {"metadata": {"name": name, "namespace": "default", "uid": "u1", "annotations": annotations}}, NO_WORKFLOW
    )


@pytest.fixture
def manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a node that has made the pod web-n1 of web.yaml."""
    state, manifests = tmp_path / "state", tmp_path / "manifests"
    for directory in (state, manifests):
        directory.mkdir()
    monkeypatch.setenv("SYNCPOD_STATE_DIR", str(state))
    _serve(state, str(manifests))
    (manifests / "web.yaml").write_text("")
    made = {str(manifests / "web.yaml"): {"namespace": "default", "name": "web-n1"}}
    (state / "manifest-pods.json").write_text(json.dumps(made))
    return manifests


def _serve(state: Path, manifests: str) -> None:
    given: dict[str, Any] = dict.fromkeys(
        ("identity", "node", "endpoint", "runtime", "address", "namespace", "task_queue"), ""
    )
    write_worker_record(state, WorkerRecord(pid=0, boot=1, manifest_dir=manifests, **given))


def test_an_orphan_is_given_a_workflow_only_while_its_manifest_is_in_the_followed_directory(manifests: Path) -> None:
    """Without its manifest, only `prune` ends the pod, and the note must not hide that."""
    assert _BY_ITSELF in without_workflow(static("web-n1"))
    assert "prune db-n1" in without_workflow(static("db-n1"))
    _serve(manifests.parent / "state", "")
    assert "prune web-n1" in without_workflow(static("web-n1")), "its directory is no longer followed"
    _serve(manifests.parent / "state", str(manifests))
    (manifests / "web.yaml").unlink()
    (note,) = orphan_notes([static("web-n1")])
    assert "prune web-n1" in note and _BY_ITSELF not in note
    (manifests.parent / "state" / "manifest-pods.json").unlink()
    assert "prune web-n1" in without_workflow(static("web-n1"))
