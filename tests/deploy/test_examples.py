"""The example manifests are admitted unchanged, and their images are available to the tests."""

import json
from pathlib import Path

import pytest

from syncpod.cli.input.fleet_manifests import fleet_manifests
from syncpod.cli.input.manifests import admitted
from syncpod.fleet.workloads import kind_of
from syncpod.pod import EphemeralContainer, Pod, admit_pod, load_documents, pod_to_wire
from tests.runtimes.images import BUSYBOX

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_pod_is_admitted(path: Path) -> None:
    (document,) = load_documents(path.read_text(), source=path.name)
    assert isinstance(document, Pod)
    pod = admit_pod(pod_to_wire(document))
    assert pod.metadata.name == ("web" if path.stem == "pod" else path.stem)
    images = {container.image for container in (*pod.spec.init_containers, *pod.spec.containers)}
    assert {f"docker.io/library/{image}" for image in images} == {BUSYBOX}


def test_the_debugger_is_an_ephemeral_container_for_the_first_example() -> None:
    debugger = EphemeralContainer.model_validate(json.loads((EXAMPLES / "ephemeral" / "debugger.json").read_text()))
    (pod,) = load_documents((EXAMPLES / "pod.yaml").read_text())
    assert isinstance(pod, Pod)
    assert debugger.target_container_name in {container.name for container in pod.spec.containers}


def test_the_payload_for_other_clients_is_the_first_example() -> None:
    start = json.loads((EXAMPLES / "clients" / "start.json").read_text())
    changed = json.loads((EXAMPLES / "clients" / "pod.json").read_text())
    (pod,) = load_documents((EXAMPLES / "pod.yaml").read_text())
    assert isinstance(pod, Pod)
    assert admit_pod(start["pod"]) == admit_pod(pod_to_wire(pod))
    assert changed["metadata"]["labels"].pop("tier") == "front"
    assert changed == start["pod"]


def test_the_examples_directory_can_be_applied_as_a_whole() -> None:
    """Subdirectories are not read: examples that are not a single pod are in directories of their own."""
    assert len(admitted([str(EXAMPLES)], "").pods) == len(list(EXAMPLES.glob("*.yaml")))


def test_the_examples_of_a_fleet_are_admitted() -> None:
    found = fleet_manifests([str(EXAMPLES / "fleet")], "")
    assert [(len(found.pods), [each.kind for each in found.workloads])] == [(1, ["Deployment"])]
    images = {container.image for each in found.workloads for container in kind_of(each).template(each).spec.containers}
    images |= {container.image for each in found.pods for container in each.spec.containers}
    assert {f"docker.io/library/{image}" for image in images} == {BUSYBOX}
