"""Manifests for a fleet: fields that only a fleet reads are checked before anything is applied; messages are true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from syncpod.cli.failure import BadInput
from syncpod.cli.input.fleet_manifests import FleetManifests, fleet_manifests
from syncpod.fleet.when_lost import WHEN_LOST

SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
APART = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {}}]}


def read(tmp_path: Path, annotations: dict[str, str] | None = None, **spec: Any) -> FleetManifests:
    """Read a ConfigMap and a pod."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}], **spec},
    }
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    path = tmp_path / "pods.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [settings, pod]}))
    return fleet_manifests([str(path)], "")


@pytest.mark.parametrize("spec", [{}, {"nodeName": "n1"}])
def test_an_unknown_rule_for_a_lost_node_is_refused_before_anything_is_applied(
    tmp_path: Path, spec: dict[str, str]
) -> None:
    with pytest.raises(BadInput, match=r"pod web: metadata.annotations\[syncpod.dev/when-lost\]: must be wait, "):
        read(tmp_path, {WHEN_LOST: "stop-after"}, **spec)


def test_a_field_that_the_placement_uses_is_not_said_to_have_no_effect(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"topologySpreadConstraints": [SPREAD], "affinity": {"podAntiAffinity": APART}}
    assert read(tmp_path, **asked).warnings == []
    said = read(tmp_path, nodeName="n1", **asked).warnings
    assert [each.split(": ")[1] for each in said] == [
        "spec.affinity.podAntiAffinity",
        "spec.topologySpreadConstraints",
    ]


@pytest.mark.parametrize("spec", [{}, {"nodeName": "n1"}])
def test_two_documents_of_one_name_are_refused_before_anything_is_applied(tmp_path: Path, spec: dict[str, str]) -> None:
    containers = [{"name": "main", "image": "busybox:1"}]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": containers, **each}}
        for each in ({}, spec)
    ]
    path = tmp_path / "pods.yaml"
    path.write_text("\n---\n".join(map(json.dumps, pods)))
    with pytest.raises(BadInput, match=r"pods\.yaml: pod web: given twice in namespace default"):
        fleet_manifests([str(path)], "")


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
@pytest.mark.parametrize(
    ("selector", "why"),
    [
        ({}, "spec.selector: empty selector is invalid for {kind}"),
        ({"matchLabels": {"app": "b"}}, "spec.template.metadata.labels: `selector` does not match template `labels`"),
    ],
)
def test_a_refused_selector_is_told_with_its_file_and_its_workload(
    tmp_path: Path, kind: str, selector: dict[str, Any], why: str
) -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "busybox:1"}]}}
    good, bad = (
        {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": {"template": template} | spec}
        for name, spec in (("good", {"selector": {"matchLabels": {"app": "a"}}}), ("logs", {"selector": selector}))
    )
    path = tmp_path / "all.yaml"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [good, bad]}))
    with pytest.raises(BadInput) as refused:
        fleet_manifests([str(path)], "")
    assert str(refused.value) == f"{path}: {kind.lower()} logs: {why.format(kind=kind.lower())}"


def test_a_document_without_a_name_is_told_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}}))
    with pytest.raises(BadInput, match=rf"^{path}: document 1: metadata.name: required"):
        fleet_manifests([str(path)], "")


def test_a_warning_names_its_object(tmp_path: Path) -> None:
    (warning,) = read(tmp_path, nodeName="n1", affinity={"podAntiAffinity": APART}).warnings
    assert warning.startswith("pod web: spec.affinity.podAntiAffinity: ")
